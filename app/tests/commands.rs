//! The commands that need no service, as a person runs them.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use receipts::{Apply, Open, RunChain, Seal, SealOutcome, Signer, Timestamp, bundle};

fn whipstitch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whipstitch"))
        .args(arguments)
        .env_remove("WHIPSTITCH_CONFIG")
        .env_remove("WHIPSTITCH_SIGNING_KEY")
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A sealed run of one applied diff, as a bundle in `folder`; gives the public key.
fn bundle_in(folder: &Path) -> String {
    let signer = Signer::from_seed(&[1; 32]);
    let at = Timestamp::from_unix(1_800_000_000);
    let (before, after) = ("a".repeat(40), "b".repeat(40));
    let open = Open {
        run: [2; 32],
        actor: "local:user/1",
        reason: "asked for by comment/7",
        as_of: at,
        issued_at: at,
        job: [3; 32],
        base: &"c".repeat(40),
    };
    let (mut chain, opened) = RunChain::open(&signer, &open).unwrap();
    let diff = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    let applied = Apply {
        actor: "agent:fixers/1",
        reason: "applied machine-applicable suggestions",
        as_of: at,
        issued_at: at,
        diff,
        journal_ref: [4; 32],
        tree_before: &before,
        tree_after: &after,
    };
    let applied = chain.apply(&signer, &applied).unwrap();
    let seal = Seal {
        actor: "whipstitch",
        reason: "every check passed",
        as_of: at,
        issued_at: at,
        tree_after: &after,
        journal_head: [5; 32],
        outcome: SealOutcome::Succeeded,
    };
    let sealed = chain.seal(&signer, &seal).unwrap();
    std::fs::write(folder.join("run.receipts"), bundle::write(&[opened, applied, sealed])).unwrap();
    std::fs::write(folder.join("0001.diff"), diff).unwrap();
    hex::encode(signer.public_key())
}

#[test]
fn verify_prints_the_verdict_first_and_exits_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let key = bundle_in(folder.path());
    let path = folder.path().to_str().unwrap();
    let good = whipstitch(&["verify", path, "--key", &key]);
    assert_eq!(good.status.code(), Some(0));
    insta::assert_snapshot!(text(&good.stdout).lines().map(str::trim_end).collect::<Vec<_>>().join("\n"), @"
    VALID_CHAIN run=0202020202020202020202020202020202020202020202020202020202020202 count=3 head=69a732fef78327ce56f94a1c3e61933fa4588d72f1add3fdf8e60a4a7b1a4ffc outcome=succeeded
     seq  kind   issued at            actor                          diff  reason
       0  open   2027-01-15T08:00:00Z local:user/1                      -  asked for by comment/7
       1  apply  2027-01-15T08:00:00Z agent:fixers/1                 34 B  applied machine-applicable suggestions
       2  seal   2027-01-15T08:00:00Z whipstitch                        -  every check passed
    ");
    std::fs::write(folder.path().join("0001.diff"), b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+c\n").unwrap();
    let forged = whipstitch(&["verify", path, "--key", &key]);
    assert_eq!((forged.status.code(), text(&forged.stdout).lines().next()), (Some(1), Some("E_DIFF_HASH@1")));
}

#[test]
fn a_cut_tail_never_reads_as_valid() {
    let folder = tempfile::tempdir().unwrap();
    let key = bundle_in(folder.path());
    let file = folder.path().join("run.receipts");
    let whole = std::fs::read_to_string(&file).unwrap();
    let cut: String = whole.split_inclusive('\n').take(2).collect();
    std::fs::write(&file, cut).unwrap();
    let found = whipstitch(&["verify", file.to_str().unwrap(), "--key", &key, "--json"]);
    assert_eq!(found.status.code(), Some(3));
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((json["verdict"].as_str(), json["receipts"].as_array().unwrap().len()), (Some("UNSEALED"), 2));
}

#[test]
fn wrong_usage_has_exit_code_2_and_says_what_to_do() {
    assert_eq!(whipstitch(&["verify"]).status.code(), Some(2));
    let missing = whipstitch(&["serve", "--config", "no-such-file.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("no-such-file.toml: cannot read it"));
    let unknown = whipstitch(&["status", "not-a-run", "--dir", "no-such-folder"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there is no database at"), "{}", text(&unknown.stderr));
}

#[test]
fn keys_are_made_once_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signing.key");
    let file = file.to_str().unwrap();
    let made = whipstitch(&["keys", "new", file]);
    assert_eq!(made.status.code(), Some(0));
    assert_eq!(text(&whipstitch(&["keys", "show", file]).stdout), text(&made.stdout));
    assert_eq!(whipstitch(&["keys", "new", file]).status.code(), Some(1));
}

#[test]
fn a_rotated_key_is_listed_after_the_key_that_signed_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signing.key");
    let path = file.to_str().unwrap();
    let public = |output: Output| {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).lines().next().unwrap().rsplit(' ').next().unwrap().to_owned()
    };
    let first = public(whipstitch(&["keys", "new", path]));
    let second = public(whipstitch(&["keys", "rotate", path, "--reason", "yearly"]));
    assert_eq!(public(whipstitch(&["keys", "show", path])), second);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = text(&whipstitch(&["keys", "list", path, "--first", &first]).stdout);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].contains(&first) && !lines[0].ends_with("signs now"), "{listed}");
    assert!(lines[1].contains(&second) && lines[1].ends_with("signs now"), "{listed}");
    let other = whipstitch(&["keys", "list", path, "--first", &second]);
    assert!(text(&other.stderr).contains("E_KEYID@0"), "{}", text(&other.stderr));
    let keyring = folder.path().join("signing.keyring");
    let forged = std::fs::read_to_string(&keyring).unwrap().replacen("yearly", "weekly", 1);
    std::fs::write(&keyring, forged).unwrap();
    let forged = whipstitch(&["keys", "list", path]);
    assert_eq!(forged.status.code(), Some(1));
    assert!(text(&forged.stderr).contains("E_SIG@0"), "{}", text(&forged.stderr));
}

#[test]
fn a_key_from_the_environment_is_shown_without_a_file() {
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
    let show = |value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whipstitch"));
        command.args(["keys", "show"]).env("WHIPSTITCH_SIGNING_KEY", value).output().unwrap()
    };
    let shown = text(&show(pem).stdout);
    assert!(shown.contains("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"), "{shown}");
    let refused = show("secret words");
    assert_eq!(refused.status.code(), Some(1));
    assert!(!text(&refused.stderr).contains("secret words"), "{}", text(&refused.stderr));
}

#[test]
fn read_tells_why_a_check_was_judged_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    std::fs::write(&file, "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n").unwrap();
    let path = file.to_str().unwrap();
    let passed = whipstitch(&["read", "--tool", "cargo-test", "--stdout", path, "--exit", "0"]);
    assert_eq!(text(&passed.stdout).lines().next(), Some("passed"), "{}", text(&passed.stdout));
    let failed = whipstitch(&["read", "--tool", "cargo-test", "--stdout", path, "--exit", "101"]);
    assert_ne!(text(&failed.stdout).lines().next(), Some("passed"));
    let unknown = whipstitch(&["read", "--tool", "mocha"]);
    assert_eq!(unknown.status.code(), Some(2));
    let said = text(&unknown.stdout);
    assert!(said.starts_with("unsupported: ") && said.contains("junit"), "{said}");
    let unknown = whipstitch(&["read", "--tool", "mocha", "--exit", "0", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&unknown.stdout).unwrap();
    assert_eq!((&told["outcome"], &told["judgement"]["is"]), (&"error".into(), &"unsupported".into()));
}

#[test]
fn read_takes_a_report_file_of_any_framework_that_writes_junit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.xml");
    let report = "<testsuites><testsuite name=\"s\" tests=\"1\"><testcase classname=\"s\" name=\"adds\"><failure message=\"no\">/home/me/x/a.js:3:1</failure></testcase></testsuite></testsuites>";
    std::fs::write(&file, report).unwrap();
    for path in [file.to_str().unwrap(), folder.path().to_str().unwrap()] {
        let read =
            ["read", "--tool", "junit", "--files", path, "--exit", "1", "--root", "/home/me/x", "--json"];
        let told: serde_json::Value = serde_json::from_slice(&whipstitch(&read).stdout).unwrap();
        assert_eq!(
            (&told["outcome"], &told["failures"][0]["file"]),
            (&"failed".into(), &"a.js".into()),
            "{told}"
        );
    }
}

#[test]
fn a_policys_fault_is_told_by_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, "[limits]\niterations = \"many\"\n").unwrap();
    let found = whipstitch(&["check-config", "--policy", file.to_str().unwrap()]);
    assert_eq!(found.status.code(), Some(1));
    assert!(text(&found.stdout).contains("policy.toml:2:"), "{}", text(&found.stdout));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/whipstitch.example.toml");
    assert_eq!(whipstitch(&["check-config", "--policy", example]).status.code(), Some(0));
}
