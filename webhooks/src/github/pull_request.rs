//! What is put beside a pull request's code: reviews with suggested changes, and pull requests of the
//! app's own.

use jobs::forge::Repository;
use serde_json::{Value, json};

use super::GitHub;
use super::client::Request;
use super::credentials::Use;
use super::error::ApiError;
use super::read::unreadable;
use super::route::{self, Listing};
use crate::forge::{NewPullRequest, Posted, SuggestedEdit, Suggestion};
use crate::text::fence;

/// Suggestions of one review; with more of them a patch is easier to read.
const MOST_SUGGESTIONS: usize = 50;

impl GitHub {
    pub(super) async fn put_suggestion(
        &self,
        repository: &Repository,
        number: i64,
        suggestion: &Suggestion,
    ) -> Result<Option<Posted>, ApiError> {
        if suggestion.edits.is_empty() || suggestion.edits.len() > MOST_SUGGESTIONS {
            return Ok(None);
        }
        if let Some(made) = self.find_review(repository, number, &suggestion.marker()).await? {
            return Ok(Some(made));
        }
        let shown = self.shown_lines(repository, number).await?;
        if !suggestion.edits.iter().all(|edit| fits(&shown, edit)) {
            return Ok(None);
        }
        let what = format!("a review of pull request {number} of {repository}");
        let body = json!({
            "commit_id": suggestion.head.as_str(),
            "event": "COMMENT",
            "body": format!("{}\n\n{}", suggestion.body, suggestion.marker()),
            "comments": suggestion.edits.iter().map(comment).collect::<Vec<_>>(),
        });
        let path = route::of(repository, &format!("/pulls/{number}/reviews"));
        let answer = match self.ask(repository, Use::PullRequest, Request::create(path, body, &what)).await {
            Ok(answer) => answer,
            // Lines that GitHub does not count to the diff after all.
            Err(ApiError::Rejected { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        posted(&answer, &what).map(Some)
    }

    async fn find_review(
        &self,
        repository: &Repository,
        number: i64,
        marker: &str,
    ) -> Result<Option<Posted>, ApiError> {
        let path = route::of(repository, &format!("/pulls/{number}/reviews"));
        let what = format!("the reviews of pull request {number} of {repository}");
        let list = Listing { path: &path, member: None, what: &what };
        // Anybody can copy a marker into a review; only an app's review counts.
        route::find_in_pages(&self.credentials, repository, Use::PullRequest, list, |review| {
            let ours = review["user"]["type"].as_str() == Some("Bot")
                && review["body"].as_str().is_some_and(|body| body.trim_end().ends_with(marker));
            if ours { posted(review, &what).ok() } else { None }
        })
        .await
    }

    /// The lines of each file that the pull request's diff shows, as ranges per path.
    async fn shown_lines(&self, repository: &Repository, number: i64) -> Result<Vec<Shown>, ApiError> {
        let path = route::of(repository, &format!("/pulls/{number}/files"));
        let what = format!("the files of pull request {number} of {repository}");
        let list = Listing { path: &path, member: None, what: &what };
        let files = std::sync::Mutex::new(Vec::new());
        route::find_in_pages(&self.credentials, repository, Use::PullRequest, list, |file| {
            let (path, patch) = (file["filename"].as_str()?, file["patch"].as_str()?);
            let mut files = files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            files.push(Shown { path: path.to_owned(), ranges: ranges(patch) });
            None::<()>
        })
        .await?;
        Ok(files.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    pub(super) async fn put_pull_request(&self, request: &NewPullRequest) -> Result<Posted, ApiError> {
        let repository = &request.head.repository;
        let what = format!("a pull request from {} of {repository}", request.head.name);
        let path = route::of(repository, "/pulls");
        let from = format!("{}:{}", repository.owner, request.head.name);
        let list = format!("{path}?state=all&head={}", route::escape(&from));
        let listed = self.ask(repository, Use::PullRequest, Request::read(list, &what)).await?;
        let same = |pull: &&Value| pull["head"]["ref"].as_str() == Some(&request.head.name);
        if let Some(pull) = listed.as_array().and_then(|pulls| pulls.iter().find(same)) {
            return numbered(pull, &what);
        }
        let body = json!({
            "title": request.title,
            "body": request.body,
            "head": request.head.name,
            "base": request.base,
            "maintainer_can_modify": true,
        });
        let answer = self.ask(repository, Use::PullRequest, Request::create(path, body, &what)).await?;
        numbered(&answer, &what)
    }
}

fn posted(answer: &Value, what: &str) -> Result<Posted, ApiError> {
    let id = answer["id"].as_i64().ok_or_else(|| unreadable(what, "it names no id"))?;
    Ok(Posted { id: id.to_string(), url: answer["html_url"].as_str().map(str::to_owned) })
}

/// A pull request is known by its number.
fn numbered(answer: &Value, what: &str) -> Result<Posted, ApiError> {
    let number = answer["number"].as_i64().ok_or_else(|| unreadable(what, "it names no number"))?;
    Ok(Posted { id: number.to_string(), url: answer["html_url"].as_str().map(str::to_owned) })
}

/// The lines of a file that a diff shows: `(first, last)`, 1-based, of the new side.
struct Shown {
    path: String,
    ranges: Vec<(u32, u32)>,
}

/// The new side's ranges of a diff's hunks.
fn ranges(patch: &str) -> Vec<(u32, u32)> {
    patch
        .lines()
        .filter_map(|line| {
            let new = line.strip_prefix("@@ -")?.split(' ').nth(1)?.strip_prefix('+')?;
            let (first, length) = new.split_once(',').unwrap_or((new, "1"));
            let (first, length): (u32, u32) = (first.parse().ok()?, length.parse().ok()?);
            (length > 0).then(|| (first, first.saturating_add(length - 1)))
        })
        .collect()
}

fn fits(shown: &[Shown], edit: &SuggestedEdit) -> bool {
    shown.iter().filter(|file| file.path == edit.path).flat_map(|file| &file.ranges).any(|(first, last)| {
        *first <= edit.first_line && edit.first_line <= edit.last_line && edit.last_line <= *last
    })
}

fn comment(edit: &SuggestedEdit) -> Value {
    let text = edit.text.as_deref().unwrap_or_default();
    let (fence, end) = (fence(text), if edit.text.is_some() { "\n" } else { "" });
    let mut comment = json!({
        "path": edit.path,
        "side": "RIGHT",
        "line": edit.last_line,
        "body": format!("{fence}suggestion\n{text}{end}{fence}"),
    });
    if edit.first_line < edit.last_line {
        comment["start_line"] = json!(edit.first_line);
        comment["start_side"] = json!("RIGHT");
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(first_line: u32, last_line: u32, text: Option<&str>) -> SuggestedEdit {
        SuggestedEdit { path: "a.rs".into(), first_line, last_line, text: text.map(str::to_owned) }
    }

    #[test]
    fn only_lines_that_the_diff_shows_can_be_suggested_for() {
        let ranges = ranges("@@ -1,4 +1,5 @@ fn a\n+x\n@@ -20 +21 @@\n-a\n+b\n@@ -30,2 +30,0 @@\n");
        assert_eq!(ranges, [(1, 5), (21, 21)]);
        let shown = [Shown { path: "a.rs".into(), ranges }];
        assert!(fits(&shown, &edit(2, 5, None)) && fits(&shown, &edit(21, 21, None)));
        assert!(!fits(&shown, &edit(5, 6, None)) && !fits(&shown, &edit(20, 21, None)));
        assert!(!fits(&shown, &SuggestedEdit { path: "b.rs".into(), ..edit(2, 2, None) }));
    }

    #[test]
    fn a_suggestion_is_fenced_beyond_what_it_holds() {
        assert_eq!(comment(&edit(2, 2, Some("a")))["body"], "```suggestion\na\n```");
        assert_eq!(comment(&edit(2, 2, Some("")))["body"], "```suggestion\n\n```");
        assert_eq!(comment(&edit(2, 3, None))["body"], "```suggestion\n```");
        let shown = comment(&edit(2, 3, Some("```\nx\n```")));
        assert_eq!(shown["body"], "````suggestion\n```\nx\n```\n````");
        assert_eq!((&shown["start_line"], &shown["line"]), (&json!(2), &json!(3)));
    }
}
