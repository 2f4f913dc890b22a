//! Paths of the REST API, with every name from outside escaped, and the walk over pages.

use jobs::forge::Repository;
use serde_json::Value;

use super::client::{Answer, Request};
use super::credentials::{Credentials, Use};
use super::error::ApiError;

/// Entries of one page; GitHub gives no more.
const PAGE: usize = 100;
/// More pages are not read: 3,000 check runs of one commit, or comments of one thread.
const MAX_PAGES: usize = 30;

/// `/repos/{owner}/{name}` and what follows it.
pub fn of(repository: &Repository, rest: &str) -> String {
    format!("/repos/{}/{}{rest}", escape(&repository.owner), escape(&repository.name))
}

/// `text` as one part of a path or as a query's value.
pub fn escape(text: &str) -> String {
    escape_but(text, b"")
}

/// A path with slashes, such as a branch's or a file's.
pub fn escape_path(text: &str) -> String {
    escape_but(text, b"/")
}

fn escape_but(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// The first entry that `find` takes, over all pages. `member` holds the entries of an answer that is
/// an object; with `None` the answer is the list.
pub async fn find_in_pages<T>(
    credentials: &Credentials,
    repository: &Repository,
    purpose: Use,
    list: Listing<'_>,
    find: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    for page in 1..=MAX_PAGES {
        let joint = if list.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{joint}per_page={PAGE}&page={page}", list.path);
        let request = Request::read(path, list.what);
        let answer = credentials.send(repository.installation, &repository.name, purpose, &request).await?;
        let entries = match list.member {
            Some(member) => &answer.body[member],
            None => &answer.body,
        };
        let entries = entries.as_array().ok_or_else(|| ApiError::Unreadable {
            what: list.what.to_owned(),
            why: "it is no list".to_owned(),
        })?;
        if let Some(found) = entries.iter().find_map(&find) {
            return Ok(Some(found));
        }
        if entries.len() < PAGE && !names_next_page(&answer) {
            return Ok(None);
        }
    }
    let why = format!("it goes on after {MAX_PAGES} pages");
    Err(ApiError::Rejected { what: list.what.to_owned(), status: 200, message: why })
}

/// What is listed.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    pub path: &'a str,
    /// The member that holds the entries; `None` when the answer itself is the list.
    pub member: Option<&'a str>,
    pub what: &'a str,
}

fn names_next_page(answer: &Answer) -> bool {
    let links = answer.headers.get("link").and_then(|value| value.to_str().ok());
    links.is_some_and(|links| links.contains("rel=\"next\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_leave_its_part_of_a_path() {
        assert_eq!(escape("a/../b?c#d e%é"), "a%2F..%2Fb%3Fc%23d%20e%25%C3%A9");
        assert_eq!(escape_path("feature/a b?x=1"), "feature/a%20b%3Fx%3D1");
    }
}
