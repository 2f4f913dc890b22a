//! Fifty makers of containers, each killed at a random moment: after the reap nothing of them is left.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jobs::id::RunId;
use runners::egress::{EgressBounds, EgressPolicy, EgressWindow};
use runners::sandbox::{Sandbox as _, leftovers};

use super::common::sandbox;
use super::container::{fixture, python};

/// Names the folder in which the killed process works.
const FOLDER: &str = "WHIPSTITCH_TEST_KILLED_FOLDER";
/// What the killed process prints when it begins.
const BEGUN: &str = "begun";
/// How many are killed.
const KILLS: usize = 50;
/// The moments are the same in every run of the test.
const SEED: u64 = 0x5EED_0F12;
/// A maker is killed within this time of its beginning, in which it makes and ends several containers.
const WITHIN: Duration = Duration::from_millis(120);
/// The kernel takes a container apart after its last process has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Leaves daemons, files and a socket of its own behind.
const BUSY: &str = r#"
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        held = open(f'/workspace/held-{number}', 'w')
        time.sleep(600)
server = socket.socket(socket.AF_UNIX)
server.bind(f'/workspace/socket-{os.urandom(4).hex()}')
time.sleep(0.02)
"#;

/// The process that is killed; by itself this test does nothing.
#[tokio::test]
async fn victim() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let Some(mut fixture) = fixture() else { return };
    let folder = Path::new(&folder);
    let run: RunId = std::fs::read_to_string(folder.join("run")).unwrap().parse().unwrap();
    fixture.spec.run = run.clone();
    fixture.spec.workspace = folder.join("workspace");
    fixture.spec.home = folder.join("home");
    // The fixture's own folder would be left by the kill.
    std::fs::remove_dir_all(fixture.folder.path()).unwrap();
    eprintln!("{BEGUN}");
    loop {
        let place = leftovers::folder(&run).unwrap();
        let window = open(&place.path().join("window")).await;
        fixture.spec.egress = Some(window.folder().to_owned());
        let mut container = fixture.container().await;
        container.exec(python(BUSY)).await.unwrap();
        let sealed = window.seal().await;
        container.seal(&sealed).await.unwrap();
        container.destroy().await.unwrap();
    }
}

async fn open(folder: &Path) -> EgressWindow {
    let bounds = EgressBounds::of(&jobs::job::Limits::default());
    EgressWindow::open(folder, EgressPolicy::of(bounds)).await.unwrap()
}

/// One maker that was begun: itself, and the lines that it prints.
fn begin(folder: &Path) -> (Child, mpsc::Receiver<String>) {
    let mut maker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_often::victim", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let lines = BufReader::new(maker.stderr.take().unwrap()).lines();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    (maker, told)
}

/// Kills a maker after `delay`, in which it says nothing more if all is well.
fn kill_after(folder: &Path, delay: Duration) -> u32 {
    let (mut maker, told) = begin(folder);
    let first = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first, BEGUN);
    match told.recv_timeout(delay) {
        Err(mpsc::RecvTimeoutError::Timeout) => {}
        other => panic!("the maker ended before it was killed: {other:?}"),
    }
    maker.kill().unwrap();
    maker.wait().unwrap();
    maker.id()
}

/// What is left, by kind, of makers with these process groups, folders and runs.
fn count(groups: &[u32], marks: &[String]) -> BTreeMap<&'static str, Vec<String>> {
    let mut left: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let marked = |text: &str| marks.iter().any(|mark| text.contains(mark.as_str()));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.file_name().to_string_lossy().into_owned();
        if !process.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        // The fields behind the name: state, parent, group.
        let stat = read("stat");
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
        let group = fields.and_then(|fields| fields.get(2).and_then(|word| word.parse::<u32>().ok()));
        let inside = marked(&read("mountinfo"));
        if inside || group.is_some_and(|group| groups.contains(&group)) {
            left.entry("processes").or_default().push(format!("{process} {}", read("comm").trim()));
        }
        if inside {
            for kind in ["mnt", "net", "pid", "user"] {
                let link = std::fs::read_link(entry.path().join("ns").join(kind)).unwrap_or_default();
                left.entry("namespaces").or_default().push(link.to_string_lossy().into_owned());
            }
        }
    }
    let lines = |file: &str| std::fs::read_to_string(file).unwrap();
    let own: Vec<String> =
        lines("/proc/self/mountinfo").lines().filter(|line| marked(line)).map(str::to_owned).collect();
    left.entry("mounts").or_default().extend(own);
    let sockets = lines("/proc/net/unix");
    left.entry("sockets").or_default().extend(sockets.lines().filter(|line| marked(line)).map(str::to_owned));
    for mark in marks {
        left.entry("cgroups")
            .or_default()
            .extend(super::crash::leftovers(mark).into_iter().map(|path| path.display().to_string()));
    }
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let path = entry.path().display().to_string();
        // The folders that this test itself holds are not the makers'.
        if marked(&path) && !path.ends_with("makers") {
            left.entry("folders").or_default().push(path);
        }
    }
    left.retain(|_, found| !found.is_empty());
    left
}

/// The generator of Steele, Lea and Flood, which needs one word of state.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[test]
fn fifty_makers_killed_at_random_moments_leave_nothing() {
    let Some(sandbox) = sandbox() else { return };
    let folder = tempfile::Builder::new().suffix("makers").tempdir().unwrap();
    let mut state = SEED;
    let (mut groups, mut runs, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..KILLS {
        let place = folder.path().join(number.to_string());
        std::fs::create_dir(&place).unwrap();
        let run = RunId::fresh(1_700_000_000_000);
        std::fs::write(place.join("run"), run.to_string()).unwrap();
        let delay = WITHIN.mul_f64((next(&mut state) % 10_000) as f64 / 10_000.0);
        groups.push(kill_after(&place, delay));
        let digits = run.to_string();
        marks.push(digits[digits.len() - 12..].to_owned());
        marks.push(format!("{}/", place.display()));
        runs.push(run);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        // A launcher that saw its maker die takes its own container apart; the reap takes what is left.
        runtime.block_on(async {
            for run in &runs {
                sandbox.reap(run.clone()).await.unwrap();
            }
        });
        let left = count(&groups, &marks);
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{left:#?}");
        std::thread::yield_now();
    }
}
