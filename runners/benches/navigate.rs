//! What a repo map costs: a tree of 2,800 files of Python, cold and warm, beside ctags and aider's own map.
//!
//! `cargo bench -p runners --bench navigate` takes the files from the Python that is installed (its own
//! library and what was installed into it), each made unlike every other, and runs each way in turn. ctags is
//! left out where it is not installed; aider where `AIDER_PYTHON` names no interpreter that has it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and ends at the first fault")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use jobs::forge::{ForgeKind, Repository};
use jobs::store::Db;
use runners::executor::navigate::{keep, kept};
use runners::navigate::retrieve::{RetrieveAsk, Workspace};
use runners::navigate::tools::{repo_map, retrieve, search};
use runners::navigate::{Focus, Known, MapAsk, RepoView, SearchAsk, Stop, gather};
use runners::workspace::{Bounds, Snapshot, Tree, snapshot};

const FILES: usize = 2_800;
const COLD: usize = 3;
const WARM: usize = 9;
const TOKENS: usize = 4_000;

const AIDER: &str = "
import sys, time
from aider.repomap import RepoMap
class Io:
    def read_text(self, name, silent=False):
        try:
            with open(name, encoding='utf-8') as file:
                return file.read()
        except (OSError, UnicodeError):
            return None
    def tool_output(self, *a, **k): pass
    tool_error = tool_warning = tool_output
class Model:
    def token_count(self, text): return len(text) // 4
root, files = sys.argv[1], [line.strip() for line in open(sys.argv[2])]
for way in ('cold', 'warm'):
    begun = time.perf_counter()
    repo = RepoMap(map_tokens=4000, root=root, main_model=Model(), io=Io(), refresh='always')
    text = repo.get_repo_map([], files, force_refresh=True)
    print(way, time.perf_counter() - begun, len(text or ''))
";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tree");
    let (files, bytes) = lay_out(&source);
    println!(
        "{} files of Python, {:.1} MB; median of {COLD} cold and {WARM} warm, ms",
        files.len(),
        bytes as f64 / 1e6
    );
    let snapshot = snapshot(&source, &folder.path().join("objects.git"), &Bounds::default()).unwrap();
    let ctags = ctags(&source, folder.path());
    let bench = Bench { folder: folder.path(), snapshot: &snapshot };
    let cold = bench.cold(&runtime);
    let warm = bench.warm(&runtime);
    say("repo map, cold", Some(cold), None);
    say("repo map, warm", Some(warm), None);
    say("ctags", ctags, ctags.map(|time| format!("our cold takes {:.2} of its time", cold / time)));
    let list = folder.path().join("files.txt");
    std::fs::write(&list, files.iter().map(|file| format!("{}\n", file.display())).collect::<String>())
        .unwrap();
    for (way, time) in aider(&source, &list) {
        let ours = if way == "cold" { cold } else { warm };
        say(&format!("aider, {way}"), time, time.map(|time| format!("{:.1} times our {way}", time / ours)));
    }
    bench.others(&runtime);
}

fn say(name: &str, ms: Option<f64>, beside: Option<String>) {
    match ms {
        Some(ms) => println!("{name:<24} {ms:>9.1}   {}", beside.unwrap_or_default()),
        None => println!("{name:<24} skipped: it is not installed"),
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

struct Bench<'a> {
    folder: &'a Path,
    snapshot: &'a Snapshot,
}

impl Bench<'_> {
    fn tree(&self) -> Tree {
        self.snapshot.objects.tree_at(&self.snapshot.commit, &Bounds::default()).unwrap()
    }

    /// From the commit to the text, with nothing kept before; what was read is kept, as a run keeps it.
    fn cold(&self, runtime: &tokio::runtime::Runtime) -> f64 {
        let time = |round| {
            let db = self.folder.join(format!("cold-{round}.db"));
            let begun = Instant::now();
            let (map, fresh) = runtime.block_on(self.map(&db));
            let took = begun.elapsed();
            assert!(map.len() > 1_000 && fresh > FILES / 2, "{fresh} files were read");
            took
        };
        median((0..COLD).map(time).collect())
    }

    /// The same with all of it kept, in the database that the last cold round has left.
    fn warm(&self, runtime: &tokio::runtime::Runtime) -> f64 {
        let db = self.folder.join("cold-0.db");
        let time = |_| {
            let begun = Instant::now();
            let (map, fresh) = runtime.block_on(self.map(&db));
            let took = begun.elapsed();
            assert!(map.len() > 1_000 && fresh == 0);
            took
        };
        median((0..WARM).map(time).collect())
    }

    async fn map(&self, db: &Path) -> (String, usize) {
        let timing = std::env::var_os("NAVIGATE_PARTS").is_some();
        let mut begun = Instant::now();
        let mut part = |name: &str| {
            if timing {
                println!("    {name:<16} {:>8.1}", begun.elapsed().as_secs_f64() * 1000.0);
            }
            begun = Instant::now();
        };
        let db = Db::open(&format!("sqlite://{}", db.display())).await.unwrap();
        part("open");
        let tree = self.tree();
        part("tree");
        let known = kept(&db, &repository(), &tree).await.unwrap();
        part("kept");
        let gathered = gather(&tree, &known, Stop::in_time(Duration::from_secs(600)));
        part("gather");
        keep(&db, &repository(), &gathered.fresh, 1).await.unwrap();
        part("keep");
        let fresh = gathered.fresh.len();
        let view = RepoView::new(tree, gathered.tags, focus(), Workspace::open(None));
        let map = repo_map(&view, &MapAsk { tokens: Some(TOKENS), ..MapAsk::default() });
        part("draw");
        db.close().await;
        (map.text, fresh)
    }

    /// The other questions, once each.
    fn others(&self, runtime: &tokio::runtime::Runtime) {
        let tree = self.tree();
        let gathered = gather(&tree, &Known::default(), Stop::in_time(Duration::from_secs(600)));
        let view = RepoView::new(tree, gathered.tags, focus(), Workspace::open(None));
        let begun = Instant::now();
        let ask = SearchAsk { pattern: r"def test_\w+_nothing".to_owned(), ..SearchAsk::default() };
        let found = search(&view, &ask).unwrap();
        say(
            "search, whole tree",
            Some(median(vec![begun.elapsed()])),
            Some(format!("{} files", found.files)),
        );
        for way in ["index and ask", "ask again"] {
            let begun = Instant::now();
            let ask = RetrieveAsk { query: "parse the header of a request".to_owned(), passages: None };
            let found = runtime.block_on(retrieve(&view, &ask)).unwrap();
            let beside = format!("{} passages {}", found.passages.len(), found.cut.join(", "));
            say(&format!("retrieve, {way}"), Some(median(vec![begun.elapsed()])), Some(beside));
        }
    }
}

fn focus() -> Focus {
    let mut focus = Focus::default();
    focus.add_name("JSONDecodeError");
    focus
}

fn repository() -> Repository {
    let (owner, name) = ("bench".to_owned(), "python".to_owned());
    Repository { forge: ForgeKind::Local, owner, name, installation: 0 }
}

/// Lays the files out; each gets a last line of its own, so that no two are one blob.
fn lay_out(root: &Path) -> (Vec<PathBuf>, u64) {
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib')); print(sysconfig.get_path('purelib'))";
    let said = Command::new("python3").args(["-c", ask]).output().unwrap();
    let mut sources = Vec::new();
    for folder in String::from_utf8(said.stdout).unwrap().lines() {
        sources_below(Path::new(folder), &mut sources);
    }
    sources.sort();
    sources.dedup();
    assert!(!sources.is_empty(), "an installed Python has its library as source");
    let (mut files, mut bytes) = (Vec::new(), 0);
    for at in 0..FILES {
        let source = &sources[at % sources.len()];
        let mut content = std::fs::read(source).unwrap();
        content.extend_from_slice(format!("\n# file {at}\n").as_bytes());
        let name = source.file_name().unwrap().to_string_lossy().into_owned();
        let path = root.join(format!("part{}/m{at}_{name}", at / 40));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        bytes += content.len() as u64;
        std::fs::write(&path, content).unwrap();
        files.push(path);
    }
    (files, bytes)
}

fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if path.is_dir() && !is_link {
            sources_below(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "py")
            && path.metadata().is_ok_and(|found| (200..200_000).contains(&found.len()))
        {
            found.push(path);
        }
    }
}

fn ctags(root: &Path, out: &Path) -> Option<f64> {
    let time = |_| {
        let begun = Instant::now();
        let done = Command::new("ctags")
            .args(["-R", "--languages=Python", "-f"])
            .arg(out.join("tags"))
            .arg(root)
            .output();
        done.ok().filter(|done| done.status.success()).map(|_| begun.elapsed())
    };
    let times: Option<Vec<_>> = (0..COLD).map(time).collect();
    times.map(median)
}

/// Cold and warm as its own process tells, without its start.
fn aider(root: &Path, list: &Path) -> Vec<(&'static str, Option<f64>)> {
    let python = std::env::var("AIDER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let said = Command::new(python).args(["-c", AIDER]).arg(root).arg(list).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    ["cold", "warm"]
        .map(|way| {
            let line = said.lines().find_map(|line| line.strip_prefix(way));
            let seconds = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            (way, seconds.map(|seconds| seconds * 1000.0))
        })
        .to_vec()
}
