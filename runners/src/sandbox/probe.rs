//! What this machine can seal, found by making one container and trying every way out of it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use jobs::digest::Digest;
use jobs::step::{EgressLine, HeldLimit, SealReport, SealTest};

use super::base::Root;
use super::cgroup::{Bounds, Controller, Place, Version};
use super::embedded::{NAME, send_head};
use super::init::plan::{Limits, Plan, Report, Work};
use super::{Capabilities, Finding, FindingState, init, seccomp, sys};

/// The time that the self-test may take; every dial of a sealed container is refused at once.
pub const SELF_TEST_TIME: Duration = Duration::from_secs(30);

/// Ids of this host behind the user inside, when we are root; the first that our own user namespace has.
/// They belong to no account: distributions give out lower ones, and ranges for namespaces lie between.
const HOST_IDS: [u32; 3] = [1_879_070_547, 64_947, 9_947];

/// What was measured once, when the backend was made.
#[derive(Debug)]
pub struct Probed {
    pub host_ids: (u32, u32),
    pub landlock: Option<u32>,
    pub cgroup: Place,
    kernel: String,
    policy: Option<Digest>,
    trial: Result<Vec<SealTest>, NoContainer>,
}

/// Why no container could be made.
#[derive(Debug)]
struct NoContainer {
    what: String,
    errno: Option<i32>,
}

impl From<io::Error> for NoContainer {
    fn from(error: io::Error) -> Self {
        Self { what: error.to_string(), errno: error.raw_os_error() }
    }
}

impl Probed {
    /// Makes a container with `launcher` and asks the kernel for the rest.
    pub fn measure(launcher: &Path) -> Self {
        let host_ids = host_ids();
        let mut probed = Self {
            host_ids: host_ids.unwrap_or_default(),
            landlock: sys::landlock_abi(),
            cgroup: Place::find(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            policy: seccomp::digest().ok(),
            trial: Ok(Vec::new()),
        };
        probed.trial = match host_ids {
            Some(_) => try_once(launcher, &probed.trial_plan()),
            None => Err(NoContainer {
                what: "the root of this user namespace has no other user for a container".to_owned(),
                errno: None,
            }),
        };
        probed
    }

    /// Why no container of this machine can be sealed, and what to do; `None` when it can.
    pub fn refusal(&self) -> Option<String> {
        let missing = self.findings().into_iter().filter(|finding| finding.state == FindingState::Missing);
        let said: Vec<_> =
            missing.map(|one| format!("{}: {}; {}", one.name, one.found, one.advice)).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    pub fn capabilities(&self) -> Capabilities {
        Capabilities { backend: NAME, kernel: self.kernel.clone(), findings: self.findings() }
    }

    /// The report of a seal whose self-test came to `tests`, after `egress` had passed the window.
    pub fn report(&self, tests: Vec<SealTest>, egress: &[EgressLine]) -> SealReport {
        let tier = self.cgroup.version(Controller::Memory).map_or("rlimits", interface);
        let ledger = serde_json::to_vec(egress).expect("strings and numbers are always written");
        SealReport {
            backend: NAME.to_owned(),
            kernel: self.kernel.clone(),
            landlock_abi: self.landlock,
            policy: self.policy,
            limits_tier: tier.to_owned(),
            limits: self.limits(),
            egress: Some(Digest::of(ledger)),
            tests,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.namespaces()];
        if let Ok(tests) = &self.trial {
            findings.push(seal(tests));
        }
        findings.extend([self.landlock(), self.seccomp(), self.memory()]);
        findings.extend([self.processes(), self.processors(), disk()]);
        findings
    }

    fn namespaces(&self) -> Finding {
        let name = "user namespaces";
        match &self.trial {
            Ok(_) => {
                let (user, group) = self.host_ids;
                ok(name, format!("a container was made; its user is {user}:{group} of this host"))
            }
            Err(why) => {
                let advice = advice(why);
                Finding { name, state: FindingState::Missing, found: why.what.clone(), advice }
            }
        }
    }

    fn landlock(&self) -> Finding {
        match self.landlock {
            Some(abi) => ok("Landlock", format!("version {abi}")),
            None => Finding {
                name: "Landlock",
                state: FindingState::Missing,
                found: "the kernel does not offer it".to_owned(),
                advice: "use Linux 5.13 or newer and add landlock to the kernel's lsm= list".to_owned(),
            },
        }
    }

    fn seccomp(&self) -> Finding {
        match &self.policy {
            Some(digest) => ok("seccomp", format!("policy {digest}")),
            None => Finding {
                name: "seccomp",
                state: FindingState::Missing,
                found: format!("no policy for {}", std::env::consts::ARCH),
                advice: "use a machine of x86-64 or aarch64".to_owned(),
            },
        }
    }

    fn memory(&self) -> Finding {
        let weak = "no cgroup can be made; best effort: a limit per process and a watch of the sum";
        self.held_by_cgroup("memory limit", Controller::Memory, weak)
    }

    fn processes(&self) -> Finding {
        match self.cgroup.version(Controller::Pids) {
            Some(_) => self.held_by_cgroup("process limit", Controller::Pids, ""),
            None => ok("process limit", "RLIMIT_NPROC, counted for each container alone".to_owned()),
        }
    }

    fn processors(&self) -> Finding {
        let weak = "no cgroup can be made; a container may use every processor";
        self.held_by_cgroup("processor limit", Controller::Cpu, weak)
    }

    fn held_by_cgroup(&self, name: &'static str, controller: Controller, weak: &str) -> Finding {
        match (self.cgroup.version(controller), self.cgroup.folder(controller)) {
            (Some(version), Some(folder)) => {
                ok(name, format!("{} below {}", interface(version), folder.display()))
            }
            (None, _) | (_, None) => Finding {
                name,
                state: FindingState::Weak,
                found: weak.to_owned(),
                advice: "run as root, or as a systemd unit with Delegate=yes and DelegateSubgroup=main"
                    .to_owned(),
            },
        }
    }

    /// Each limit, and what holds it here.
    fn limits(&self) -> Vec<HeldLimit> {
        let held = |name: &str, controller, otherwise: &str, enforced| match self.cgroup.version(controller) {
            Some(version) => limit(name, interface(version), true),
            None => limit(name, otherwise, enforced),
        };
        vec![
            held("memory", Controller::Memory, "watch", false),
            held("processes", Controller::Pids, "rlimit", true),
            held("processors", Controller::Cpu, "none", false),
            limit("disk", "watch", false),
        ]
    }

    fn trial_plan(&self) -> Plan {
        let root = Root::system();
        let limits = Limits {
            memory_bytes: 256 << 20,
            processes: 64,
            file_bytes: 1 << 20,
            open_files: 256,
            scratch_bytes: 1 << 20,
            disk_bytes: 1 << 20,
            disk_files: 1000,
        };
        let bounds = Bounds { memory_bytes: limits.memory_bytes, tasks: 64, cpu_percent: None };
        Plan {
            host_ids: self.host_ids,
            mounts: root.mounts,
            links: root.links,
            files: root.files,
            limits,
            cgroup: self.cgroup.child("trial", bounds),
            landlock: self.landlock.is_some(),
            forward: false,
            work: Work::SelfTest,
        }
    }
}

fn ok(name: &'static str, found: String) -> Finding {
    Finding { name, state: FindingState::Ok, found, advice: String::new() }
}

fn seal(tests: &[SealTest]) -> Finding {
    let open: Vec<_> = tests.iter().filter(|test| !test.closed).collect();
    let name = "seal";
    if open.is_empty() && !tests.is_empty() {
        let names: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
        return ok(name, format!("closed: {}", names.join(", ")));
    }
    let said: Vec<_> = open.iter().map(|test| format!("{} ({})", test.name, test.evidence)).collect();
    Finding {
        name,
        state: FindingState::Missing,
        found: format!("open: {}", said.join("; ")),
        advice: "do not use this machine for code of strangers, and report this".to_owned(),
    }
}

const fn interface(version: Version) -> &'static str {
    match version {
        Version::One => "cgroup-v1",
        Version::Two => "cgroup-v2",
    }
}

fn limit(name: &str, by: &str, enforced: bool) -> HeldLimit {
    HeldLimit { name: name.to_owned(), by: by.to_owned(), enforced }
}

fn disk() -> Finding {
    Finding {
        name: "disk limit",
        state: FindingState::Weak,
        found: "scratch space is bounded; workspace and home are watched, best effort".to_owned(),
        advice: "keep the data folder on a file system of its own".to_owned(),
    }
}

/// Our own ids, or for root those of nobody; root's own are never used.
fn host_ids() -> Option<(u32, u32)> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if !user.is_root() {
        return Some((user.as_raw(), group.as_raw()));
    }
    let read = |file| fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let (users, groups) = (read("uid_map"), read("gid_map"));
    let id = HOST_IDS.into_iter().find(|&id| has_id(&users, id) && has_id(&groups, id))?;
    Some((id, id))
}

/// Whether a user namespace with this `uid_map` has `id`, see user_namespaces(7).
fn has_id(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) => {
                (first..first + count).contains(&u64::from(id))
            }
            _ => false,
        }
    })
}

fn advice(why: &NoContainer) -> String {
    let is = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if is("/proc/sys/user/max_user_namespaces", "0") {
        return "set the sysctl user.max_user_namespaces to 10000".to_owned();
    }
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") && !rustix::process::geteuid().is_root() {
        return "set the sysctl kernel.unprivileged_userns_clone to 1, or run as root".to_owned();
    }
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") && why.errno.is_some() {
        return "AppArmor restricts user namespaces: give this executable a profile with `userns,`, or set the \
                sysctl kernel.apparmor_restrict_unprivileged_userns to 0"
            .to_owned();
    }
    match why.errno {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "in a container: start it with a seccomp profile that admits clone3, unshare and mount, and with an \
             unmasked /proc (docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined); \
             on a host: run as root"
                .to_owned()
        }
        Some(libc::ENOSPC | libc::EUSERS) => "raise the sysctls user.max_*_namespaces".to_owned(),
        None if rustix::process::geteuid().is_root() => {
            "run as another user than root, or give this user namespace more ids".to_owned()
        }
        _ => "see the message; the kernel must be 5.14 or newer".to_owned(),
    }
}

/// Makes one container without an async runtime, which need not run yet.
fn try_once(launcher: &Path, plan: &Plan) -> Result<Vec<SealTest>, NoContainer> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(SELF_TEST_TIME))?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    let mut child = Command::new(launcher)
        .arg0("whipstitch-sandbox")
        .arg(init::ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| NoContainer { what: format!("cannot start the launcher: {error}"), errno: None })?;
    let said = ask(&mut ours, write, plan);
    drop(ours);
    // Its socket is closed, so that it ends the container and leaves even when we stopped listening.
    child.wait()?;
    judge(&said?)?;
    let mut text = Vec::new();
    std::fs::File::from(read).take(1 << 20).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(|error| NoContainer { what: error.to_string(), errno: None })
}

fn ask(socket: &mut UnixStream, output: OwnedFd, plan: &Plan) -> io::Result<String> {
    let text = serde_json::to_vec(plan)?;
    send_head(socket, text.len(), &[output.as_fd()])?;
    drop(output);
    socket.write_all(&text)?;
    let mut said = String::new();
    socket.read_to_string(&mut said)?;
    Ok(said)
}

fn judge(said: &str) -> Result<(), NoContainer> {
    let first = said.lines().next().map(serde_json::from_str::<Report>);
    match first {
        Some(Ok(Report::Exited { code: 0, .. })) => Ok(()),
        Some(Ok(Report::Failed { what, errno })) => Err(NoContainer { what, errno }),
        Some(Ok(Report::NotStarted { why })) => Err(NoContainer { what: why, errno: None }),
        Some(Ok(other)) => Err(NoContainer { what: format!("it ended by {other:?}"), errno: None }),
        Some(Err(_)) | None => {
            let what = "the launcher said nothing; its main must begin with sandbox::init::maybe_run()";
            Err(NoContainer { what: what.to_owned(), errno: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sought_in_every_line_of_the_map() {
        let map = "         0     100000      65536\n     70000     200000 10\n";
        assert!(has_id(map, 65_535) && has_id(map, 70_009));
        assert!(!has_id(map, 65_536) && !has_id(map, 70_010));
    }

    #[test]
    fn a_way_out_that_is_open_is_no_seal() {
        let test = |closed| SealTest { name: "ipv4".to_owned(), closed, evidence: "connected".to_owned() };
        assert_eq!(seal(&[test(true)]).state, FindingState::Ok);
        assert_eq!(seal(&[test(true), test(false)]).state, FindingState::Missing);
        assert_eq!(seal(&[]).state, FindingState::Missing);
    }

    #[test]
    fn a_launcher_that_is_none_is_named() {
        let error = judge("").unwrap_err();
        assert!(error.what.contains("maybe_run"));
    }
}
