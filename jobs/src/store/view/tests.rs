use super::super::testing::{START, account, address, each_db, queue, spec};
use super::*;
use crate::authorization::Authorization;
use crate::digest::Digest;
use crate::forge::Role;
use crate::id::AuthorizationId;

fn commit(digit: &str) -> CommitId {
    digit.repeat(40).parse().unwrap()
}

fn ids(found: &[RunSummary]) -> Vec<&RunId> {
    found.iter().map(|run| &run.id).collect()
}

#[tokio::test]
async fn a_commit_is_told_by_the_runs_on_it_and_by_the_push_that_made_it() {
    each_db(async |db| {
        let first = queue(&db, "comment/1", START).await;
        let other = queue(&db, "comment/2", START + 1).await;
        let head = spec("comment/1").head;
        let on = async |name: &str, commit: &CommitId| of_commit(&db, "octo", name, commit, 9).await.unwrap();
        assert_eq!(ids(&on("widgets", &head).await), [&first]);
        assert!(on("gadgets", &head).await.is_empty(), "another repository");
        assert!(on("widgets", &commit("d")).await.is_empty());

        let yes = |origin: &str| Authorization {
            id: AuthorizationId::fresh(START),
            run: other.clone(),
            actor: account("ada"),
            role: Role::Write,
            origin: origin.to_owned(),
            head: spec("comment/2").head,
            patch: Digest::of("patch"),
            created_at: START,
            expires_at: START + 10,
        };
        let refused = PushResult::Refused { why: format!("{} {}", commit("d"), "x".repeat(20_000)) };
        for (origin, result) in [("a", refused), ("b", PushResult::Pushed { commit: commit("d") })] {
            let yes = yes(origin);
            authorizations::record(&db, &yes, address()).await.unwrap();
            let spend = authorizations::Spend { id: &yes.id, head: &yes.head, patch: yes.patch, now: START };
            authorizations::spend(&db, spend).await.unwrap();
            authorizations::settle(&db, &yes.id, &result, START).await.unwrap();
        }
        assert_eq!(ids(&on("widgets", &commit("d")).await), [&other]);
        assert!(on("gadgets", &commit("d")).await.is_empty());
    })
    .await;
}
