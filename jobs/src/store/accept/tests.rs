use super::super::testing::{LEASE, START, account, address, admit, delivery, each_db, spec};
use super::*;
use crate::job::JobSpec;
use crate::message::MessageBody;
use crate::run::RunState;
use crate::store::{deliveries, outbox, runs};

fn comment(text: &str) -> NewMessage {
    let body = MessageBody::Comment { body: text.to_owned(), reply_to: None, place: Default::default() };
    NewMessage { address: address(), body, not_before: 0 }
}

/// Records and claims a delivery.
async fn ticket(db: &Db, id: &str) -> Ticket {
    deliveries::record(db, &delivery(id)).await.unwrap();
    deliveries::claim(db, "node", LEASE, START).await.unwrap().unwrap().ticket
}

#[tokio::test]
async fn an_admitted_delivery_is_decided_with_job_run_and_message_at_once() {
    each_db(async |db| {
        let ticket = ticket(&db, "one").await;
        let accepted = Accepted { delivery: Some(ticket.clone()), ..admit("comment/1", "key", START) };
        let Acceptance::Queued { run, job } = accept(&db, accepted.clone()).await.unwrap() else { panic!() };
        assert_eq!(job, spec("comment/1").id());
        let view = runs::view(&db, &run).await.unwrap().unwrap();
        assert_eq!(view.run.state, RunState::Queued);
        assert_eq!(view.run.job, spec("comment/1"));
        assert_eq!(view.outbox.len(), 1);
        assert_eq!(view.outbox[0].body, MessageBody::CheckRun { run });
        let again = accept(&db, accepted).await;
        assert!(matches!(again, Err(StoreError::LeaseLost { .. })), "decided once: {again:?}");
    })
    .await;
}

#[tokio::test]
async fn same_body_new_id_gives_no_second_job() {
    each_db(async |db| {
        let mut runs = Vec::new();
        for id in 0..20 {
            let ticket = ticket(&db, &format!("delivery-{id}")).await;
            let accepted = Accepted {
                delivery: Some(ticket),
                messages: vec![comment("on it")],
                ..admit("comment/1", "7 octo/widgets 1 digest", START)
            };
            match accept(&db, accepted).await.unwrap() {
                Acceptance::Queued { run, .. } => runs.push(run),
                Acceptance::Duplicate { run } => assert_eq!(run, runs[0]),
                Acceptance::Decided => panic!("an admission names its run"),
            }
        }
        assert_eq!(runs.len(), 1);
        assert_eq!(runs::list(&db, 100).await.unwrap().len(), 1);
        let mut told = 0;
        while let Some(message) = outbox::claim(&db, "node", LEASE, START).await.unwrap() {
            outbox::sent(&db, &message, "1", START).await.unwrap();
            told += 1;
        }
        assert_eq!(told, 2, "one check run and one comment");
    })
    .await;
}

#[tokio::test]
async fn the_same_job_asked_for_anew_is_a_second_run_of_it() {
    each_db(async |db| {
        let first = accept(&db, admit("check-action/9", "click 1", START)).await.unwrap();
        let second = accept(&db, admit("check-action/9", "click 2", START)).await.unwrap();
        let (Acceptance::Queued { run: one, job }, Acceptance::Queued { run: two, job: same }) =
            (first, second)
        else {
            panic!()
        };
        assert_eq!(job, same);
        assert_ne!(one, two);
    })
    .await;
}

#[tokio::test]
async fn an_ignored_delivery_leaves_no_run_and_its_reply_is_queued_once() {
    each_db(async |db| {
        let accepted = Accepted {
            delivery: Some(ticket(&db, "one").await),
            decision: Decision::Refuse { why: "ada may only read".to_owned() },
            messages: vec![comment("sorry")],
            now: START,
        };
        assert_eq!(accept(&db, accepted).await.unwrap(), Acceptance::Decided);
        assert_eq!(runs::list(&db, 10).await.unwrap(), []);
        let message = outbox::claim(&db, "node", LEASE, START).await.unwrap().unwrap();
        assert_eq!(message.body, comment("sorry").body);
        assert_eq!(deliveries::claim(&db, "node", LEASE, START + 2 * LEASE).await.unwrap().map(|_| ()), None);
    })
    .await;
}

#[tokio::test]
async fn a_failed_acceptance_leaves_nothing() {
    each_db(async |db| {
        let stale = Ticket { fence: crate::id::Fence(99), ..ticket(&db, "one").await };
        let accepted = Accepted { delivery: Some(stale), ..admit("comment/1", "key", START) };
        assert!(accept(&db, accepted).await.is_err());
        assert_eq!(runs::list(&db, 10).await.unwrap(), []);
        assert_eq!(outbox::claim(&db, "node", LEASE, START).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_checkout_has_a_run_and_tells_no_forge() {
    each_db(async |db| {
        let spec = JobSpec { subject: Subject::Checkout, ..spec("cli") };
        let decision = Decision::Admit { spec: Box::new(spec), semantic_key: "cli 1".to_owned() };
        let accepted = Accepted { delivery: None, decision, messages: Vec::new(), now: START };
        assert!(matches!(accept(&db, accepted).await.unwrap(), Acceptance::Queued { .. }));
        assert_eq!(outbox::claim(&db, "node", LEASE, START).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn hostile_names_with_nul_are_kept_and_found() {
    each_db(async |db| {
        let mut spec = spec("comment/\0");
        spec.repository.owner = "o\0cto".to_owned();
        spec.request.actor = account("\0");
        let decision = Decision::Admit { spec: Box::new(spec.clone()), semantic_key: "k\0".to_owned() };
        let accepted = Accepted { delivery: None, decision, messages: vec![comment("\0")], now: START };
        let Acceptance::Queued { run, .. } = accept(&db, accepted).await.unwrap() else { panic!() };
        assert_eq!(runs::view(&db, &run).await.unwrap().unwrap().run.job, spec);
        let found = runs::of_subject(&db, &spec.repository, 5, 9).await.unwrap();
        assert_eq!(found[0].id, run);
    })
    .await;
}
