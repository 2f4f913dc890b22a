//! The net-potential-gain rule: whether the next iteration is worth its cost.
//!
//! Pure: figures in, a decision with every figure it used out. The formula, its reasons and worked
//! examples stand in `docs/GOVERNOR.md`; a change here is a change there.

use jobs::job::Limits;
use jobs::verdict::{CheckOutcome, Checked, Severity, TestState};

/// Iterations in a row that may pass without a new low of open failures.
pub const PATIENCE: usize = 2;

/// How much each share of a remaining budget weighs in the cost of an iteration. They add up to 1.
const WEIGHT_TOKENS: f64 = 0.4;
const WEIGHT_TIME: f64 = 0.4;
const WEIGHT_CHURN: f64 = 0.2;

/// What a run has used since it was first claimed, over all restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    pub tokens: u64,
    pub wall_ms: u64,
    /// Bytes of all patches that were applied.
    pub churn_bytes: u64,
}

/// What the governor knows when it decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Open failures of the tree as it was admitted, then after each iteration.
    pub open: Vec<u64>,
    pub spent: Spent,
    /// Candidates that the next iteration would work on side by side; at least 1.
    pub fan_out: u32,
}

/// What the governor says, with its figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    pub ruling: Ruling,
    /// One sentence for people.
    pub why: String,
    /// Every figure that the formula used, by name, in the order of the formula.
    pub figures: Vec<(String, String)>,
}

/// Go on, or stop and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ruling {
    Go,
    Stop(Bound),
}

/// What bound the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The last iterations brought nothing.
    NoProgress,
    /// A hard cap is reached, or the next iteration would pass it.
    Budget,
    /// What it would cost is more than what it may bring.
    Gain,
}

impl Decision {
    /// Whether the run goes on.
    pub fn goes(&self) -> bool {
        matches!(self.ruling, Ruling::Go)
    }

    /// Whether the same job with a fresh budget has a chance: budget bound it, not lack of progress.
    pub fn requeue_recommended(&self) -> bool {
        match self.ruling {
            Ruling::Go | Ruling::Stop(Bound::NoProgress | Bound::Gain) => false,
            Ruling::Stop(Bound::Budget) => true,
        }
    }
}

/// How many things are still red: failing tests, error diagnostics, and checks that show neither.
pub fn open_failures(checked: &Checked) -> u64 {
    let count = |result: &jobs::verdict::CheckResult| -> u64 {
        let report = &result.report;
        match report.outcome {
            CheckOutcome::Passed => 0,
            CheckOutcome::Failed | CheckOutcome::Inconclusive(_) | CheckOutcome::Unsupported(_) => {
                let tests = report.tests.iter().filter(|test| is_red(test.state)).count();
                let errors =
                    report.diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
                (tests.max(report.failures.len()) + errors).max(1) as u64
            }
        }
    };
    checked.checks.iter().map(count).fold(0, u64::saturating_add)
}

const fn is_red(state: TestState) -> bool {
    match state {
        TestState::Failed | TestState::Errored => true,
        TestState::Passed | TestState::Skipped | TestState::ExpectedFailure => false,
    }
}

/// Decides before an iteration.
pub fn check(history: &History, limits: &Limits) -> Decision {
    let gain = Gain::of(history, limits);
    let cost = Cost::of(history, limits);
    let ruling = rule(history, limits, &gain, &cost);
    let why = sentence(ruling, history, limits, &gain, &cost);
    let mut figures = gain.figures(history);
    figures.extend(cost.figures(history, limits));
    figures.push(("net".to_owned(), format!("{:.3}", gain.value - cost.total)));
    Decision { ruling, why, figures }
}

fn rule(history: &History, limits: &Limits, gain: &Gain, cost: &Cost) -> Ruling {
    if gain.idle >= PATIENCE {
        return Ruling::Stop(Bound::NoProgress);
    }
    let bound = gain.iterations >= u64::from(limits.max_iterations) || cost.passes_a_cap;
    if bound {
        // A run that never got anywhere is not bound by its budget.
        let stuck = gain.iterations > 0 && gain.advances == 0;
        return Ruling::Stop(if stuck { Bound::NoProgress } else { Bound::Budget });
    }
    if history.open.last().is_some_and(|&open| open > 0) && gain.value > cost.total {
        Ruling::Go
    } else {
        Ruling::Stop(Bound::Gain)
    }
}

/// What the next iterations may bring.
#[derive(Clone, Copy, Debug)]
struct Gain {
    iterations: u64,
    /// Iterations that set a new low.
    advances: u64,
    /// Iterations in a row, up to now, that did not.
    idle: usize,
    open: u64,
    resolved: u64,
    chance: f64,
    reach: f64,
    value: f64,
}

impl Gain {
    fn of(history: &History, limits: &Limits) -> Self {
        let first = history.open.first().copied().unwrap_or(0);
        let (mut low, mut advances, mut idle) = (first, 0, 0);
        for &open in history.open.iter().skip(1) {
            if open < low {
                (low, advances, idle) = (open, advances + 1, 0);
            } else {
                idle += 1;
            }
        }
        let iterations = history.open.len().saturating_sub(1) as u64;
        let open = history.open.last().copied().unwrap_or(0);
        let resolved = first.saturating_sub(open);
        let left = u64::from(limits.max_iterations).saturating_sub(iterations);
        let chance = (advances + 1) as f64 / (iterations + 2) as f64;
        let pace = (resolved + 1) as f64 / iterations.max(1) as f64;
        let reach = if iterations == 0 { 1.0 } else { (left as f64 * pace / open.max(1) as f64).min(1.0) };
        Self { iterations, advances, idle, open, resolved, chance, reach, value: chance * reach }
    }

    fn figures(&self, history: &History) -> Vec<(String, String)> {
        let counts: Vec<_> = history.open.iter().map(u64::to_string).collect();
        vec![
            ("open failures, admitted tree then each iteration".to_owned(), counts.join(" ")),
            ("iterations".to_owned(), self.iterations.to_string()),
            ("iterations with progress".to_owned(), self.advances.to_string()),
            ("iterations without progress up to now".to_owned(), self.idle.to_string()),
            ("resolved".to_owned(), self.resolved.to_string()),
            ("still to resolve".to_owned(), self.open.to_string()),
            ("chance".to_owned(), format!("{:.3}", self.chance)),
            ("reach".to_owned(), format!("{:.3}", self.reach)),
            ("value".to_owned(), format!("{:.3}", self.value)),
        ]
    }
}

/// What the next iteration is likely to cost, as shares of what is left.
#[derive(Clone, Copy, Debug)]
struct Cost {
    tokens: f64,
    time: f64,
    churn: f64,
    total: f64,
    passes_a_cap: bool,
}

impl Cost {
    fn of(history: &History, limits: &Limits) -> Self {
        let iterations = history.open.len().saturating_sub(1) as u64;
        let fan_out = u64::from(history.fan_out.max(1));
        let spent = history.spent;
        // Candidates side by side cost tokens and churn each, and the wall time of one.
        let (tokens, tokens_over) = share(spent.tokens, limits.max_tokens, iterations, fan_out);
        let (time, time_over) = share(spent.wall_ms, limits.max_runtime_ms, iterations, 1);
        let churn_budget = limits.max_patch_bytes.saturating_mul(u64::from(limits.max_iterations));
        let (churn, churn_over) = share(spent.churn_bytes, churn_budget, iterations, fan_out);
        let total = WEIGHT_TOKENS * tokens + WEIGHT_TIME * time + WEIGHT_CHURN * churn;
        Self { tokens, time, churn, total, passes_a_cap: tokens_over || time_over || churn_over }
    }

    fn figures(&self, history: &History, limits: &Limits) -> Vec<(String, String)> {
        let spent = history.spent;
        vec![
            ("tokens spent".to_owned(), format!("{} of {}", spent.tokens, limits.max_tokens)),
            ("milliseconds spent".to_owned(), format!("{} of {}", spent.wall_ms, limits.max_runtime_ms)),
            ("patch bytes applied".to_owned(), spent.churn_bytes.to_string()),
            ("fan-out".to_owned(), history.fan_out.max(1).to_string()),
            ("share of the tokens left".to_owned(), format!("{:.3}", self.tokens)),
            ("share of the time left".to_owned(), format!("{:.3}", self.time)),
            ("share of the churn left".to_owned(), format!("{:.3}", self.churn)),
            ("cost".to_owned(), format!("{:.3}", self.total)),
        ]
    }
}

/// The share of what is left that one more iteration of the average cost takes, and whether that
/// would pass the cap. A budget that was never touched costs nothing, even where it is zero: the
/// fixers need no tokens.
fn share(spent: u64, budget: u64, iterations: u64, fan_out: u64) -> (f64, bool) {
    if spent == 0 {
        return (0.0, false);
    }
    let next = spent.div_ceil(iterations.max(1)).saturating_mul(fan_out);
    let left = budget.saturating_sub(spent);
    // Before the first iteration nothing is known of its cost but that a spent budget buys none.
    if iterations == 0 {
        return (0.0, left == 0);
    }
    if left == 0 || next > left {
        return (1.0, true);
    }
    (next as f64 / left as f64, false)
}

fn sentence(ruling: Ruling, history: &History, limits: &Limits, gain: &Gain, cost: &Cost) -> String {
    let open = gain.open;
    match ruling {
        Ruling::Go => format!("{open} still red; value {:.2} against cost {:.2}", gain.value, cost.total),
        Ruling::Stop(Bound::NoProgress) => format!(
            "{open} still red and no progress in the last {} of {} iterations",
            gain.idle, gain.iterations
        ),
        Ruling::Stop(Bound::Budget) => format!(
            "{open} still red and the budget is spent: {} of {} iterations, {} of {} ms, {} of {} tokens",
            gain.iterations,
            limits.max_iterations,
            history.spent.wall_ms,
            limits.max_runtime_ms,
            history.spent.tokens,
            limits.max_tokens
        ),
        Ruling::Stop(Bound::Gain) => format!(
            "{open} still red; one more iteration may bring {:.2} and would cost {:.2}",
            gain.value, cost.total
        ),
    }
}

#[cfg(test)]
mod tests;
