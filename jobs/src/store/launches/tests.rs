use super::super::runs::{self, Claimed};
use super::super::testing::{LEASE, START, each_db, running, signed};
use super::*;
use crate::run::{Phase, RunState, Suspension};

fn launch(iteration: u32) -> NewLaunch {
    NewLaunch {
        id: LaunchId::fresh(START + i64::from(iteration)),
        iteration,
        agent: "fixers/1".to_owned(),
        input: Digest::of("task"),
        entry: signed("intent"),
        at: START,
    }
}

async fn intended(db: &Db, claimed: &Claimed) -> LaunchId {
    let launch = launch(0);
    let id = launch.id.clone();
    intend(db, &claimed.run, claimed.fence, launch).await.unwrap();
    id
}

async fn only(db: &Db, run: &RunId) -> LaunchState {
    let all = list(db, run).await.unwrap();
    assert_eq!(all.len(), 1);
    all[0].state.clone()
}

#[tokio::test]
async fn a_launch_goes_from_intent_to_result_and_each_step_is_in_the_journal() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let id = intended(&db, &claimed).await;
        let (run, fence) = (&claimed.run, claimed.fence);
        let (launched, exited) = (signed("launched"), signed("exited"));
        let change = |entry| Change { run, fence, launch: &id, entry, now: START };
        start(&db, change(&launched)).await.unwrap();
        assert_eq!(only(&db, run).await, LaunchState::Started);
        let twice = start(&db, change(&launched)).await;
        assert!(matches!(twice, Err(StoreError::Illegal(_))), "never started twice: {twice:?}");
        let proposal = Some(Digest::of("patch"));
        settle(&db, change(&exited), proposal, 0).await.unwrap();
        assert_eq!(only(&db, run).await, LaunchState::Settled { proposal, tokens: 0 });
        let journal = journal::list(&db, run).await.unwrap();
        assert_eq!(journal, [signed("intent"), signed("launched"), signed("exited")]);
    })
    .await;
}

#[tokio::test]
async fn launch_without_result_becomes_uncertain_and_suspends_its_run() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let id = intended(&db, &claimed).await;
        let (run, fence) = (&claimed.run, claimed.fence);
        let entry = signed("launched");
        start(&db, Change { run, fence, launch: &id, entry: &entry, now: START }).await.unwrap();
        assert!(runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap().is_none());
        assert_eq!(only(&db, run).await, LaunchState::Uncertain);
        let seen = runs::find(&db, run).await.unwrap().unwrap();
        assert_eq!(seen.state, RunState::Suspended { why: Suspension::UncertainLaunch });
        let late = settle(&db, Change { run, fence, launch: &id, entry: &entry, now: START }, None, 0).await;
        assert!(matches!(late, Err(StoreError::FenceLost { .. })), "{late:?}");
    })
    .await;
}

#[tokio::test]
async fn a_run_with_an_uncertain_launch_does_not_hold_up_the_next_one() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        intended(&db, &claimed).await;
        let next = super::super::testing::queue(&db, "comment/2", START + 1).await;
        let got = runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        assert_eq!(got.run, next);
        assert_eq!(only(&db, &claimed.run).await, LaunchState::Uncertain);
    })
    .await;
}

#[tokio::test]
async fn an_intent_that_was_never_started_is_uncertain_as_well() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        intended(&db, &claimed).await;
        runs::requeue(&db, &claimed.run, claimed.fence, START).await.unwrap();
        assert!(runs::claim(&db, "b", LEASE, START).await.unwrap().is_none());
        assert_eq!(only(&db, &claimed.run).await, LaunchState::Uncertain);
    })
    .await;
}

#[tokio::test]
async fn a_named_operator_gives_an_uncertain_launch_up_by_resuming_its_run() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        intended(&db, &claimed).await;
        runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap();
        runs::resume(&db, &claimed.run, "ada", START + LEASE).await.unwrap();
        assert_eq!(only(&db, &claimed.run).await, LaunchState::Abandoned { by: "ada".to_owned() });
        let again = runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        assert_eq!(again.run, claimed.run);
    })
    .await;
}

#[tokio::test]
async fn a_look_up_adopts_an_uncertain_launch_and_no_other() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        let id = intended(&db, &claimed).await;
        let proposal = Some(Digest::of("found"));
        assert!(matches!(adopt(&db, &id, proposal, START).await, Err(StoreError::Illegal(_))));
        assert!(matches!(abandon(&db, &id, "ada", START).await, Err(StoreError::Illegal(_))));
        runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap();
        adopt(&db, &id, proposal, START + LEASE).await.unwrap();
        assert_eq!(only(&db, &claimed.run).await, LaunchState::Adopted { proposal });
        assert!(matches!(abandon(&db, &id, "ada", START).await, Err(StoreError::Illegal(_))));
        runs::resume(&db, &claimed.run, "ada", START + LEASE).await.unwrap();
        let again = runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        runs::enter(&db, &again.run, again.fence, Phase::Edit, START + LEASE).await.unwrap();
        assert_eq!(only(&db, &claimed.run).await, LaunchState::Adopted { proposal });
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_run_keeps_its_uncertain_launch_uncertain() {
    each_db(async |db| {
        let claimed = running(&db, "comment/1", START).await;
        intended(&db, &claimed).await;
        runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap();
        let request = runs::HaltRequest {
            by: "ada".to_owned(),
            reason: crate::run::HaltReason::Cancelled("enough".to_owned()),
        };
        runs::cancel(&db, &claimed.run, &request, START + LEASE).await.unwrap();
        let again = runs::claim(&db, "b", LEASE, START + LEASE).await.unwrap().unwrap();
        assert_eq!(again.halt, Some(request));
        assert_eq!(only(&db, &claimed.run).await, LaunchState::Uncertain);
    })
    .await;
}

#[tokio::test]
async fn a_launch_of_another_run_cannot_be_changed() {
    each_db(async |db| {
        let one = running(&db, "comment/1", START).await;
        let id = intended(&db, &one).await;
        let two = running(&db, "comment/2", START).await;
        let entry = signed("launched");
        let change = Change { run: &two.run, fence: two.fence, launch: &id, entry: &entry, now: START };
        assert!(matches!(start(&db, change).await, Err(StoreError::NotFound { .. })));
        assert_eq!(only(&db, &one.run).await, LaunchState::Intended);
    })
    .await;
}
