//! The world of one seed: its ground, its clock, its troubles, and how it is played.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use e2e::dice::Dice;
use futures_util::FutureExt as _;
use jobs::artifacts::Artifacts;
use jobs::clock::{Clock, ManualClock, Millis};
use jobs::digest::Digest;
use jobs::fault::{Crashed, Fate, Script};
use jobs::forge::{ForgeKind, Repository};
use jobs::id::{CommitId, TreeId};
use jobs::store::Db;
use receipts::Signer;
use runners::progress::Progress;
use runners::workspace::{Bounds, snapshot};
use tokio::sync::broadcast;

use crate::forge::Simulated;
use crate::held::{self, Tally};
use crate::turns::Turns;
use crate::{node, people};

/// What every base branch says.
pub const POLICY: &str = "[[checks]]\nname = \"value\"\ntool = \"tap\"\nrun = [\"sh\", \"check.sh\"]\n\n[limits]\niterations = 3\n";
const START: Millis = 1_800_000_000_000;
/// Repositories with one pull request each. The last one's is green.
const PLACES: usize = 3;
/// The nodes' clocks differ from the world's by this much at most.
const MOST_SKEW: u64 = 7_000;

/// Every point of a run, a decision, a report and a push at which a node may die.
pub const POINTS: [&str; 36] = [
    "before-write",
    "before-read",
    "before-commit",
    "after-commit",
    "before-accept-commit",
    "after-accept-commit",
    "after-claim",
    "run-opened",
    "run-provisioned",
    "run-bootstrapped",
    "run-navigated",
    "run-baseline-checked",
    "run-baseline",
    "run-governed",
    "before-intent-commit",
    "after-intent-commit",
    "after-launch-started",
    "before-launch-settled",
    "after-launch-settled",
    "run-proposed",
    "run-applied",
    "run-verify-checked",
    "run-verified",
    "run-bundled",
    "before-settle-commit",
    "after-settle-commit",
    "after-message-claim",
    "before-message-sent",
    "after-message-sent",
    "after-authorization",
    "after-spend",
    "before-push",
    "after-push",
    "after-push-settled",
    // Twice as often as the rest, since these two make launches uncertain.
    "after-launch-started",
    "before-launch-settled",
];

/// What all seeds share and none changes.
pub struct Ground {
    _folder: tempfile::TempDir,
    pub places: Vec<Place>,
    /// The database as the migrations leave it.
    empty: Vec<u8>,
}

/// A repository with one commit.
pub struct Place {
    pub name: String,
    pub commit: CommitId,
    pub tree: TreeId,
    pub git: PathBuf,
}

impl Ground {
    pub fn new() -> Self {
        let folder = temporary();
        let places = (0..PLACES).map(|number| {
            let (name, from) = (format!("widget-{number}"), folder.path().join(format!("tree-{number}")));
            std::fs::create_dir(&from).unwrap();
            let value = if number + 1 == PLACES { "right\n" } else { "wrong\n" };
            std::fs::write(from.join("value"), value).unwrap();
            std::fs::write(from.join("number"), format!("{number}\n")).unwrap();
            let git = folder.path().join(format!("{name}.git"));
            let taken = snapshot(&from, &git, &Bounds::default()).unwrap();
            Place { name, commit: taken.commit, tree: taken.tree, git }
        });
        let places = places.collect();
        let file = folder.path().join("empty.db");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let db = Db::open(&format!("sqlite://{}", file.display())).await.unwrap();
            db.close().await;
        });
        let empty = std::fs::read(&file).unwrap();
        Self { _folder: folder, places, empty }
    }
}

/// In memory where the machine has such a folder: what survives a power cut is not what is tried here.
fn temporary() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// What goes wrong in one story, until enough has.
pub struct Trouble {
    inner: Mutex<Inner>,
    clock: ManualClock,
    /// The point at which a node dies or stands still for certain, and at which of its passings.
    target: (&'static str, u64),
    doom: Doom,
    passed: AtomicU64,
}

/// What a seed has for its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doom {
    Crash,
    /// The whole machine stands still, longer than any lease.
    Pause,
}

/// How long a machine stands still.
const PAUSE: Millis = 130_000;

/// The points that a story passes once or twice, and only where somebody says yes.
const OF_PUSHES: [&str; 5] =
    ["after-authorization", "after-spend", "before-push", "after-push", "after-push-settled"];

struct Inner {
    dice: Dice,
    left: u64,
    crashes: BTreeMap<&'static str, u64>,
    breaks: BTreeMap<&'static str, u64>,
}

impl Trouble {
    fn of(seed: u64, clock: ManualClock) -> Self {
        let points = POINTS.len() as u64;
        let mut dice = Dice::of(seed ^ 0x74_726f_7562_6c65);
        let left = dice.roll(9);
        let inner = Inner { dice, left, crashes: BTreeMap::new(), breaks: BTreeMap::new() };
        let (point, round) = (POINTS[(seed % points) as usize], seed / points);
        let doom = if round % 5 == 4 { Doom::Pause } else { Doom::Crash };
        let passing = if OF_PUSHES.contains(&point) { round / 5 % 2 + 1 } else { round % 5 + 1 };
        let (target, passed) = ((point, passing), AtomicU64::new(0));
        Self { inner: Mutex::new(inner), clock, target, doom, passed }
    }

    /// Whether the story needs a patch that is pushed.
    pub fn is_about_pushes(&self) -> bool {
        OF_PUSHES.contains(&self.target.0)
    }

    /// Whether something of this kind goes wrong now.
    pub fn comes(&self, _kind: &'static str) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let comes = inner.left > 0 && inner.dice.roll(40) == 0;
        inner.left -= u64::from(comes);
        comes
    }

    /// What happens to a node at a point.
    fn at(&self, point: &'static str) -> Fate {
        let mut inner = self.inner.lock().unwrap();
        let is_target =
            point == self.target.0 && self.passed.fetch_add(1, Ordering::Relaxed) + 1 == self.target.1;
        if is_target && self.doom == Doom::Pause {
            self.clock.advance(PAUSE);
            return Fate::Pass;
        }
        if is_target {
            *inner.crashes.entry(point).or_default() += 1;
            return Fate::Crash;
        }
        if inner.left == 0 {
            return Fate::Pass;
        }
        // A slow database, a stopped machine: time passes, and this node does not know it.
        if inner.dice.roll(80) == 0 {
            inner.left -= 1;
            let pauses = [3_000, 20_000, 61_000, 95_000, 130_000];
            let drawn = inner.dice.roll(pauses.len() as u64) as usize;
            self.clock.advance(pauses[drawn]);
        }
        if inner.left > 0 && inner.dice.roll(120) == 0 {
            inner.left -= 1;
            let is_database = point.ends_with("commit") || matches!(point, "before-write" | "before-read");
            if is_database && inner.dice.roll(2) == 0 {
                *inner.breaks.entry(point).or_default() += 1;
                return Fate::Fail;
            }
            *inner.crashes.entry(point).or_default() += 1;
            return Fate::Crash;
        }
        Fate::Pass
    }
}

/// A node's clock.
pub struct Skewed {
    pub clock: ManualClock,
    pub by: Millis,
}

impl Clock for Skewed {
    fn now(&self) -> Millis {
        self.clock.now() + self.by
    }
}

/// One story.
pub struct World {
    pub seed: u64,
    pub clock: ManualClock,
    pub db: Db,
    pub artifacts: Artifacts,
    pub signer: Arc<Signer>,
    pub forge: Arc<Simulated>,
    pub trouble: Arc<Trouble>,
    pub turns: Turns,
    pub folder: tempfile::TempDir,
    pub gits: BTreeMap<String, PathBuf>,
    pub progress: broadcast::Sender<Progress>,
    /// Digest of the patch that the agent proposes.
    pub patch: Digest,
    /// The nodes that died and were not replaced yet.
    pub dead: Mutex<Vec<usize>>,
    /// How often in a row a node found nothing to do.
    pub idle: AtomicU64,
    /// Whether a node did something since the people looked last.
    pub worked: AtomicBool,
    pub over: AtomicBool,
    pub skews: Vec<Millis>,
    /// What a node or a person ended with that is no crash.
    pub broken: Mutex<Option<String>>,
}

impl World {
    pub fn repository(name: &str) -> Repository {
        Repository {
            forge: ForgeKind::Local,
            owner: "octo".to_owned(),
            name: name.to_owned(),
            installation: 1,
        }
    }

    /// Starts a node, or its next life.
    pub fn start(self: &Arc<Self>, who: usize, life: u64) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            world.turns.enter(who).await;
            let script: Arc<dyn Script> = Arc::new(node::Fated { world: Arc::clone(&world), who });
            let living = jobs::fault::play(script, node::live(Arc::clone(&world), who, life));
            if let Err(panic) = AssertUnwindSafe(living).catch_unwind().await {
                match panic.downcast_ref::<Crashed>() {
                    Some(_) => world.dead.lock().unwrap().push(who),
                    None => *world.broken.lock().unwrap() = Some(format!("node {who} panicked")),
                }
            }
            world.turns.leave();
        });
    }

    /// What happens to a node at a point.
    pub fn fate(&self, point: &'static str) -> Fate {
        self.trouble.at(point)
    }
}

/// Plays one seed to its end, and holds the end to what is promised.
pub fn play(ground: &Ground, seed: u64) -> Tally {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(story(ground, seed))));
    match told {
        Ok(tally) => tally,
        Err(panic) => {
            eprintln!(
                "seed {seed} failed; play it alone with WHIPSTITCH_SIMULATION_FIRST={seed} WHIPSTITCH_SIMULATION_SEEDS=1"
            );
            std::panic::resume_unwind(panic)
        }
    }
}

async fn story(ground: &Ground, seed: u64) -> Tally {
    let mut dice = Dice::of(seed);
    let (clock, folder) = (ManualClock::at(START), temporary());
    let file = folder.path().join("whipstitch.db");
    std::fs::write(&file, &ground.empty).unwrap();
    let trouble = Arc::new(Trouble::of(seed, clock.clone()));
    let artifacts = Artifacts::open(folder.path().join("artifacts")).unwrap();
    // Right twice as often as wrong, and sometimes no patch of this file at all.
    let drawn = ["right", "right", "also wrong", "unfit"][dice.roll(4) as usize];
    let line = if trouble.is_about_pushes() { "right" } else { drawn };
    let before = if line == "unfit" { "another" } else { "wrong" };
    let patch = format!("--- a/value\n+++ b/value\n@@ -1 +1 @@\n-{before}\n+{line}\n");
    let nodes = 2 + dice.roll(2);
    let skews = (0..nodes).map(|_| dice.roll(2 * MOST_SKEW) as Millis - MOST_SKEW as Millis).collect();
    let world = Arc::new(World {
        seed,
        db: Db::open(&format!("sqlite://{}", file.display())).await.unwrap(),
        patch: artifacts.put(patch.as_bytes()).unwrap(),
        artifacts,
        signer: Arc::new(Signer::from_seed(&[7; 32])),
        forge: Arc::new(Simulated::new(ground, Arc::clone(&trouble))),
        trouble,
        turns: Turns::of(seed),
        gits: ground.places.iter().map(|place| (place.name.clone(), place.git.clone())).collect(),
        progress: broadcast::channel(8192).0,
        clock,
        folder,
        dead: Mutex::default(),
        idle: AtomicU64::new(0),
        worked: AtomicBool::new(false),
        over: AtomicBool::new(false),
        skews,
        broken: Mutex::default(),
    });
    let mut people = people::People::new(&world, ground, dice);
    for who in 1..=world.skews.len() {
        world.start(who, 0);
    }
    world.turns.enter(0).await;
    people.live().await;
    world.over.store(true, Ordering::Relaxed);
    let tally = held::check(&world, &people).await;
    let inner = world.trouble.inner.lock().unwrap();
    let mut tally = Tally { crashes: inner.crashes.clone(), breaks: inner.breaks.clone(), ..tally };
    tally.seeds = 1;
    tally
}
