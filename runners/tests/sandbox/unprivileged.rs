//! All of it once more as a user without rights, when the tests run as root.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use runners::sandbox::Sandbox as _;

use super::common::{launcher, sandbox};

#[test]
fn every_rule_holds_for_an_unprivileged_user_too() {
    let Some(sandbox) = sandbox() else { return };
    let Some((user, group)) = sandbox.owner() else { return };
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    copy(&launcher(), &place("launcher"));
    copy(&std::env::current_exe().unwrap(), &place("tests"));
    std::fs::create_dir(place("scratch")).unwrap();
    chown(place("scratch"), Some(user), Some(group)).unwrap();
    let mut tests = Command::new(place("tests"));
    tests.args(["--skip", "unprivileged"]).uid(user).gid(group).current_dir(place("scratch"));
    tests.env("WHIPSTITCH_TEST_LAUNCHER", place("launcher")).env("TMPDIR", place("scratch"));
    tests.env("INSTA_WORKSPACE_ROOT", place("scratch"));
    let done = tests.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
}
