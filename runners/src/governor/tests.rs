//! The rule's properties, and the worked examples of its page.

use jobs::job::Limits;
use proptest::prelude::*;

use super::*;

fn history(open: &[u64], wall_ms: u64, tokens: u64) -> History {
    History { open: open.to_vec(), spent: Spent { tokens, wall_ms, churn_bytes: 400 }, fan_out: 1 }
}

#[test]
fn the_first_iteration_goes_when_something_is_red() {
    assert!(check(&history(&[3], 2_000, 0), &Limits::default()).goes());
}

#[test]
fn steady_progress_goes_on_to_the_last_iteration() {
    let decision = check(&history(&[10, 7, 5, 3, 1], 60_000, 40_000), &Limits::default());
    assert!(decision.goes(), "{decision:?}");
}

#[test]
fn two_iterations_without_progress_halt_and_no_requeue_is_recommended() {
    let decision = check(&history(&[4, 4, 5], 60_000, 1_000), &Limits::default());
    assert_eq!(decision.ruling, Ruling::Stop(Bound::NoProgress));
    assert!(!decision.requeue_recommended());
}

#[test]
fn one_iteration_without_progress_is_borne() {
    assert!(check(&history(&[4, 4], 60_000, 1_000), &Limits::default()).goes());
}

#[test]
fn a_budget_that_ends_amid_progress_recommends_a_requeue() {
    let decision = check(&history(&[9, 7, 5, 4, 3, 2], 60_000, 1_000), &Limits::default());
    assert_eq!(decision.ruling, Ruling::Stop(Bound::Budget));
    assert!(decision.requeue_recommended());
}

#[test]
fn an_iteration_that_would_outlast_the_time_is_not_begun() {
    let limits = Limits { max_runtime_ms: 100_000, ..Limits::default() };
    let decision = check(&history(&[9, 7], 60_000, 0), &limits);
    assert_eq!(decision.ruling, Ruling::Stop(Bound::Budget));
}

#[test]
fn every_figure_of_the_formula_is_shown() {
    let decision = check(&history(&[4, 2], 60_000, 1_000), &Limits::default());
    let lines: Vec<_> = decision.figures.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    open failures, admitted tree then each iteration: 4 2
    iterations: 1
    iterations with progress: 1
    iterations without progress up to now: 0
    resolved: 2
    still to resolve: 2
    chance: 0.667
    reach: 1.000
    value: 0.667
    tokens spent: 1000 of 500000
    milliseconds spent: 60000 of 1800000
    patch bytes applied: 400
    fan-out: 1
    share of the tokens left: 0.002
    share of the time left: 0.034
    share of the churn left: 0.000
    cost: 0.015
    net: 0.652
    ");
}

prop_compose! {
    fn any_history()(
        open in prop::collection::vec(0u64..40, 1..8),
        tokens in 0u64..600_000,
        wall_ms in 0u64..2_000_000,
        churn_bytes in 0u64..(6 << 20),
        fan_out in 0u32..5,
    ) -> History {
        History { open, spent: Spent { tokens, wall_ms, churn_bytes }, fan_out }
    }
}

proptest! {
    #[test]
    fn more_cost_never_turns_a_refusal_into_a_go(
        history in any_history(),
        tokens in 0u64..300_000,
        wall_ms in 0u64..900_000,
        churn_bytes in 0u64..(1 << 20),
        fan_out in 0u32..3,
    ) {
        let mut dearer = history.clone();
        dearer.spent.tokens += tokens;
        dearer.spent.wall_ms += wall_ms;
        dearer.spent.churn_bytes += churn_bytes;
        dearer.fan_out += fan_out;
        let limits = Limits::default();
        prop_assert!(check(&history, &limits).goes() || !check(&dearer, &limits).goes());
    }

    #[test]
    fn no_progress_in_two_iterations_always_halts(
        start in any_history(),
        worse in prop::collection::vec(0u64..5, PATIENCE),
    ) {
        let mut history = start;
        let low = history.open.iter().copied().min().unwrap_or(0);
        history.open.extend(worse.iter().map(|more| low + more));
        prop_assert_eq!(check(&history, &Limits::default()).ruling, Ruling::Stop(Bound::NoProgress));
    }

    #[test]
    fn the_hard_caps_always_hold(history in any_history()) {
        let limits = Limits::default();
        if check(&history, &limits).goes() {
            prop_assert!(history.spent.tokens < limits.max_tokens);
            prop_assert!(history.spent.wall_ms < limits.max_runtime_ms);
            prop_assert!(history.open.len() as u64 - 1 < u64::from(limits.max_iterations));
        }
    }

    #[test]
    fn nothing_red_is_never_worked_on(mut history in any_history()) {
        history.open.push(0);
        prop_assert!(!check(&history, &Limits::default()).goes());
    }
}
