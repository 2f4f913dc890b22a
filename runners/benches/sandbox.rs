//! What a sealed start costs: `/usr/bin/true` in a container, against a plain process and against bwrap.
//!
//! `cargo bench -p runners --bench sandbox` runs each in turn, so that the machine's moods meet all of
//! them alike, and prints medians and their ratios. bwrap is left out where it is not installed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and ends at the first fault")]

use std::path::Path;
use std::time::{Duration, Instant};

use runners::sandbox::{
    Cause, Command, Container, ContainerLimits, ContainerSpec, Embedded, Sandbox as _, init,
};
use tokio::process::Command as Plain;

const ROUNDS: usize = 100;
const PROGRAM: &str = "/usr/bin/true";

fn main() {
    init::maybe_run();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

/// The times of one way to start a program.
struct Way {
    name: &'static str,
    times: Vec<Duration>,
}

impl Way {
    fn new(name: &'static str) -> Self {
        Self { name, times: Vec::with_capacity(ROUNDS) }
    }

    fn took(&mut self, begun: Instant) {
        self.times.push(begun.elapsed());
    }

    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Embedded::new().unwrap();
    let spec = spec(folder.path());
    let mut standing = sandbox.create(spec.clone()).await.unwrap();
    std::fs::create_dir_all(&spec.workspace).unwrap();
    let has_bwrap = Plain::new("bwrap").arg("--version").output().await.is_ok();
    let mut plain = Way::new("fork and exec");
    let mut bwrap = Way::new("bwrap, all namespaces");
    let mut exec = Way::new("exec in a container");
    let mut whole = Way::new("create, exec, destroy");
    for _ in 0..ROUNDS {
        let begun = at_rest().await;
        assert!(Plain::new(PROGRAM).env_clear().output().await.unwrap().status.success());
        plain.took(begun);
        if has_bwrap {
            let mut command = in_bwrap(&spec.workspace);
            let begun = at_rest().await;
            assert!(command.output().await.unwrap().status.success());
            bwrap.took(begun);
        }
        let begun = at_rest().await;
        run(&mut *standing).await;
        exec.took(begun);
        let begun = at_rest().await;
        let mut container = sandbox.create(spec.clone()).await.unwrap();
        run(&mut *container).await;
        container.destroy().await.unwrap();
        whole.took(begun);
    }
    print(&plain, &bwrap, [&exec, &whole]);
}

/// The kernel takes a network namespace apart after its end, and the next to be made waits for it: without
/// a rest each way would pay for the one before it.
async fn at_rest() -> Instant {
    tokio::time::sleep(Duration::from_millis(40)).await;
    Instant::now()
}

fn print(plain: &Way, bwrap: &Way, ours: [&Way; 2]) {
    println!("median of {ROUNDS}, ms");
    for way in [plain, bwrap].into_iter().chain(ours) {
        let median = way.median();
        let (to_plain, to_bwrap) = (median / plain.median(), median / bwrap.median());
        println!(
            "{:<24} {median:>7.2}   {to_plain:>5.2} x fork and exec   {to_bwrap:>5.2} x bwrap",
            way.name
        );
    }
}

async fn run(container: &mut dyn Container) {
    let exit = container.exec(Command::new(&[PROGRAM])).await.unwrap();
    assert_eq!(exit.cause, Cause::Exited(0));
}

fn spec(folder: &Path) -> ContainerSpec {
    ContainerSpec {
        run: jobs::id::RunId::fresh(1),
        workspace: folder.join("workspace"),
        home: folder.join("home"),
        read_only: Vec::new(),
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        limits: ContainerLimits {
            memory_bytes: 512 << 20,
            processes: 64,
            file_bytes: 64 << 20,
            open_files: 256,
            scratch_bytes: 64 << 20,
        },
        egress: None,
    }
}

fn in_bwrap(workspace: &Path) -> Plain {
    let mut command = Plain::new("bwrap");
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]);
    command.args([
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
    ]);
    command.args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command.arg("--bind").arg(workspace).args(["/workspace", "--chdir", "/workspace", PROGRAM]);
    command
}
