//! A machine that cannot seal is told apart, with the reason, and nothing runs on it.

use std::process::Command;

use runners::sandbox::{ContainerSpec, Embedded, Sandbox as _, SandboxError};

use super::common::launcher;
use super::container::limits;

/// Set in the process that has no user namespaces left.
const MARK: &str = "WHIPSTITCH_TEST_NO_NAMESPACES";

/// What that process finds; by itself this test does nothing.
#[tokio::test]
async fn without_namespaces() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let refused = Embedded::with_launcher(launcher()).map(drop).unwrap_err();
    let SandboxError::CannotSeal(reason) = refused else { panic!("{refused}") };
    assert!(reason.contains("user.max_user_namespaces"), "{reason}");
    let unchecked = Embedded::unchecked(launcher());
    assert!(!unchecked.probe().can_seal());
    let folder = tempfile::tempdir().unwrap();
    let spec = ContainerSpec {
        run: jobs::id::RunId::fresh(1),
        workspace: folder.path().join("workspace"),
        home: folder.path().join("home"),
        read_only: Vec::new(),
        environment: Default::default(),
        limits: limits(),
        egress: None,
    };
    assert!(matches!(unchecked.create(spec).await.map(drop), Err(SandboxError::CannotSeal(_))));
}

/// The sysctl belongs to a user namespace, so that it can be tried without touching the machine's.
#[test]
fn a_machine_without_user_namespaces_is_refused_with_the_way_out() {
    let script =
        "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" --exact refusal::without_namespaces";
    let done = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(MARK, "1")
        .output()
        .unwrap();
    if !done.status.success() && done.stdout.is_empty() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&done.stderr));
        assert!(std::env::var_os("WHIPSTITCH_CI").is_none());
        return;
    }
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
}
