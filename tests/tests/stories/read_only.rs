//! Every story once more with tokens that may only read contents: nothing is written before a yes, and
//! nothing is written at all.

use std::process::Command;

use e2e::story::LEDGER;

const NAME: &str = "every_story_with_tokens_that_only_read_attempts_no_write_before_a_yes";

#[test]
fn every_story_with_tokens_that_only_read_attempts_no_write_before_a_yes() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    // What pushes fails there, as it must; what counts is in which order things were tried.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", NAME, "--skip", "chaos::"])
        .env(LEDGER, &ledger)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let lines = std::fs::read_to_string(&ledger).unwrap();
    let count = |wanted: &str| lines.lines().filter(|line| *line == wanted).count();
    assert_eq!(count("unauthorized"), 0, "{said}");
    assert!(!said.contains("a write was attempted before any authorization"), "{said}");
    assert!(count("a story on GitHub") > 60, "the stories were played: {}", count("a story on GitHub"));
    assert!(count("authorized") > 10, "writes were attempted, after a yes: {}", count("authorized"));
    for story in ["authorizing_an_issues_patch_opens_one_pull_request", "two_yeses_at_once_are_one_push"] {
        let failed = said.lines().any(|line| line.contains(story) && line.ends_with("FAILED"));
        assert!(failed, "{story} cannot end well with tokens that only read: {said}");
    }
}
