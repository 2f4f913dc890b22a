use super::super::outbox;
use super::super::testing::{LEASE, START, account, address, each_db, queue};
use super::*;
use crate::forge::Role;
use crate::message::MessageBody;

const DAY: Millis = 24 * 3_600_000;

fn head() -> CommitId {
    "a".repeat(40).parse().unwrap()
}

fn patch() -> Digest {
    Digest::of("patch")
}

fn yes(run: &RunId, origin: &str) -> Authorization {
    Authorization {
        id: AuthorizationId::fresh(START),
        run: run.clone(),
        actor: account("ada"),
        role: Role::Maintain,
        origin: origin.to_owned(),
        head: head(),
        patch: patch(),
        created_at: START,
        expires_at: START + DAY,
    }
}

async fn recorded_yes(db: &Db) -> Authorization {
    let run = queue(db, "comment/1", START).await;
    let yes = yes(&run, "comment/2");
    assert_eq!(record(db, &yes, address()).await.unwrap(), Recording::New);
    yes
}

fn offer<'a>(yes: &'a Authorization, head: &'a CommitId) -> Spend<'a> {
    Spend { id: &yes.id, head, patch: patch(), now: START + 1 }
}

#[tokio::test]
async fn a_yes_is_kept_as_given_and_queues_one_push() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let kept = find(&db, &yes.id).await.unwrap().unwrap();
        assert_eq!((&kept.authorization, kept.spent_at, &kept.result), (&yes, None, &None));
        let twin = Authorization { id: AuthorizationId::fresh(START), ..yes.clone() };
        assert_eq!(
            record(&db, &twin, address()).await.unwrap(),
            Recording::Known { id: yes.id.clone() },
            "the same click twice is one yes"
        );
        let mut pushes = 0;
        while let Some(message) = outbox::claim(&db, "n", LEASE, START).await.unwrap() {
            if let MessageBody::Push { authorization, .. } = &message.body {
                assert_eq!(*authorization, yes.id);
                pushes += 1;
            }
            outbox::sent(&db, &message, "1", START).await.unwrap();
        }
        assert_eq!(pushes, 1);
    })
    .await;
}

#[tokio::test]
async fn authorization_is_spent_once() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let tries: Vec<_> = (0..12)
            .map(|_| {
                let (db, yes) = (db.clone(), yes.clone());
                tokio::spawn(async move { spend(&db, offer(&yes, &head())).await })
            })
            .collect();
        let mut grants = 0;
        for tried in tries {
            match tried.await.unwrap() {
                Ok(grant) => {
                    assert_eq!((grant.run(), grant.head(), grant.patch()), (&yes.run, &yes.head, yes.patch));
                    grants += 1;
                }
                Err(SpendError::AlreadySpent) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(grants, 1);
    })
    .await;
}

#[tokio::test]
async fn authorization_of_a_never_applies_to_b() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let other: CommitId = "d".repeat(40).parse().unwrap();
        let moved = spend(&db, offer(&yes, &other)).await.unwrap_err();
        assert!(matches!(moved, SpendError::HeadMoved { .. }), "{moved}");
        let another = Spend { patch: Digest::of("another patch"), ..offer(&yes, &yes.head) };
        let refused = spend(&db, another).await.unwrap_err();
        assert!(matches!(refused, SpendError::OtherPatch { .. }), "{refused}");
        let unknown = AuthorizationId::fresh(START);
        let unknown = spend(&db, Spend { id: &unknown, ..offer(&yes, &yes.head) }).await.unwrap_err();
        assert!(matches!(unknown, SpendError::Unknown(_)), "{unknown}");
        spend(&db, offer(&yes, &yes.head)).await.expect("a refusal spends nothing");
    })
    .await;
}

#[tokio::test]
async fn an_expired_authorization_buys_nothing() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let late = Spend { now: yes.expires_at, ..offer(&yes, &yes.head) };
        assert!(matches!(spend(&db, late).await.unwrap_err(), SpendError::Expired));
        let in_time = Spend { now: yes.expires_at - 1, ..offer(&yes, &yes.head) };
        spend(&db, in_time).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_grant_given_back_is_spent_again_unless_its_push_has_a_result() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let grant = spend(&db, offer(&yes, &yes.head)).await.unwrap();
        give_back(&db, grant).await.unwrap();
        let grant = spend(&db, offer(&yes, &yes.head)).await.unwrap();
        let pushed = PushResult::Pushed { commit: head() };
        settle(&db, &yes.id, &pushed, START + 2).await.unwrap();
        give_back(&db, grant).await.unwrap();
        assert!(matches!(spend(&db, offer(&yes, &yes.head)).await, Err(SpendError::AlreadySpent)));
    })
    .await;
}

#[tokio::test]
async fn a_known_result_is_never_replaced_and_an_uncertain_one_is() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let result = async || find(&db, &yes.id).await.unwrap().unwrap().result;
        let uncertain = PushResult::Uncertain { why: "the answer was lost".to_owned() };
        settle(&db, &yes.id, &uncertain, START).await.unwrap();
        assert_eq!(result().await, Some(uncertain));
        let pushed = PushResult::Pushed { commit: head() };
        settle(&db, &yes.id, &pushed, START).await.unwrap();
        settle(&db, &yes.id, &PushResult::Refused { why: "late".to_owned() }, START).await.unwrap();
        assert_eq!(result().await, Some(pushed));
    })
    .await;
}

#[tokio::test]
async fn a_no_is_kept_and_can_never_be_spent() {
    each_db(async |db| {
        let run = queue(&db, "comment/1", START).await;
        let no = yes(&run, "comment/3");
        assert_eq!(decline(&db, &no).await.unwrap(), Recording::New);
        assert_eq!(decline(&db, &no).await.unwrap(), Recording::Known { id: no.id.clone() });
        let kept = find(&db, &no.id).await.unwrap().unwrap();
        assert_eq!(kept.result, Some(PushResult::Declined { by: "ada".to_owned() }));
        let spent = spend(&db, Spend { now: START, ..offer(&no, &no.head) }).await;
        assert!(matches!(spent, Err(SpendError::Closed)));
        while let Some(message) = outbox::claim(&db, "n", LEASE, START).await.unwrap() {
            assert!(!matches!(message.body, MessageBody::Push { .. }));
            outbox::sent(&db, &message, "1", START).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_yes_that_was_refused_at_the_push_is_never_spent_later() {
    each_db(async |db| {
        let yes = recorded_yes(&db).await;
        let refused = PushResult::Refused { why: "ada may no longer write".to_owned() };
        settle(&db, &yes.id, &refused, START).await.unwrap();
        assert!(matches!(spend(&db, offer(&yes, &yes.head)).await, Err(SpendError::Closed)));
    })
    .await;
}
