//! Runs the suite from outside: sets out canaries, starts the probes in containers, looks at the host after.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jobs::id::RunId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::bombs::{BOMBS, Bomb, LIMITS};
use super::raw::call;
use super::{ARGUMENT, Facts, Found, Outcome, PROGRAM, workspace};
use crate::egress::Sealed;
use crate::sandbox::{
    Bind, Cause, Command, Container, ContainerLimits, ContainerSpec, Exit, FindingState, HOME, Sandbox,
    SandboxError, removal,
};

/// What one backend, used by one user, was found to hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// `embedded`, `podman`, ...
    pub backend: String,
    /// `root`, or the number of another user.
    pub user: String,
    pub found: Vec<Found>,
}

impl Column {
    /// Those that are not contained.
    pub fn failures(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(|one| !one.outcome.is_contained())
    }

    /// The column's head: the backend and who used it.
    pub fn title(&self) -> String {
        format!("{} as {}", self.backend, self.user)
    }
}

/// The suite could not be run; what a container would hold is not known.
#[derive(Debug, thiserror::Error)]
pub enum ExamineError {
    /// A canary or a folder could not be made.
    #[error("cannot set out the canaries")]
    Canaries(#[source] io::Error),
    /// A container did not do its work.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The probe's program did not answer as it must.
    #[error("the probe inside did not answer: {0}")]
    Probe(String),
    /// The suite could not be started as another user.
    #[error("cannot run the suite as user {user}: {why}")]
    OtherUser { user: u32, why: String },
}

/// Tries every wall of `sandbox`. `program` is an executable whose `main` begins with
/// [`maybe_run`](crate::sandbox::init::maybe_run); it is bound into the containers.
pub async fn examine(sandbox: &dyn Sandbox, program: &Path, run: &RunId) -> Result<Column, ExamineError> {
    let canaries = Canaries::set_out(sandbox.owner()).map_err(ExamineError::Canaries)?;
    let examination = Examination { sandbox, program, run, canaries };
    let mut found = examination.walls().await?;
    for bomb in BOMBS {
        found.push(examination.bomb(bomb).await?);
    }
    found.push(examination.daemon().await?);
    found.push(examination.planted().await?);
    found.push(examination.leftovers().await?);
    let user = rustix::process::geteuid();
    let user = if user.is_root() { "root".to_owned() } else { user.as_raw().to_string() };
    Ok(Column { backend: sandbox.probe().backend.to_owned(), user, found })
}

struct Examination<'a> {
    sandbox: &'a dyn Sandbox,
    program: &'a Path,
    run: &'a RunId,
    canaries: Canaries,
}

/// Folders of one container.
struct Place {
    container: Box<dyn Container>,
    folder: PathBuf,
}

impl Place {
    fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    async fn close(mut self) -> Result<(), ExamineError> {
        self.container.destroy().await?;
        let folder = self.folder;
        let removed = tokio::task::spawn_blocking(move || removal::remove(&folder)).await;
        removed.map_err(io::Error::other).and_then(|removed| removed).map_err(ExamineError::Canaries)
    }
}

impl Examination<'_> {
    async fn place(&self, name: &str) -> Result<Place, ExamineError> {
        self.place_with(name, LIMITS).await
    }

    async fn place_with(&self, name: &str, limits: ContainerLimits) -> Result<Place, ExamineError> {
        let folder = self.canaries.folder.path().join("containers").join(name);
        fs::create_dir_all(&folder).map_err(ExamineError::Canaries)?;
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", HOME)];
        let spec = ContainerSpec {
            run: self.run.clone(),
            workspace: folder.join("workspace"),
            home: folder.join("home"),
            read_only: vec![Bind { host: self.program.to_owned(), inside: PROGRAM.into() }],
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            limits,
            egress: None,
        };
        let container = self.sandbox.create(spec).await?;
        Ok(Place { container, folder })
    }

    fn command(&self, words: &[&str], feeds: Feed) -> Command {
        let mut argv = vec![PROGRAM, ARGUMENT];
        argv.extend(words);
        let stdin = match feeds {
            Feed::Facts => serde_json::to_vec(&self.canaries.facts).unwrap_or_default(),
            Feed::Nothing => Vec::new(),
        };
        Command { stdin, timeout: Duration::from_secs(120), max_output_bytes: 1 << 20, ..Command::new(&argv) }
    }

    /// The self-test, and everything that one command can try.
    async fn walls(&self) -> Result<Vec<Found>, ExamineError> {
        let mut place = self.place("walls").await?;
        let mut found = vec![self_test(place.container.seal(&Sealed::never_opened()).await)?];
        let exit = place.container.exec(self.command(&["walls"], Feed::Facts)).await?;
        place.close().await?;
        if exit.cause != Cause::Exited(0) {
            let said = String::from_utf8_lossy(&exit.stderr).into_owned();
            return Err(ExamineError::Probe(format!("{:?}: {said}", exit.cause)));
        }
        for line in String::from_utf8_lossy(&exit.stdout).lines() {
            let one = serde_json::from_str(line).map_err(|error| ExamineError::Probe(error.to_string()))?;
            found.push(one);
        }
        Ok(found)
    }

    async fn bomb(&self, bomb: &Bomb) -> Result<Found, ExamineError> {
        let mut place = self.place(bomb.name).await?;
        let command = Command {
            timeout: bomb.timeout,
            silence: bomb.silence,
            ..self.command(&["bomb", bomb.name], Feed::Nothing)
        };
        let exit = place.container.exec(command).await;
        place.close().await?;
        let outcome = match exit {
            Ok(exit) => self.declared(bomb, judge(bomb, &exit)),
            Err(error) => Outcome::NotTried(error.to_string()),
        };
        Ok(found("bombs", bomb.name, bomb.rule, outcome))
    }

    /// A limit that a backend says it cannot enforce is no leak; a strict policy refuses such a machine.
    fn declared(&self, bomb: &Bomb, outcome: Outcome) -> Outcome {
        let Outcome::Leak(said) = outcome else { return outcome };
        let capabilities = self.sandbox.probe();
        let weak = capabilities
            .findings
            .iter()
            .find(|finding| Some(finding.name) == bomb.declared_by && finding.state == FindingState::Weak);
        match weak {
            Some(finding) => Outcome::Declared(format!("{said}; {}: {}", finding.name, finding.found)),
            None => Outcome::Leak(said),
        }
    }

    /// The lock is free only when the process that held it is gone.
    async fn daemon(&self) -> Result<Found, ExamineError> {
        let mut place = self.place("daemon").await?;
        let exit = place.container.exec(self.command(&["daemon"], Feed::Nothing)).await?;
        let outcome = match (exit.cause, fs::File::open(place.workspace().join("locked"))) {
            (Cause::Exited(0), Ok(file)) => match file.try_lock() {
                Ok(()) => Outcome::Contained("its lock is free".to_owned()),
                Err(error) => Outcome::Leak(error.to_string()),
            },
            (cause, opened) => Outcome::NotTried(format!("{cause:?}, {:?}", opened.err())),
        };
        place.close().await?;
        Ok(found("host", "daemon", "no process outlives its command", outcome))
    }

    async fn planted(&self) -> Result<Found, ExamineError> {
        // Deeper than a watch of the disk lets through, which looks where the host's disk fills by others too.
        let limits = ContainerLimits { disk_files: 1 << 20, disk_bytes: 1 << 40, ..LIMITS };
        let mut place = self.place_with("planted", limits).await?;
        let exit = place.container.exec(self.command(&["plant"], Feed::Facts)).await?;
        let outcome = match exit.cause {
            Cause::Exited(0) => self.look_at(place.workspace()).await,
            cause => {
                let said = String::from_utf8_lossy(&exit.stderr).into_owned();
                Outcome::NotTried(format!("nothing was planted: {cause:?}: {said}"))
            }
        };
        place.close().await?;
        let rule = "a workspace full of traps springs none on the host";
        Ok(found("host", "planted-workspace", rule, outcome))
    }

    /// A host that hangs on a pipe or in a loop of links would hang here.
    async fn look_at(&self, workspace: PathBuf) -> Outcome {
        let facts = &self.canaries.facts;
        let (file, canary) = (facts.canary_file.clone(), facts.canary.clone());
        let looked = tokio::task::spawn_blocking(move || workspace::look(&workspace, &file, &canary));
        match tokio::time::timeout(Duration::from_secs(60), looked).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::Leak(format!("the host's walk ended by a panic: {error}")),
            Err(_) => Outcome::Leak("the host's walk hung".to_owned()),
        }
    }

    /// After the last container's end, and a reap that has nothing to do.
    async fn leftovers(&self) -> Result<Found, ExamineError> {
        self.sandbox.reap(self.run.clone()).await?;
        let mut left = Vec::new();
        let marks = [self.run.to_string(), self.canaries.folder.path().to_string_lossy().into_owned()];
        for file in ["/proc/self/mountinfo", "/proc/self/cgroup"] {
            let text = fs::read_to_string(file).map_err(ExamineError::Canaries)?;
            let marked = text.lines().filter(|line| marks.iter().any(|mark| line.contains(mark.as_str())));
            left.extend(marked.map(str::to_owned));
        }
        let folders = self.canaries.folder.path().join("containers");
        for entry in fs::read_dir(folders).map_err(ExamineError::Canaries)?.flatten() {
            left.push(entry.path().display().to_string());
        }
        let outcome = super::none_open(&left, "no mount, no folder");
        Ok(found("host", "leftovers", "nothing of a container is left on the host", outcome))
    }
}

/// What the command reads.
enum Feed {
    Facts,
    Nothing,
}

fn found(group: &str, name: &str, rule: &str, outcome: Outcome) -> Found {
    Found { group: group.to_owned(), name: name.to_owned(), rule: rule.to_owned(), outcome }
}

fn self_test(sealed: Result<jobs::step::SealReport, SandboxError>) -> Result<Found, ExamineError> {
    let outcome = match sealed {
        Ok(report) if report.sealed() => Outcome::Contained(format!("{} tests", report.tests.len())),
        Ok(_) => Outcome::Leak("a way out is open".to_owned()),
        Err(SandboxError::NotSealed(why)) => Outcome::Leak(why),
        Err(error) => return Err(error.into()),
    };
    Ok(found("host", "self-test", "the test before every run finds everything closed", outcome))
}

/// What became of a bomb: by its end where that is the limit's, else by what it says itself.
fn judge(bomb: &Bomb, exit: &Exit) -> Outcome {
    if bomb.ends.contains(&exit.cause) {
        return Outcome::Contained(format!("ended: {:?}", exit.cause));
    }
    let text = String::from_utf8_lossy(&exit.stdout);
    match (exit.cause, text.lines().last().map(serde_json::from_str::<Outcome>)) {
        (_, Some(Ok(outcome))) => outcome,
        (Cause::OutOfMemory, _) => Outcome::Contained("ended: out of memory".to_owned()),
        (cause, _) => {
            let said = String::from_utf8_lossy(&exit.stderr).into_owned();
            Outcome::NotTried(format!("it ended by {cause:?}: {said}"))
        }
    }
}

/// What lies on the host for a probe to find, for as long as this value lives.
struct Canaries {
    folder: tempfile::TempDir,
    facts: Facts,
    _listeners: (TcpListener, UnixListener, UnixListener),
    segment: i64,
}

impl Canaries {
    fn set_out(owner: Option<(u32, u32)>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("whipstitch-conformance-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        fs::create_dir(folder.path().join("containers"))?;
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let canary_file = folder.path().join("canary");
        let canary = format!("CANARY-{unique}");
        fs::write(&canary_file, &canary)?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let abstract_socket = format!("whipstitch-canary-{unique}");
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_socket)?)?;
        let path_socket = folder.path().join("canary.sock");
        let by_path = UnixListener::bind(&path_socket)?;
        if let Some((user, group)) = owner {
            // Even where the file and the socket belong to the user inside, they must be out of reach.
            std::os::unix::fs::chown(&canary_file, Some(user), Some(group))?;
            std::os::unix::fs::chown(&path_socket, Some(user), Some(group))?;
        }
        let memory_key = i32::from_ne_bytes(Sha256::digest(&unique)[..4].try_into().unwrap_or_default());
        let memory_key = memory_key & i32::MAX | 1;
        const MAKE: u64 = 0o1000 | 0o2000 | 0o666;
        let segment = call(libc::SYS_shmget, &[memory_key as u64, 4096, MAKE])?;
        let facts = Facts {
            canary_file,
            canary,
            abstract_socket,
            path_socket,
            tcp_port: tcp.local_addr()?.port(),
            host_process: i32::try_from(std::process::id()).unwrap_or_default(),
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            namespaces: namespaces()?,
            memory_key,
            environment: environment(),
            processes: LIMITS.processes,
            open_files: LIMITS.open_files,
            forwarded: false,
        };
        Ok(Self { folder, facts, _listeners: (tcp, by_name, by_path), segment })
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        // Shared memory has no folder that would take it along.
        drop(call(libc::SYS_shmctl, &[self.segment.cast_unsigned(), libc::IPC_RMID as u64, 0]));
    }
}

fn namespaces() -> io::Result<BTreeMap<String, String>> {
    ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .into_iter()
        .map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}"))?;
            Ok((name.to_owned(), link.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Digests, so that the probe inside can tell a variable of ours without being told it. What every process
/// has is no secret and may be the same inside.
fn environment() -> Vec<String> {
    const SHARED: [&str; 8] = ["PATH", "HOME", "LANG", "TERM", "SHLVL", "PWD", "USER", "HOSTNAME"];
    use std::os::unix::ffi::OsStrExt as _;
    std::env::vars_os()
        .filter(|(name, _)| !SHARED.contains(&name.to_string_lossy().as_ref()))
        .map(|(name, value)| {
            let text = [name.as_bytes(), b"=", value.as_bytes()].concat();
            hex::encode(Sha256::digest(text))
        })
        .collect()
}

/// Runs `program` with `arguments` as another user, from a copy that this user can reach, and gives what it
/// prints. For root, who can thus see what the sandbox is for others.
pub async fn as_other_user(
    program: &Path,
    arguments: &[&str],
    (user, group): (u32, u32),
) -> Result<Vec<u8>, ExamineError> {
    let failed = |error: io::Error| ExamineError::OtherUser { user, why: error.to_string() };
    let folder = tempfile::Builder::new().prefix("whipstitch-as-other-").tempdir().map_err(failed)?;
    let (copy, scratch) = (folder.path().join("whipstitch"), folder.path().join("scratch"));
    let prepare = || -> io::Result<()> {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        fs::copy(program, &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        fs::create_dir(&scratch)?;
        std::os::unix::fs::chown(&scratch, Some(user), Some(group))
    };
    prepare().map_err(failed)?;
    let mut command = tokio::process::Command::new(&copy);
    command.args(arguments).uid(user).gid(group).current_dir(&scratch);
    command.env("TMPDIR", &scratch).env("HOME", &scratch).stdin(Stdio::null());
    let done = command.output().await.map_err(failed)?;
    if done.stdout.is_empty() {
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(ExamineError::OtherUser { user, why });
    }
    Ok(done.stdout)
}
