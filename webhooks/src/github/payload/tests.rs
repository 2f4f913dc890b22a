use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;

const APP: i64 = 4_242_424_242;

fn comment_payload() -> Value {
    json!({
        "action": "created",
        "issue": { "number": 7, "pull_request": { "url": "u" } },
        "comment": { "id": 4_000_000_000_000_i64, "body": "/whipstitch fix\r\n", "user": { "login": "author" } },
        "repository": { "name": "widget", "owner": { "login": "acme" } },
        "installation": { "id": 3_000_000_000_i64 },
        "sender": { "id": 9_999_999_999_i64, "login": "mara", "type": "User" },
    })
}

fn read(name: &str, payload: &Value) -> Event {
    parse(APP, name, payload.to_string().as_bytes())
}

fn why(event: Event) -> String {
    match event {
        Event::Ignored { why } => why,
        other => panic!("expected an ignored event, got {other:?}"),
    }
}

#[test]
fn d10_a_comment_is_read_with_ids_beyond_32_bits_and_the_sender_as_actor() {
    let Event::Comment(event) = read("issue_comment", &comment_payload()) else { panic!("no comment") };
    assert_eq!(event.comment_id, 4_000_000_000_000);
    assert_eq!(event.repository.installation, 3_000_000_000);
    assert_eq!(event.repository.to_string(), "acme/widget");
    assert_eq!(event.subject, Subject::PullRequest { number: 7 });
    assert_eq!(event.sender, Account { id: 9_999_999_999, login: "mara".into() });
    assert_eq!(event.sender_kind, SenderKind::Person);
    assert_eq!(event.body, "/whipstitch fix\r\n");
}

#[test]
fn a_comment_on_an_issue_is_no_comment_on_a_pull_request() {
    let mut payload = comment_payload();
    payload["issue"]["pull_request"] = Value::Null;
    let Event::Comment(event) = read("issue_comment", &payload) else { panic!("no comment") };
    assert_eq!(event.subject, Subject::Issue { number: 7 });
}

#[test]
fn d10_numbers_in_strings_are_numbers() {
    let mut payload = comment_payload();
    payload["comment"]["id"] = json!("4000000000000");
    payload["installation"]["id"] = json!("12");
    payload["comment"]["created_at"] = json!(1_600_000_000);
    let Event::Comment(event) = read("issue_comment", &payload) else { panic!("no comment") };
    assert_eq!((event.comment_id, event.repository.installation), (4_000_000_000_000, 12));
}

#[test]
fn d10_every_member_may_be_null_missing_or_of_another_type() {
    for pointer in [
        "/issue",
        "/issue/number",
        "/comment",
        "/comment/id",
        "/comment/body",
        "/repository",
        "/repository/name",
        "/repository/owner",
        "/installation",
        "/installation/id",
        "/sender",
        "/sender/id",
        "/sender/login",
    ] {
        for replacement in [Value::Null, json!([]), json!(true), json!(-1), json!(1e300)] {
            let mut payload = comment_payload();
            *payload.pointer_mut(pointer).unwrap() = replacement.clone();
            assert!(!why(read("issue_comment", &payload)).is_empty(), "{pointer} {replacement}");
        }
    }
    let mut payload = comment_payload();
    payload["comment"]["user"] = Value::Null;
    payload["repository"]["owner"] = json!({ "type": "User" });
    payload["repository"]["full_name"] = json!("acme/widget");
    assert!(matches!(read("issue_comment", &payload), Event::Comment(_)), "a deleted author is no obstacle");
}

#[test]
fn c6_bots_and_apps_that_act_for_people_are_marked() {
    for (kind, login, via) in [
        ("Bot", "helper", Value::Null),
        ("User", "whipstitch[bot]", Value::Null),
        ("Mannequin", "mara", Value::Null),
        ("User", "mara", json!({ "id": 5 })),
    ] {
        let mut payload = comment_payload();
        payload["sender"]["type"] = json!(kind);
        payload["sender"]["login"] = json!(login);
        payload["comment"]["performed_via_github_app"] = via;
        let Event::Comment(event) = read("issue_comment", &payload) else { panic!("no comment") };
        assert_eq!(event.sender_kind, SenderKind::Bot, "{kind} {login}");
    }
}

#[test]
fn c7_c8_edited_and_deleted_comments_start_nothing() {
    let mut payload = comment_payload();
    payload["action"] = json!("edited");
    assert_eq!(why(read("issue_comment", &payload)), "an edited comment starts nothing");
    payload["action"] = json!("deleted");
    assert_eq!(
        why(read("issue_comment", &payload)),
        "a deleted comment changes nothing in what was admitted"
    );
}

#[test]
fn a_repositorys_name_cannot_leave_its_place_in_a_path() {
    for name in ["..", ".", "", "a/b", "a?b", "a b", "a%2fb", "ü"] {
        let mut payload = comment_payload();
        payload["repository"]["name"] = json!(name);
        assert!(why(read("issue_comment", &payload)).contains("repository"), "{name}");
    }
}

fn check_payload() -> Value {
    json!({
        "action": "requested_action",
        "requested_action": { "identifier": "apply" },
        "check_run": {
            "id": 21_474_836_480_i64, "external_id": "run", "pull_requests": [], "app": { "id": APP }
        },
        "repository": { "name": "widget", "owner": { "login": "acme" } },
        "installation": { "id": 1 },
        "sender": { "id": 2, "login": "mara", "type": "User" },
    })
}

#[test]
fn h4_a_button_is_read_without_a_pull_request_in_the_payload() {
    let Event::CheckAction(event) = read("check_run", &check_payload()) else { panic!("no action") };
    assert_eq!(event.check_run_id, 21_474_836_480);
    assert_eq!(event.external_id.as_deref(), Some("run"));
    assert_eq!(event.action, "apply");
    let mut payload = check_payload();
    payload["action"] = json!("rerequested");
    payload["requested_action"] = Value::Null;
    payload["check_run"]["external_id"] = json!("");
    let Event::CheckAction(event) = read("check_run", &payload) else { panic!("no action") };
    assert_eq!((event.action.as_str(), event.external_id), ("rerun", None));
}

#[test]
fn another_apps_check_run_is_not_ours() {
    let mut payload = check_payload();
    payload["check_run"]["app"]["id"] = json!(APP + 1);
    assert_eq!(why(read("check_run", &payload)), "the check run belongs to another app");
}

#[test]
fn the_reason_for_an_unknown_event_is_bounded_and_plain() {
    let body = json!({ "action": "x\n".repeat(9_000) }).to_string();
    let reason = why(parse(APP, "new event\u{1b}[31m", body.as_bytes()));
    assert!(reason.len() < 120 && !reason.contains(char::is_control), "{reason}");
    assert!(why(parse(APP, "issue_comment", b"\xff{")).starts_with("the body is no JSON"));
}

fn fixtures() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/github/payloads");
    let mut found = Vec::new();
    for event in std::fs::read_dir(&root).unwrap() {
        let event = event.unwrap();
        for file in std::fs::read_dir(event.path()).unwrap() {
            found.push((event.file_name().into_string().unwrap(), file.unwrap().path()));
        }
    }
    found.sort();
    found
}

#[test]
fn every_published_example_payload_is_understood_or_ignored_with_a_reason() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 100, "the example payloads are missing");
    let mut understood = std::collections::BTreeMap::<&str, usize>::new();
    for (event, path) in &fixtures {
        let mut payload: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        if payload["installation"].is_null() {
            payload["installation"] = json!({ "id": 1 });
        }
        let owner = [&payload["check_run"]["app"]["id"], &payload["check_suite"]["app"]["id"]];
        let app = owner.into_iter().find_map(Value::as_i64).unwrap_or(APP);
        let kind = match parse(app, event, payload.to_string().as_bytes()) {
            Event::Comment(_) => "comment",
            Event::CheckAction(_) => "check action",
            Event::PullRequest { .. } => "pull request",
            Event::Label(_) => "label",
            Event::CheckSuite(_) => "check suite",
            Event::Push { .. } => "push",
            Event::Access { .. } => "access",
            Event::Ping => "ping",
            Event::Ignored { why } => {
                let acted_on = matches!(
                    (event.as_str(), payload["action"].as_str()),
                    ("issue_comment", Some("created"))
                        | ("check_run", Some("requested_action" | "rerequested"))
                        | ("pull_request", Some("closed" | "synchronize" | "labeled"))
                        | ("issues", Some("labeled"))
                        | ("pull_request_review_comment", Some("created"))
                        | ("installation", Some("created" | "deleted" | "suspend" | "unsuspend"))
                        | ("installation_repositories", Some("added" | "removed"))
                        | ("check_suite", Some("requested" | "rerequested"))
                        | ("ping", _)
                );
                assert!(!acted_on && !why.is_empty(), "{}: {why}", path.display());
                "ignored"
            }
        };
        *understood.entry(kind).or_default() += 1;
    }
    for kind in
        ["comment", "check action", "pull request", "label", "check suite", "access", "ping", "ignored"]
    {
        assert!(understood.contains_key(kind), "no {kind} among {understood:?}");
    }
}

fn person() -> Value {
    json!({
        "repository": { "name": "widget", "full_name": "acme/widget", "owner": { "login": "acme" } },
        "installation": { "id": 3 },
        "sender": { "id": 2, "login": "mara", "type": "User" },
    })
}

#[test]
fn commands_are_read_in_reviews_and_on_lines_with_ids_of_their_own() {
    let mut payload = person();
    payload["action"] = json!("created");
    payload["pull_request"] = json!({ "number": 7 });
    payload["comment"] = json!({ "id": 11, "body": "/whipstitch fix" });
    let Event::Comment(event) = read("pull_request_review_comment", &payload) else { panic!("no comment") };
    assert_eq!((event.place, event.comment_id), (CommentPlace::Line, 11));
    payload["action"] = json!("submitted");
    payload["review"] = json!({ "id": 12, "body": "/whipstitch verify", "state": "commented" });
    let Event::Comment(event) = read("pull_request_review", &payload) else { panic!("no comment") };
    assert_eq!(
        (event.place, event.comment_id, event.body.as_str()),
        (CommentPlace::Review, 12, "/whipstitch verify")
    );
    assert_eq!(event.subject, Subject::PullRequest { number: 7 });
    // A review without words has none.
    payload["review"]["body"] = Value::Null;
    assert_eq!(why(read("pull_request_review", &payload)), "the comment has no text");
}

#[test]
fn c6_our_own_comments_are_never_read() {
    let mut payload = comment_payload();
    payload["comment"]["performed_via_github_app"] = json!({ "id": APP });
    assert_eq!(why(read("issue_comment", &payload)), "our own comments are never read");
}

#[test]
fn labels_are_read_on_issues_and_pull_requests() {
    for (name, member, subject) in [
        ("issues", "issue", Subject::Issue { number: 7 }),
        ("pull_request", "pull_request", Subject::PullRequest { number: 7 }),
    ] {
        let mut payload = person();
        payload["action"] = json!("labeled");
        payload[member] = json!({ "number": 7 });
        payload["label"] = json!({ "name": "repair me" });
        let Event::Label(event) = read(name, &payload) else { panic!("no label") };
        assert_eq!((event.subject, event.label.as_str()), (subject, "repair me"));
    }
}

#[test]
fn a_check_suite_counts_when_it_is_anothers_and_red_or_ours_and_asked_for() {
    let suite = |action: &str, app: i64, conclusion: Value| {
        let mut payload = person();
        payload["action"] = json!(action);
        payload["check_suite"] = json!({
            "head_sha": "a".repeat(40), "app": { "id": app }, "conclusion": conclusion,
            "pull_requests": [{ "number": 7 }],
        });
        read("check_suite", &payload)
    };
    for red in ["failure", "timed_out"] {
        let Event::CheckSuite(event) = suite("completed", 5, json!(red)) else { panic!("no check suite") };
        assert_eq!((event.change, event.pull_requests), (CheckSuiteChange::Failed, vec![7]));
    }
    assert_eq!(why(suite("completed", 5, json!("success"))), "the check suite did not end red");
    assert_eq!(why(suite("completed", APP, json!("failure"))), "it is our own check suite");
    assert!(matches!(suite("requested", APP, Value::Null), Event::CheckSuite(_)));
    assert_eq!(why(suite("rerequested", 5, Value::Null)), "the check suite belongs to another app");
}

#[test]
fn pushes_and_the_apps_reach_are_read() {
    let mut payload = person();
    payload["ref"] = json!("refs/heads/release/1");
    assert!(matches!(read("push", &payload), Event::Push { branch, .. } if branch == "release/1"));
    payload["ref"] = json!("refs/tags/v1");
    assert_eq!(why(read("push", &payload)), "no branch was pushed to");
    payload["action"] = json!("removed");
    payload["repositories_removed"] = json!([{ "full_name": "acme/widget" }]);
    let lost = |repositories| Event::Access { installation: 3, change: AccessChange::Lost { repositories } };
    assert_eq!(read("installation_repositories", &payload), lost(vec!["acme/widget".to_owned()]));
    payload["repositories_removed"] = json!([]);
    assert_eq!(why(read("installation_repositories", &payload)), "no repository was removed");
    payload["action"] = json!("deleted");
    assert_eq!(read("installation", &payload), lost(Vec::new()));
    payload["action"] = json!("created");
    assert_eq!(
        read("installation", &payload),
        Event::Access { installation: 3, change: AccessChange::Gained }
    );
}
