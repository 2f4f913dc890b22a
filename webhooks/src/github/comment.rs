//! Comments of this app: one per key, found by a hidden line and by who wrote it.

use jobs::forge::{Repository, Subject};
use serde_json::{Value, json};

use super::GitHub;
use super::client::Request;
use super::credentials::Use;
use super::error::ApiError;
use super::read::unreadable;
use super::route::{self, Listing};
use crate::forge::{Comment, MAX_TEXT_BYTES, Posted};

impl GitHub {
    pub(super) async fn put_comment(
        &self,
        repository: &Repository,
        subject: &Subject,
        comment: &Comment,
    ) -> Result<Posted, ApiError> {
        let (number, purpose) = match subject {
            Subject::PullRequest { number } => (*number, Use::PullRequest),
            Subject::Issue { number } => (*number, Use::CommentOnIssue),
            Subject::Checkout => {
                return Err(ApiError::NotFound { what: "a place for comments on a checkout".to_owned() });
            }
        };
        let text = with_marker(comment);
        let place = (repository, number, purpose);
        let request = match self.find_comment(place, &comment.marker()).await? {
            Some(id) => {
                let path = route::of(repository, &format!("/issues/comments/{id}"));
                Request::change(path, json!({ "body": text }), format!("comment {id} of {repository}"))
            }
            None => {
                let path = route::of(repository, &format!("/issues/{number}/comments"));
                Request::create(path, json!({ "body": text }), format!("a comment on {repository} {number}"))
            }
        };
        let what = request.what().to_owned();
        let answer = self.ask(repository, purpose, request).await?;
        let id = answer["id"].as_i64().ok_or_else(|| unreadable(&what, "it names no id"))?;
        Ok(Posted { id: id.to_string(), url: answer["html_url"].as_str().map(str::to_owned) })
    }

    /// The comment with this marker that this app wrote: anybody can copy a marker into a comment.
    async fn find_comment(
        &self,
        (repository, number, purpose): (&Repository, i64, Use),
        marker: &str,
    ) -> Result<Option<i64>, ApiError> {
        let path = route::of(repository, &format!("/issues/{number}/comments"));
        let what = format!("the comments on {repository} {number}");
        let list = Listing { path: &path, member: None, what: &what };
        let app = self.credentials.app_id();
        route::find_in_pages(&self.credentials, repository, purpose, list, |comment: &Value| {
            let ours = comment["performed_via_github_app"]["id"].as_i64() == Some(app)
                && comment["body"].as_str().is_some_and(|body| body.trim_end().ends_with(marker));
            if ours { comment["id"].as_i64() } else { None }
        })
        .await
    }
}

/// The text with its hidden last line, cut so that both fit.
fn with_marker(comment: &Comment) -> String {
    let marker = comment.marker();
    let room = MAX_TEXT_BYTES.saturating_sub(marker.len() + 2);
    let cut = (0..=comment.body.len().min(room)).rev().find(|&at| comment.body.is_char_boundary(at));
    format!("{}\n\n{marker}", &comment.body[..cut.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hidden_line_always_fits() {
        let comment = Comment { key: "run/1".into(), body: "ü".repeat(40_000) };
        let text = with_marker(&comment);
        assert!(text.len() <= MAX_TEXT_BYTES && text.ends_with("<!-- whipstitch:run/1 -->"));
        let short = Comment { key: "a".into(), body: "hello".into() };
        assert_eq!(with_marker(&short), "hello\n\n<!-- whipstitch:a -->");
    }
}
