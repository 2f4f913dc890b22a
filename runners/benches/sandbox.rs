//! What a sealed start costs: `/usr/bin/true` in a container, against a plain process, bwrap, runc and podman.
//!
//! `cargo bench -p runners --bench sandbox` runs each in turn, so that the machine's moods meet all of
//! them alike, and prints medians and their ratios. What is not installed, or cannot run here, is left out
//! and named.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and ends at the first fault")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runners::sandbox::{
    Cause, Command, Container, ContainerLimits, ContainerSpec, Embedded, Sandbox as _, init,
};
use tokio::process::Command as Plain;

const ROUNDS: usize = 100;
/// Engines take ten times as long, so they are started less often.
const EVERY: usize = 5;
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

/// Another program that starts containers.
struct Other {
    way: Way,
    /// Started in every so many rounds.
    every: usize,
    make: Box<dyn Fn() -> Plain>,
}

impl Other {
    /// Tries it once; says why it is left out.
    async fn tried(name: &'static str, every: usize, make: impl Fn() -> Plain + 'static) -> Option<Self> {
        match make().output().await {
            Ok(output) if output.status.success() => {
                Some(Self { way: Way::new(name), every, make: Box::new(make) })
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("left out: {name}: {}", said.lines().last().unwrap_or_default());
                None
            }
            Err(error) => {
                println!("left out: {name}: {error}");
                None
            }
        }
    }
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Embedded::new().unwrap();
    let spec = spec(folder.path());
    let mut standing = sandbox.create(spec.clone()).await.unwrap();
    let root = root_folder(folder.path());
    let others = [
        Other::tried("bwrap, all namespaces", 1, {
            let workspace = spec.workspace.clone();
            move || in_bwrap(&workspace)
        })
        .await,
        Other::tried("runc", EVERY, in_runc(folder.path(), &root).await).await,
        Other::tried("podman, network none", EVERY, move || in_podman(&root)).await,
    ];
    let mut others: Vec<Other> = others.into_iter().flatten().collect();
    let mut plain = Way::new("fork and exec");
    let mut exec = Way::new("exec in a container");
    let mut whole = Way::new("create, exec, destroy");
    let mut sealed = Way::new("create, seal, exec");
    for round in 0..ROUNDS {
        let begun = at_rest().await;
        assert!(Plain::new(PROGRAM).env_clear().output().await.unwrap().status.success());
        plain.took(begun);
        for other in others.iter_mut().filter(|other| round % other.every == 0) {
            let mut command = (other.make)();
            let begun = at_rest().await;
            assert!(command.output().await.unwrap().status.success());
            other.way.took(begun);
        }
        let begun = at_rest().await;
        run(&mut *standing).await;
        exec.took(begun);
        let begun = at_rest().await;
        let mut container = sandbox.create(spec.clone()).await.unwrap();
        run(&mut *container).await;
        container.destroy().await.unwrap();
        whole.took(begun);
        let begun = at_rest().await;
        let mut container = sandbox.create(spec.clone()).await.unwrap();
        container.seal(&runners::egress::Sealed::never_opened()).await.unwrap();
        run(&mut *container).await;
        sealed.took(begun);
    }
    print(&plain, &others, [&exec, &whole, &sealed]);
}

/// The kernel takes a network namespace apart after its end, and the next to be made waits for it: without
/// a rest each way would pay for the one before it.
async fn at_rest() -> Instant {
    tokio::time::sleep(Duration::from_millis(40)).await;
    Instant::now()
}

fn print(plain: &Way, others: &[Other], ours: [&Way; 3]) {
    println!("median of {ROUNDS}, ms (engines: of {})", ROUNDS / EVERY);
    let bwrap = others.iter().find(|other| other.way.name.starts_with("bwrap"));
    for way in std::iter::once(plain).chain(others.iter().map(|other| &other.way)).chain(ours) {
        let median = way.median();
        let to_bwrap =
            bwrap.map_or(String::new(), |bwrap| format!("{:>6.2} x bwrap", median / bwrap.way.median()));
        println!(
            "{:<24} {median:>8.2}   {:>6.2} x fork and exec   {to_bwrap}",
            way.name,
            median / plain.median()
        );
    }
}

async fn run(container: &mut dyn Container) {
    let exit = container.exec(Command::new(&[PROGRAM])).await.unwrap();
    assert_eq!(exit.cause, Cause::Exited(0));
}

/// With everything on: every cgroup, and less than all processors.
fn spec(folder: &Path) -> ContainerSpec {
    let workspace = folder.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    ContainerSpec {
        run: jobs::id::RunId::fresh(1),
        workspace,
        home: folder.join("home"),
        read_only: Vec::new(),
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        limits: ContainerLimits {
            memory_bytes: 512 << 20,
            processes: 64,
            file_bytes: 64 << 20,
            open_files: 256,
            scratch_bytes: 64 << 20,
            cpu_percent: 100,
            ..ContainerLimits::default()
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

/// A root that holds links alone; the programs are bound into it.
fn root_folder(folder: &Path) -> PathBuf {
    let root = folder.join("bundle/rootfs");
    for name in ["usr", "proc", "dev", "sys", "tmp", "etc", "run"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    for (at, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")]
    {
        std::os::unix::fs::symlink(target, root.join(at)).unwrap();
    }
    root
}

/// The runtime's own example of a bundle, with our program and programs.
async fn in_runc(folder: &Path, root: &Path) -> impl Fn() -> Plain + 'static {
    let bundle = folder.join("bundle");
    let made = Plain::new("runc").arg("spec").current_dir(&bundle).output().await;
    if made.is_ok_and(|made| made.status.success()) {
        let file = bundle.join("config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config["process"]["args"] = serde_json::json!([PROGRAM]);
        config["process"]["terminal"] = false.into();
        config["root"]["path"] = root.to_string_lossy().into_owned().into();
        let programs = serde_json::json!({
            "destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"],
        });
        config["mounts"].as_array_mut().unwrap().push(programs);
        std::fs::write(file, serde_json::to_vec(&config).unwrap()).unwrap();
    }
    let count = std::sync::atomic::AtomicUsize::new(0);
    move || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut command = Plain::new("runc");
        command.args(["run", "--bundle"]).arg(&bundle);
        command.arg(format!("whipstitch-bench-{}-{number}", std::process::id()));
        command
    }
}

fn in_podman(root: &Path) -> Plain {
    let mut command = Plain::new("podman");
    command.args(["run", "--rm", "--network", "none", "--read-only", "--cap-drop", "all"]);
    command.args(["--security-opt", "no-new-privileges", "--pids-limit", "64", "--memory", "512m"]);
    command.args(["-v", "/usr:/usr:ro", "--rootfs"]).arg(root).arg(PROGRAM);
    command
}
