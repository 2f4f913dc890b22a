//! The check run that says what is wrong with the base branch's policy, with its line and column.

use askama::Template;
use jobs::clock::Millis;
use jobs::digest::Digest;
use jobs::id::CommitId;
use jobs::policy::{PATH, PolicyError};

use super::check::NAME;
use super::mask::Mask;
use crate::forge::{Annotation, AnnotationLevel, CheckRun, CheckStatus, Conclusion};
use crate::text::{one_line, within_characters};

#[derive(Template)]
#[template(path = "check/policy_fault.md")]
struct Fault<'a> {
    path: &'a str,
    line: u32,
    column: u32,
    message: String,
}

/// The check run on `head`. The same fault on the same commit is the same check run.
pub(super) fn check_run(head: &CommitId, fault: &PolicyError, mask: &Mask, at: Millis) -> CheckRun {
    let digest = Digest::of(fault.to_string());
    let message = mask.apply(&one_line(&fault.message, 600));
    let PolicyError { line, column, .. } = *fault;
    let summary = Fault { path: PATH, line, column, message: message.clone() };
    CheckRun {
        external_id: format!("policy.{}", digest.short()),
        name: NAME.to_owned(),
        head: head.clone(),
        status: CheckStatus::Completed { conclusion: Conclusion::Failure, at },
        title: format!("Nothing was run: {PATH}:{line}:{column} has a fault"),
        // These templates write into a string and call nothing that can fail.
        summary: summary.render().expect("a template of plain values renders").trim().to_owned(),
        text: None,
        annotations: vec![Annotation {
            path: PATH.to_owned(),
            start_line: line.max(1),
            end_line: line.max(1),
            level: AnnotationLevel::Failure,
            title: Some(within_characters(
                &format!("Line {line}, column {column} of the base branch's file"),
                255,
            )),
            message,
        }],
        actions: Vec::new(),
        details_url: None,
        started_at: None,
    }
}
