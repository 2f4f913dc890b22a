//! The seal of the container in three plain lines: what it was, what bounded it, what it could reach.

use jobs::step::{EgressLine, HeldLimit, Output, SealReport, StepState};
use jobs::store::RunView;

use super::evidence::count;
use crate::text::one_line;

/// Hosts that are named before the rest is counted.
const MOST_HOSTS: usize = 4;

/// The three lines; none before the container was sealed.
pub(super) fn lines(view: &RunView) -> Vec<String> {
    match last(view) {
        Some((report, egress)) => vec![container(report), limits(report), network(report, egress)],
        None => Vec::new(),
    }
}

/// The report of the last installation, with what passed the window.
fn last(view: &RunView) -> Option<(&SealReport, &[EgressLine])> {
    view.steps.iter().rev().find_map(|step| match &step.state {
        StepState::Done { output } => match output.as_ref() {
            Output::Bootstrapped { seal, egress, .. } => Some((seal, egress.as_slice())),
            Output::Provisioned { .. }
            | Output::Navigated { .. }
            | Output::Baseline { .. }
            | Output::Proposed { .. }
            | Output::Applied { .. }
            | Output::Verified { .. }
            | Output::Governed { .. } => None,
        },
        StepState::Begun | StepState::Failed { .. } => None,
    })
}

fn container(report: &SealReport) -> String {
    let landlock = match report.landlock_abi {
        Some(version) => format!("Landlock {version}"),
        None => "no Landlock".to_owned(),
    };
    let policy = match report.policy {
        Some(digest) => format!("policy `sha256:{digest}`"),
        None => "no policy on system calls".to_owned(),
    };
    let open: Vec<&str> =
        report.tests.iter().filter(|test| !test.closed).map(|test| test.name.as_str()).collect();
    let tested = match open.is_empty() {
        true => format!("{} from inside, all closed", count(report.tests.len(), "test")),
        false => format!("open: {}", open.join(", ")),
    };
    let (backend, kernel) = (one_line(&report.backend, 40), one_line(&report.kernel, 60));
    format!(
        "Container: {backend} on Linux {kernel}, {landlock}, {policy}; {tested}; report `sha256:{}`",
        report.digest()
    )
}

fn limits(report: &SealReport) -> String {
    let said = |held: &HeldLimit| {
        let by = match held.by.as_str() {
            "none" => "not held".to_owned(),
            by if held.enforced => by.to_owned(),
            by => format!("{by}, best effort"),
        };
        format!("{} ({by})", held.name)
    };
    match report.limits.is_empty() {
        true => format!("Limits: {}", one_line(&report.limits_tier, 40)),
        false => format!("Limits: {}", report.limits.iter().map(said).collect::<Vec<_>>().join(", ")),
    }
}

fn network(report: &SealReport, egress: &[EgressLine]) -> String {
    let mut hosts: Vec<String> = Vec::new();
    for line in egress.iter().filter(|line| line.refused.is_none()) {
        let host = one_line(&line.host, 80).replace('`', "'");
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    let refused = egress.iter().filter(|line| line.refused.is_some()).count();
    let bytes: u64 = egress.iter().map(|line| line.bytes_down).sum();
    let reached = match hosts.len() {
        0 => "nothing was reached while dependencies were installed".to_owned(),
        all => {
            let named: Vec<String> = hosts.iter().take(MOST_HOSTS).map(|host| format!("`{host}`")).collect();
            let more = match all.saturating_sub(MOST_HOSTS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{}{more} reached while dependencies were installed ({bytes} bytes)", named.join(", "))
        }
    };
    let ledger = report.egress.map_or(String::new(), |digest| format!("; ledger `sha256:{digest}`"));
    format!("Network: loopback alone; {reached}, {refused} refused{ledger}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobs::digest::Digest;
    use jobs::step::SealTest;

    fn report() -> SealReport {
        let test =
            |name: &str| SealTest { name: name.to_owned(), closed: true, evidence: "refused".to_owned() };
        let held =
            |name: &str, by: &str, enforced| HeldLimit { name: name.to_owned(), by: by.to_owned(), enforced };
        SealReport {
            backend: "embedded".to_owned(),
            kernel: "6.18.0".to_owned(),
            landlock_abi: Some(7),
            policy: Some(Digest::of("policy")),
            limits_tier: "cgroup-v1".to_owned(),
            limits: vec![
                held("memory", "cgroup-v1", true),
                held("disk", "watch", false),
                held("processors", "none", false),
            ],
            egress: Some(Digest::of("[]")),
            tests: vec![test("ipv4"), test("vsock")],
        }
    }

    fn passed(host: &str, refused: Option<&str>) -> EgressLine {
        EgressLine {
            host: host.to_owned(),
            port: 443,
            refused: refused.map(str::to_owned),
            bytes_up: 1,
            bytes_down: 1000,
            asked_by: "pip".to_owned(),
            path: None,
            digest: None,
            cached: false,
        }
    }

    #[test]
    fn three_plain_lines_tell_what_the_container_was() {
        let report = report();
        let egress = [
            passed("a.example", None),
            passed("a.example", None),
            passed("evil.example", Some("not admitted")),
        ];
        let lines = [container(&report), limits(&report), network(&report, &egress)];
        let text = lines.join("\n").replace(&report.digest().to_string(), "REPORT");
        insta::assert_snapshot!(text, @r"
        Container: embedded on Linux 6.18.0, Landlock 7, policy `sha256:823412d1eacb67956220e532959f0104603057c88704863ca38e7cd188fda812`; 2 tests from inside, all closed; report `sha256:REPORT`
        Limits: memory (cgroup-v1), disk (watch, best effort), processors (not held)
        Network: loopback alone; `a.example` reached while dependencies were installed (3000 bytes), 1 refused; ledger `sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945`
        ");
    }

    #[test]
    fn an_open_way_is_named_and_a_hostile_name_breaks_nothing() {
        let mut report = report();
        report.tests[0].closed = false;
        assert!(container(&report).contains("open: ipv4"));
        let line = network(&report, &[passed("a`\n# x", None)]);
        assert!(!line.contains('\n') && line.matches('`').count().is_multiple_of(2), "{line}");
        assert!(network(&report, &[]).contains("nothing was reached"));
    }
}
