//! The one comment on an issue: the check run's own words, with a link to it.

use askama::Template;

use super::cut;
use crate::forge::{CheckRun, CheckStatus};

#[derive(Template)]
#[template(path = "comment/issue.md")]
struct Issue<'a> {
    title: &'a str,
    state: &'static str,
    commit: &'a str,
    page: Option<&'a str>,
    summary: &'a str,
    text: Option<&'a str>,
}

/// What stands on the issue while the check run stands on the commit.
pub(super) fn of(check: &CheckRun, page: Option<&str>) -> String {
    let state = match check.status {
        CheckStatus::Queued => "queued",
        CheckStatus::InProgress => "in progress",
        CheckStatus::Completed { conclusion, .. } => conclusion.name(),
    };
    let commit = check.head.as_str();
    let issue = Issue {
        title: &check.title,
        state,
        commit: &commit[..commit.len().min(8)],
        page,
        summary: &check.summary,
        text: check.text.as_deref(),
    };
    // These templates write into a string and call nothing that can fail.
    let text = issue.render().expect("a template of plain values renders").trim().to_owned();
    let pointer = match page {
        Some(page) => format!("The whole is in the check run: {page}"),
        None => "The whole is in the check run.".to_owned(),
    };
    cut::to_limit_of_comment(text, &pointer)
}
