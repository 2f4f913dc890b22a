//! One story per command of the comment grammar, on both forges.

use std::sync::Arc;

use e2e::scripted::Script;
use e2e::story::{START, World, each_forge};
use jobs::run::{Failure, HaltReason, Outcome, Phase, RunState, Suspension};
use jobs::store::runs;

fn failed() -> Outcome {
    Outcome::Failed { failure: Failure::NotRepaired("the fixers have nothing more to propose".into()) }
}

#[tokio::test]
async fn fix_ends_in_a_verified_patch_that_waits_and_nothing_is_pushed() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        let queued = world.check_on(&head);
        assert_eq!(
            (queued.state.as_str(), queued.buttons.as_slice()),
            ("queued", ["cancel".to_owned()].as_slice())
        );
        let work = world.start().await;
        world.settle().await;
        assert_eq!(world.check_on(&head).state, "in_progress");
        work.enter(Phase::Verify).await;
        world.wait(4_000).await;
        assert_eq!(world.check_on(&head).title, "Runs the checks (5 of 6)");
        let run = work.finish(Script::repaired()).await;
        world.settle().await;
        let check = world.check_on(&head);
        assert_eq!(check.id, queued.id, "one check run from beginning to end");
        assert_eq!(check.external_id, run.to_string());
        assert_eq!(check.state, "action_required");
        assert_eq!(check.buttons, ["apply", "reject", "rerun"]);
        assert!(check.summary.contains("Nothing was pushed"), "{}", check.summary);
        assert!(check.text.contains("+++ b/src/lib.rs"), "{}", check.text);
        assert_eq!(world.head(), head);
        assert!(world.replies().is_empty(), "the check run says it all");
    })
    .await;
}

#[tokio::test]
async fn verify_says_what_is_red_and_offers_no_patch() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch verify").await;
        world.run(Script::Red { findings: 2, outcome: failed() }).await;
        world.settle().await;
        let check = world.check_on(&head);
        assert_eq!((check.state.as_str(), check.title.as_str()), ("failure", "Some checks are red"));
        assert_eq!(check.buttons, ["rerun"]);
        world.say("ada", "/whipstitch apply").await;
        assert!(world.reply().contains("`apply` was not done"), "{}", world.reply());
        assert_eq!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn try_ends_in_a_patch_that_can_be_read_and_not_applied() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch try").await;
        world.run(Script::repaired()).await;
        world.settle().await;
        let check = world.check_on(&head);
        assert_eq!(check.state, "action_required");
        assert_eq!(check.buttons, ["rerun"]);
        assert!(check.text.contains("+++ b/src/lib.rs"));
        world.say("grace", "/whipstitch apply").await;
        assert!(world.reply().contains("it comes from a rehearsal"), "{}", world.reply());
        assert_eq!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn apply_pushes_exactly_the_verified_tree_with_trailers_and_receipts() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        let run = world.run(Script::repaired()).await;
        world.settle().await;
        world.say("grace", "/whipstitch apply").await;
        let pushed = world.head();
        assert_ne!(pushed, head);
        let commit = world.git().commit(&pushed).unwrap();
        assert_eq!(commit.parents, std::slice::from_ref(&head));
        let view = world.view(&run).await;
        let seal = &view.receipts[2];
        assert!(String::from_utf8_lossy(&seal.signed.bytes).contains(&format!("sha1:{}", commit.tree)));
        assert!(commit.message.contains(&format!("\nWhipstitch-Run: {run}\n")), "{}", commit.message);
        let trailer = format!("\nWhipstitch-Receipt: sha256:{}\n", seal.signed.digest());
        assert!(commit.message.contains(&trailer), "{}", commit.message);
        assert_eq!(world.check_on(&head).title, format!("Repaired by commit {}", &pushed[..8]));
        let new = world.check_on(&pushed);
        assert_eq!((new.state.as_str(), new.external_id), ("success", format!("{run}.pushed")));
        let kinds: Vec<_> = view.receipts.iter().map(|receipt| format!("{:?}", receipt.kind)).collect();
        assert_eq!(kinds, ["Open", "Apply", "Seal", "Authorize", "Push"]);
        let signed = |receipt: &jobs::store::receipts::Receipt| receipts::Signed {
            bytes: receipt.signed.bytes.clone(),
            signature: receipt.signed.signature,
        };
        let after: Vec<_> = view.receipts[3..].iter().map(signed).collect();
        let (key, digest) = (world.report.signer.public_key(), *seal.signed.digest().as_bytes());
        assert_eq!(receipts::verify_authorizations(&after, digest, &key), receipts::Verdict::ValidReceipt);
        world.say("grace", "/whipstitch apply").await;
        assert!(world.reply().contains("the patch was applied already"), "{}", world.reply());
        assert_eq!(world.head(), pushed);
    })
    .await;
}

#[tokio::test]
async fn a_bundle_holds_what_was_decided_though_the_key_was_rotated_before_it() {
    use receipts::keyring::Keyring;
    use receipts::report::{Files, Request, verify};
    each_forge(async |mut world| {
        world.say("ada", "/whipstitch fix").await;
        let run = world.run(Script::repaired()).await;
        world.settle().await;
        let place = runners::executor::bundle::folder(world.folder.path(), &run);
        let make = async |world: &World| {
            let (signer, places) = (&world.report.signer, (place.as_path(), place.as_path()));
            let made = runners::executor::bundle::from_store(
                &world.db,
                &world.report.artifacts,
                signer,
                places,
                &run,
            );
            made.await.unwrap();
        };
        make(&world).await;
        let (old, new) = (Arc::clone(&world.report.signer), receipts::Signer::from_seed(&[8; 32]));
        let first = old.public_key();
        let at = receipts::Timestamp::from_unix(START / 1000);
        let keyring = Keyring::read(b"", &first).unwrap().rotate(&old, &new, at, "yearly").unwrap();
        world.report.signer = Arc::new(new);
        world.say("grace", "/whipstitch apply").await;
        let verified = |keyring| {
            let all = Request { keyring, authorizations: true, exports: true, ..Request::default() };
            verify(&Files::at(&place), &first, &all)
        };
        let decided = std::fs::read_to_string(place.join("run.authorizations")).unwrap();
        assert_eq!(decided.lines().count(), 2, "{decided}");
        // The second time as a node makes it anew that knows the new key alone.
        for _ in 0..2 {
            let report = verified(Some(keyring.as_slice()));
            assert_eq!(report.lines[1..], ["authorizations VALID_RECEIPT", "exports VALID_RECEIPT count=3"]);
            assert_eq!(
                (report.exit_code, std::fs::read(place.join("key.pub")).unwrap()),
                (0, first.to_vec())
            );
            assert_eq!(verified(None).lines[1], "authorizations E_KEYID@0");
            make(&world).await;
            assert_eq!(std::fs::read_to_string(place.join("run.authorizations")).unwrap(), decided);
        }
        let check = world.check_on(&world.head());
        assert!(check.summary.contains(&old.key_id()) || check.text.contains(&old.key_id()), "{check:?}");
    })
    .await;
}

#[tokio::test]
async fn apply_by_a_seals_first_digits_names_one_patch_and_no_other() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        let run = world.run(Script::repaired()).await;
        world.settle().await;
        world.say("grace", "/whipstitch apply 000000").await;
        assert!(world.reply().contains("no verified patch here has a seal that begins with `000000`"));
        assert_eq!(world.head(), head);
        let seal = world.view(&run).await.receipts[2].signed.digest().to_string();
        world.say("grace", &format!("/whipstitch apply {}", &seal[..12])).await;
        assert_ne!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn the_apply_button_does_what_the_command_does() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        world.run(Script::repaired()).await;
        world.settle().await;
        let check = world.check_on(&head);
        world.deliver(&world.click("rita", check.id, "apply")).await;
        assert!(world.reply().contains("`rita` has the role `read`"), "{}", world.reply());
        assert_eq!(world.head(), head);
        world.deliver(&world.click("grace", check.id, "apply")).await;
        assert_ne!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn reject_declines_the_patch_for_good() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        world.run(Script::repaired()).await;
        world.settle().await;
        world.say("grace", "/whipstitch reject").await;
        let check = world.check_on(&head);
        assert_eq!(check.title, "The verified patch was declined by grace");
        assert_eq!(check.state, "failure", "this commit is still red");
        world.say("grace", "/whipstitch apply").await;
        assert!(world.reply().contains("declined by `grace`"), "{}", world.reply());
        assert_eq!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn cancel_stops_a_run_that_works_and_its_check_run_says_so() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        let work = world.start().await;
        world.say("rita", "/whipstitch cancel").await;
        assert!(world.reply().contains("`cancel` was not done"), "{}", world.reply());
        world.say("ada", "/whipstitch cancel").await;
        let pulse =
            runs::heartbeat(&world.db, &work.claimed.run, work.claimed.fence, 1_000, e2e::story::START);
        let halt = pulse.await.unwrap().halt.expect("its worker hears of it");
        assert_eq!(halt.reason, HaltReason::Cancelled("cancelled by ada".into()));
        work.end(Outcome::Halted { reason: halt.reason, requeue_recommended: false }).await;
        world.settle().await;
        assert_eq!(world.check_on(&head).state, "cancelled");
        assert_eq!(world.head(), head);
    })
    .await;
}

#[tokio::test]
async fn resume_takes_a_suspended_run_up_again() {
    each_forge(async |world| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        let work = world.start().await;
        let (run, fence) = (work.claimed.run.clone(), work.claimed.fence);
        runs::suspend(&world.db, &run, fence, Suspension::UncertainLaunch, e2e::story::START).await.unwrap();
        world.settle().await;
        let check = world.check_on(&head);
        assert_eq!(check.state, "action_required");
        assert!(check.summary.contains(&format!("/whipstitch resume {run}")), "{}", check.summary);
        world.say("rita", "/whipstitch resume").await;
        assert!(matches!(world.state().await, RunState::Suspended { .. }));
        world.say("ada", &format!("/whipstitch resume {run}")).await;
        assert_eq!(world.state().await, RunState::Queued);
        assert_eq!(world.check_on(&head).state, "queued");
    })
    .await;
}

#[tokio::test]
async fn status_lists_the_latest_runs() {
    each_forge(async |world| {
        world.say("rita", "/whipstitch status").await;
        assert!(world.reply().contains("There was no run on this pull request yet."), "{}", world.reply());
        world.say("ada", "/whipstitch fix").await;
        let run = world.run(Script::repaired()).await;
        world.say("rita", "/whipstitch status").await;
        let reply = world.replies().pop().unwrap();
        assert!(
            reply.contains(&format!("| [`{run}`](https://whipstitch.example/runs/{run}) | fix by `ada` |")),
            "{reply}"
        );
        assert!(reply.contains("| succeeded |"), "{reply}");
    })
    .await;
}

#[tokio::test]
async fn help_names_every_command() {
    each_forge(async |world| {
        world.say("rita", "/whipstitch help").await;
        for verb in ["fix", "try", "verify", "apply", "reject", "cancel", "resume", "status", "help"] {
            assert!(world.reply().contains(&format!("`/whipstitch {verb}`")), "{verb}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_re_run_asks_for_the_same_again() {
    each_forge(async |world: World| {
        let head = world.head();
        world.say("ada", "/whipstitch fix").await;
        world.run(Script::Red { findings: 1, outcome: failed() }).await;
        world.settle().await;
        let check = world.check_on(&head);
        world.deliver(&world.click("rita", check.id, "rerun")).await;
        assert_eq!(world.runs().await.len(), 1, "{:?}", world.replies());
        world.deliver(&world.click("grace", check.id, "rerun")).await;
        let runs = world.runs().await;
        assert_eq!((runs.len(), &runs[0].state), (2, &RunState::Queued));
        assert_eq!(runs[0].job.request.actor.login, "grace");
        assert_eq!(world.checks_on(&head).len(), 2);
    })
    .await;
}
