//! The same story many times, each with other failures of GitHub, doubled and replayed deliveries and
//! workers that die with a message in their hands. However it goes, there is one job, one check run
//! in its right state, and at most one push.
//!
//! `WHIPSTITCH_CHAOS_ROUNDS` asks for more rounds, `WHIPSTITCH_CHAOS_FIRST` for other ones; a round
//! is repeated exactly by its number.

use e2e::dice::Dice;
use e2e::github::{Answered, Failure, Fault};
use e2e::scripted::Script;
use e2e::story::{On, Post, World};
use jobs::authorization::PushResult;
use jobs::message::MessageState;
use jobs::store::{deliveries, outbox};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

#[tokio::test]
async fn whatever_fails_there_is_one_job_one_check_run_and_at_most_one_push() {
    let first = number("WHIPSTITCH_CHAOS_FIRST", 1);
    for round in first..first + number("WHIPSTITCH_CHAOS_ROUNDS", 8) {
        play(round).await;
    }
}

async fn play(round: u64) {
    let (mut dice, world) = (Dice::of(round), World::new(On::GitHub).await.unwrap());
    let head = world.head();
    trouble(&world, &mut dice);
    ask(&world, &mut dice, "ada", "/whipstitch fix").await;
    assert_eq!(world.runs().await.len(), 1, "round {round}: {:?}", world.replies());
    let work = world.start().await;
    trouble(&world, &mut dice);
    world.settle().await;
    let run = work.finish(Script::repaired()).await;
    quiet(&world, &mut dice).await;
    assert_eq!(world.check_on(&head).state, "action_required", "round {round}");
    trouble(&world, &mut dice);
    loop {
        ask(&world, &mut dice, "grace", "/whipstitch apply").await;
        match world.view(&run).await.authorizations.pop().and_then(|recorded| recorded.result) {
            Some(PushResult::Pushed { commit }) => {
                assert_eq!(commit.to_string(), world.head(), "round {round}");
                break;
            }
            Some(PushResult::Refused { why }) => {
                assert!(why.contains("did not arrive"), "round {round}: {why}");
                assert_eq!(world.head(), head, "round {round}");
            }
            other => panic!("round {round}: {other:?} {:?}", world.replies()),
        }
    }
    let pushed = world.head();
    assert_eq!(world.git().commit(&pushed).unwrap().parents, std::slice::from_ref(&head), "round {round}");
    let check = world.check_on(&head);
    assert_eq!(check.title, format!("Repaired by commit {}", &pushed[..8]), "round {round}");
    assert_eq!(world.check_on(&pushed).state, "success", "round {round}");
    let view = world.view(&run).await;
    let dead =
        view.outbox.iter().filter(|message| matches!(message.state, MessageState::Dead { .. })).count();
    assert_eq!((world.runs().await.len(), dead), (1, 0), "round {round}");
    let kinds: Vec<_> = view.receipts.iter().map(|receipt| format!("{:?}", receipt.kind)).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "Push").count(), 1, "round {round}: {kinds:?}");
}

/// A person comments, and comments again where the answer is that it could not be checked.
async fn ask(world: &World, dice: &mut Dice, login: &str, words: &str) {
    loop {
        let told = world.replies().len();
        deliver(world, dice, &world.comment(login, words)).await;
        quiet(world, dice).await;
        match world.replies().get(told) {
            None => return,
            Some(reply) => assert!(reply.contains("could not check"), "{reply}"),
        }
    }
}

/// Up to five failures that are still to come.
fn trouble(world: &World, dice: &mut Dice) {
    for _ in 0..dice.roll(6) {
        let failure = match dice.roll(7) {
            0 => Failure::Answer(Answered::server_error(500)),
            1 => Failure::Answer(Answered::server_error(503)),
            2 => Failure::Answer(Answered::secondary_limit(None)),
            3 => Failure::Answer(Answered::too_many(7)),
            4 => Failure::LostRequest,
            5 | 6 => Failure::LostAnswer,
            _ => unreachable!("a die has seven sides"),
        };
        let paths = ["check-runs", "/git/refs/", "/git/", "/collaborators/", "/pulls/", "/access_tokens", ""];
        let path = paths[dice.roll(paths.len() as u64) as usize].to_owned();
        world.github().fail(Fault { method: "", path, times: 1, failure });
    }
}

/// Sends a delivery, perhaps doubled and perhaps replayed under another id.
async fn deliver(world: &World, dice: &mut Dice, post: &Post) {
    let mut posts = vec![post.clone()];
    for _ in 0..dice.roll(3) {
        posts.push(post.clone());
        posts.push(post.under_a_fresh_id());
    }
    while !posts.is_empty() {
        let next = posts.swap_remove(dice.roll(posts.len() as u64) as usize);
        let status = world.send(&next).await;
        assert!(matches!(status, 200 | 202), "{status}");
    }
}

/// Lets the workers work, some of which die, until nothing waits any more.
async fn quiet(world: &World, dice: &mut Dice) {
    for _ in 0..120 {
        let now = world.report.clock.now();
        // A worker takes something and is never heard of again.
        match dice.roll(12) {
            0 => drop(outbox::claim(&world.db, "dead", report_lease(), now).await.unwrap()),
            1 => drop(deliveries::claim(&world.db, "dead", 120_000, now).await.unwrap()),
            _ => {}
        }
        world.settle().await;
        world.clock.advance(60_000);
    }
    world.settle().await;
}

const fn report_lease() -> i64 {
    webhooks::report::LEASE
}
