//! What is promised, held against the end of a story.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use jobs::authorization::PushResult;
use jobs::launch::LaunchState;
use jobs::message::MessageState;
use jobs::run::{Outcome, RunState};
use jobs::store::receipts::ReceiptKind;
use jobs::store::{RunView, runs};
use receipts::report::{self, Files};
use runners::executor::bundle;
use webhooks::forge::CheckStatus;

use crate::people::People;
use crate::world::World;

/// One story in so many is read by the second verifier too: it is a process of its own.
const SAMPLE: u64 = 40;

/// What stories came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub seeds: u64,
    pub outcomes: BTreeMap<&'static str, u64>,
    pub pushes: u64,
    /// Launches that nobody knew the end of.
    pub uncertain: u64,
    pub taken_over: u64,
    pub verified: u64,
    pub verified_in_js: u64,
    pub crashes: BTreeMap<&'static str, u64>,
    pub breaks: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.pushes += other.pushes;
        self.uncertain += other.uncertain;
        self.taken_over += other.taken_over;
        self.verified += other.verified;
        self.verified_in_js += other.verified_in_js;
        let maps = [
            (&mut self.outcomes, other.outcomes),
            (&mut self.crashes, other.crashes),
            (&mut self.breaks, other.breaks),
        ];
        for (into, from) in maps {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        }
    }
}

/// Holds the end of a story to all that is promised.
pub async fn check(world: &World, people: &People) -> Tally {
    let mut tally = Tally { taken_over: people.taken_over, ..Tally::default() };
    let mut requests = BTreeSet::new();
    for summary in runs::list(&world.db, 100).await.unwrap() {
        let view = runs::view(&world.db, &summary.id).await.unwrap().unwrap();
        let at = format!("seed {}, run {}", world.seed, summary.id);
        let RunState::Finished { outcome } = &view.run.state else {
            panic!("{at} has no end: {:?}", view.run.state);
        };
        *tally.outcomes.entry(outcome.name()).or_default() += 1;
        let origin = view.job().request.origin.clone();
        let request = (view.job().repository.name.clone(), origin);
        assert!(requests.insert(request), "{at}: one comment is one run");
        is_launched_once(&at, &view, people, &mut tally);
        is_told(&at, world, &view, outcome);
        is_pushed_once(&at, world, &view);
        is_proven(&at, world, &view, &mut tally).await;
    }
    let held = world.forge.held();
    for name in world.gits.keys() {
        let pushed = held.pushed.iter().filter(|(of, _, _)| of == name).count();
        assert!(pushed <= 1, "seed {}: {pushed} pushes to {name}", world.seed);
    }
    tally.pushes = held.pushed.len() as u64;
    tally
}

/// An agent is called once, and once more for each time that somebody gave a launch up.
fn is_launched_once(at: &str, view: &RunView, people: &People, tally: &mut Tally) {
    let resumed = people.resumed.get(&view.run.id).copied().unwrap_or(0);
    let called = people.called.get(&view.run.id).copied().unwrap_or(0);
    let (mut given_up, mut ended, mut iterations) = (0, 0, BTreeSet::new());
    for launch in &view.launches {
        match &launch.state {
            LaunchState::Settled { .. } | LaunchState::Adopted { .. } => {
                ended += 1;
                assert!(iterations.insert(launch.iteration), "{at}: two answers in one iteration");
            }
            LaunchState::Abandoned { .. } => given_up += 1,
            // The run was ended while nobody knew.
            LaunchState::Uncertain => {}
            LaunchState::Intended | LaunchState::Started => panic!("{at} ended over an open launch"),
        }
    }
    let launches = view.launches.len() as u64;
    tally.uncertain += launches - ended;
    assert!(given_up <= resumed, "{at}: {given_up} launches were given up, and {resumed} times somebody did");
    assert!(called <= launches, "{at}: {called} calls of the agent, {launches} intents");
    // The recorded patch is proposed in the first iteration; in the second nothing is.
    assert!(launches <= 2 + resumed, "{at}: {launches} launches, {resumed} given up");
}

/// The forge was told the end, and nothing that it was to be told is lost.
fn is_told(at: &str, world: &World, view: &RunView, outcome: &Outcome) {
    for message in &view.outbox {
        assert!(matches!(message.state, MessageState::Sent { .. }), "{at}: {message:?}");
    }
    let held = world.forge.held();
    let head = &view.job().head;
    let of_run = |check: &&webhooks::forge::CheckRun| {
        check.external_id == view.run.id.to_string() && check.head == *head
    };
    let shown: Vec<_> = held.checks.values().map(|(_, check)| check).filter(of_run).collect();
    assert_eq!(shown.len(), 1, "{at} has one check run on the commit that was tested");
    let CheckStatus::Completed { .. } = shown[0].status else {
        panic!("{at} ended as {outcome:?}, and the forge shows {:?}", shown[0].status);
    };
}

/// What rows say of pushes is what the forge has.
fn is_pushed_once(at: &str, world: &World, view: &RunView) {
    let held = world.forge.held();
    let name = &view.job().repository.name;
    let mut claimed = 0;
    for recorded in &view.authorizations {
        let id = recorded.authorization.id.to_string();
        let found = held
            .pushed
            .iter()
            .find(|(of, _, commit)| of == name && held.commits[commit].message.contains(&id));
        match (&recorded.result, found) {
            (Some(PushResult::Pushed { commit }), Some((_, patch, pushed))) => {
                assert_eq!((commit, patch), (pushed, &recorded.authorization.patch), "{at}");
                claimed += 1;
            }
            (Some(PushResult::Refused { .. }), None) => {}
            (result, found) => panic!("{at}: {id} is recorded as {result:?}, the forge has {found:?}"),
        }
    }
    let receipts = view.receipts.iter().filter(|receipt| receipt.kind == ReceiptKind::Push).count();
    assert_eq!(receipts, claimed, "{at}: one receipt for each push");
}

/// Journal and receipts are whole, by the verifier and, for some stories, by both.
async fn is_proven(at: &str, world: &World, view: &RunView, tally: &mut Tally) {
    let place = bundle::folder(&world.folder.path().join("proof"), &view.run.id);
    let places = (place.as_path(), place.as_path());
    let made = bundle::from_store(&world.db, &world.artifacts, &world.signer, places, &view.run.id);
    made.await.unwrap();
    let folder = place;
    let decided = folder.join("run.authorizations").exists();
    let key = world.signer.public_key();
    let request = report::Request { journal: true, authorizations: decided, ..report::Request::default() };
    let report = report::verify(&Files::at(&folder), &key, &request);
    assert_eq!(report.exit_code, 0, "{at}: {:?}", report.lines);
    assert!(report.lines.iter().all(|line| line.contains("VALID_")), "{at}: {:?}", report.lines);
    tally.verified += 1;
    if world.seed.is_multiple_of(SAMPLE) && has_node() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../receipts/web/verify.mjs");
        let mut verifier = Command::new("node");
        verifier.arg(script).arg(&folder).arg("--key").arg(folder.join("key.pub")).arg("--journal");
        if decided {
            verifier.arg("--authorizations");
        }
        let said = verifier.output().unwrap();
        let lines = String::from_utf8(said.stdout).unwrap();
        assert_eq!(lines.lines().collect::<Vec<_>>(), report.lines, "{at}");
        assert_eq!(said.status.code(), Some(0), "{at}");
        tally.verified_in_js += 1;
    }
}

/// Whether the second verifier can run here.
fn has_node() -> bool {
    let here = Command::new("node").arg("--version").output().is_ok_and(|said| said.status.success());
    let promised = std::env::var_os("WHIPSTITCH_CI").is_some_and(|value| value == "1");
    assert!(here || !promised, "CI promised node, and it is not here");
    if !here {
        eprintln!("skipped: no node, so the journals are read by one verifier alone");
    }
    here
}
