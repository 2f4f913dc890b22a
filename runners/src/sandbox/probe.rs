//! What this machine can seal, measured; and what to do about what is missing.

use std::fs;
use std::io;

use jobs::digest::Digest;
use jobs::step::{SealReport, SealTest};

use super::cgroup::Tier;
use super::init::{SelfTestFinding, system_call_programs};
use super::{Capabilities, Finding, FindingState};

/// The running kernel's release.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Landlock's interface version; `None` where the kernel has none.
pub fn landlock_abi() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with no attributes and this flag the call only tells the version.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|&version| version > 0)
}

/// Everything that was looked for. `tried` is what a container of nothing found out, or why there was none.
pub fn findings(tier: &Tier, tried: Result<Vec<SelfTestFinding>, String>) -> Vec<Finding> {
    let mut findings = vec![namespaces(&tried)];
    if let Ok(found) = &tried {
        let open: Vec<&str> =
            found.iter().filter(|found| !found.closed).map(|found| found.name.as_str()).collect();
        findings.push(match open.is_empty() {
            true => finding(
                "seal",
                FindingState::Ok,
                "no way out: no route, no resolver, no hypervisor socket",
                "",
            ),
            false => finding(
                "seal",
                FindingState::Missing,
                &format!("open: {}", open.join(", ")),
                "report this kernel; nothing is run on it",
            ),
        });
    }
    findings.push(match landlock_abi() {
        Some(abi) => finding("Landlock", FindingState::Ok, &format!("ABI {abi}"), ""),
        None => finding(
            "Landlock",
            FindingState::Missing,
            "the kernel does not offer it",
            "use Linux 5.13 or newer and boot with `landlock` in the `lsm=` list",
        ),
    });
    findings.push(match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => {
            finding("seccomp", FindingState::Ok, "filters by BPF", "")
        }
        Ok(_) | Err(_) => finding(
            "seccomp",
            FindingState::Missing,
            "the kernel does not offer filters",
            "use a kernel built with CONFIG_SECCOMP_FILTER",
        ),
    });
    findings.push(match tier {
        Tier::V2(_) | Tier::V1 { .. } => finding(
            "memory and process limits",
            FindingState::Ok,
            &format!("{} for each container", tier.name()),
            "",
        ),
        Tier::Rlimits => finding(
            "memory and process limits",
            FindingState::Weak,
            "each process alone, not all together",
            "give the service a delegated control group (systemd: `Delegate=yes`)",
        ),
    });
    findings.push(finding(
        "disk limit",
        FindingState::Weak,
        "size of each file, and of scratch space; not of the whole workspace",
        "put the data folder on a file system of its own",
    ));
    findings
}

fn namespaces(tried: &Result<Vec<SelfTestFinding>, String>) -> Finding {
    const NAME: &str = "user namespaces";
    let why = match tried {
        Ok(_) => return finding(NAME, FindingState::Ok, "a container was made", ""),
        Err(why) => why,
    };
    let setting =
        |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let advice = if setting("/proc/sys/user/max_user_namespaces") == "0" {
        "run `sysctl user.max_user_namespaces=15000`"
    } else if setting("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        "run `sysctl kernel.unprivileged_userns_clone=1`"
    } else if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "give this executable an AppArmor profile with `userns,`, or run `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else {
        "run it outside a container that forbids them, or let that container make user namespaces and mounts"
    };
    finding(NAME, FindingState::Missing, why, advice)
}

fn finding(name: &'static str, state: FindingState, found: &str, advice: &str) -> Finding {
    Finding { name, state, found: found.to_owned(), advice: advice.to_owned() }
}

/// What is missing and the ways out, as one text.
pub fn advice(capabilities: &Capabilities) -> String {
    let missing = capabilities.findings.iter().filter(|finding| finding.state == FindingState::Missing);
    let lines: Vec<String> =
        missing.map(|finding| format!("{}: {} ({})", finding.name, finding.found, finding.advice)).collect();
    lines.join("; ")
}

/// The report that goes into the journal.
pub fn seal_report(capabilities: &Capabilities, tier: &Tier, tests: Vec<SealTest>) -> io::Result<SealReport> {
    let mut policy = Vec::new();
    for step in system_call_programs()?.concat() {
        policy.extend_from_slice(&step.code.to_le_bytes());
        policy.extend_from_slice(&[step.jt, step.jf]);
        policy.extend_from_slice(&step.k.to_le_bytes());
    }
    Ok(SealReport {
        backend: capabilities.backend.to_owned(),
        kernel: capabilities.kernel.clone(),
        landlock_abi: landlock_abi(),
        policy: Some(Digest::of(&policy)),
        limits_tier: tier.name().to_owned(),
        tests,
    })
}
