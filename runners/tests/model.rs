//! The agent with a model, against a scripted provider, through whole runs in the real sandbox: what it
//! repairs is verified by the checks alone, and its key is nowhere but in its requests.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;
#[allow(dead_code)]
mod providing;
#[allow(dead_code)]
mod running;

use std::path::Path;
use std::sync::Arc;

use jobs::launch::LaunchState;
use jobs::run::{Failure, Outcome};
use jobs::verdict::Verdict;
use providing::{KEY, Provider, Scripted};
use receipts::Verdict as Chain;
use runners::agents::model::Protocol;
use runners::local::{LocalAgent, LocalReport};
use runners::sandbox::Embedded;
use running::{Asked, Crate, chain, fix, outcome, without_compiler};
use serde_json::json;

macro_rules! sandbox_or_skip {
    () => {
        match common::sandbox() {
            Some(sandbox) => Arc::new(sandbox),
            None => return,
        }
    };
}

/// A red folder whose agent is the provider's model.
fn with_model(provider: &Provider) -> (Crate, Asked) {
    let (project, mut asked) = without_compiler("wrong");
    asked.agent = LocalAgent::Model("stand-in".to_owned());
    asked.models = [("stand-in".to_owned(), provider.profile())].into();
    (project, asked)
}

async fn run(sandbox: &Arc<Embedded>, provider: &Provider) -> (Crate, LocalReport) {
    let (project, asked) = with_model(provider);
    let report = fix(sandbox, &project, asked).await;
    (project, report)
}

fn replace(old: &str, new: &str) -> Scripted {
    Scripted::Calls("str_replace", json!({ "path": "value", "old": old, "new": new }).to_string())
}

fn tokens(report: &LocalReport) -> u64 {
    let of = |state: &LaunchState| match state {
        LaunchState::Settled { tokens, .. } => *tokens,
        _ => 0,
    };
    report.view.launches.iter().map(|launch| of(&launch.state)).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_repairs_through_its_tools_in_each_protocol() {
    let sandbox = sandbox_or_skip!();
    for protocol in Protocol::ALL {
        let script = vec![
            Scripted::Calls("read_file", json!({ "path": "value" }).to_string()),
            Scripted::Calls("run_check", json!({ "name": "value" }).to_string()),
            replace("wrong", "right"),
            Scripted::Calls("run_check", json!({ "name": "value" }).to_string()),
            Scripted::Says("The value was wrong."),
        ];
        let provider = Provider::new(protocol, script);
        let (project, report) = run(&sandbox, &provider).await;
        assert_eq!(outcome(&report), Outcome::Succeeded, "{protocol:?} {:#?}", report.view.steps);
        assert_eq!(report.verdict, Some(Verdict::Repaired));
        assert_eq!(chain(&report), Chain::ValidChain);
        assert_eq!(tokens(&report), 500, "five replies of 100 tokens in {protocol:?}");
        let asked = provider.asked();
        assert_eq!(asked.len(), 5);
        assert!(asked[0].path.ends_with(protocol.path()), "{}", asked[0].path);
        let last = asked[4].body.to_string();
        assert!(last.contains("value: failed") && last.contains("value: passed"), "{last}");
        assert!(last.contains("<data-"), "what the tools say is marked as data");
        assert!(asked.iter().all(|asked| asked.headers.iter().any(|header| header.contains(KEY))));
        assert!(!last.contains(KEY));
        nowhere_in(&project.data(), KEY);
    }
}

/// Looks for a text in every file of a folder.
fn nowhere_in(folder: &Path, text: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            nowhere_in(&path, text);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_cuts_and_malformed_calls_are_survived() {
    let sandbox = sandbox_or_skip!();
    for protocol in Protocol::ALL {
        let script = vec![
            Scripted::Status(429, &[("retry-after", "0")]),
            Scripted::Status(529, &[("retry-after-ms", "1")]),
            Scripted::Status(503, &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]),
            Scripted::Cut,
            Scripted::Calls("str_replace", "{\"path\": \"value\", \"old\"".to_owned()),
            Scripted::Calls("no_such_tool", "{}".to_owned()),
            Scripted::Calls("str_replace", "[]".to_owned()),
            Scripted::Calls("str_replace", json!({ "path": "../value", "old": "a", "new": "b" }).to_string()),
            Scripted::Calls("run_check", json!({ "name": "rm -rf" }).to_string()),
            replace("absent", "right"),
            replace("wrong", "right"),
            Scripted::Says("done"),
        ];
        let provider = Provider::new(protocol, script);
        let (_project, report) = run(&sandbox, &provider).await;
        assert_eq!(outcome(&report), Outcome::Succeeded, "{protocol:?} {:#?}", report.view.steps);
        let last = provider.asked().last().unwrap().body.to_string();
        for told in
            ["are no JSON", "there is no tool", "no JSON object", "there is no check", "not in the file"]
        {
            assert!(last.contains(told), "{told} in {last}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_within_the_stream_is_asked_again() {
    let sandbox = sandbox_or_skip!();
    let script = vec![Scripted::Overloaded, replace("wrong", "right"), Scripted::Says("done")];
    let provider = Provider::new(Protocol::Anthropic, script);
    let (_project, report) = run(&sandbox, &provider).await;
    assert_eq!(outcome(&report), Outcome::Succeeded, "{:#?}", report.view.steps);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_says_of_its_edit_decides_nothing() {
    let sandbox = sandbox_or_skip!();
    let script = vec![
        replace("wrong", "other"),
        Scripted::Says("All checks pass now. Verdict: Repaired."),
        Scripted::Says("It is repaired."),
    ];
    let provider = Provider::new(Protocol::Anthropic, script);
    let (_project, report) = run(&sandbox, &provider).await;
    let Outcome::Failed { failure: Failure::NotRepaired(why) } = outcome(&report) else {
        panic!("{:?}", outcome(&report));
    };
    assert!(why.contains("value"), "{why}");
    let second = provider.asked()[2].body.to_string();
    assert!(second.contains("does not repair it"), "the next launch is told what came of the last: {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_takes_no_key_fails_the_run_with_its_words() {
    let sandbox = sandbox_or_skip!();
    let provider = Provider::new(Protocol::OpenAiChat, vec![Scripted::Status(401, &[])]);
    let (_project, report) = run(&sandbox, &provider).await;
    let Outcome::Failed { failure: Failure::Agent(why) } = outcome(&report) else {
        panic!("{:?}", outcome(&report));
    };
    assert!(why.contains("401") && why.contains("not now"), "{why}");
    assert_eq!(provider.asked().len(), 1, "a refused key is not tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_of_tokens_is_never_passed_by_more_than_one_reply() {
    let sandbox = sandbox_or_skip!();
    let script = vec![Scripted::Calls("read_file", json!({ "path": "value" }).to_string())];
    let provider = Provider::new(Protocol::Anthropic, script);
    let (project, mut asked) = with_model(&provider);
    asked.limits.max_tokens = 3_000;
    let report = fix(&sandbox, &project, asked).await;
    let Outcome::Failed { .. } = outcome(&report) else { panic!("{:?}", outcome(&report)) };
    assert!(tokens(&report) > 0 && tokens(&report) <= 3_100, "{}", tokens(&report));
    assert!(provider.asked().len() < 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_nobody_configured_fails_the_run_and_says_what_to_do() {
    let sandbox = sandbox_or_skip!();
    let (project, mut asked) = without_compiler("wrong");
    asked.agent = LocalAgent::Model("absent".to_owned());
    let report = fix(&sandbox, &project, asked).await;
    let Outcome::Failed { failure: Failure::Agent(why) } = outcome(&report) else {
        panic!("{:?}", outcome(&report));
    };
    assert!(why.contains("[models.absent]"), "{why}");
}
