//! The questions that an agent may ask of a [`RepoView`]. Each has an ask that is read from JSON as a model
//! writes it, and an answer that is bounded and has a `text()` for the model.
//!
//! The first three keep a thread busy (a search for at most five seconds, the others for milliseconds), so an
//! async caller asks them on a thread for blocking work. What an answer holds is a stranger's text: whoever
//! hands it to a model marks it as data.

use super::map::{MapAsk, RepoMap};
use super::read::{FileText, ReadAsk};
use super::retrieve::{RetrieveAsk, Retrieved};
use super::search::{SearchAsk, SearchFound};
use super::view::RepoView;
use super::{map, read, search as searching};

/// A question that has no answer. The message is for the agent, which may ask another.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ToolError {
    /// What is asked for is not given, and why.
    #[error("{0}")]
    Refused(String),
    /// The tree has no such file.
    #[error("there is no file {0}; see the repo map, or search")]
    NoFile(String),
}

impl ToolError {
    pub(super) fn refused(why: impl Into<String>) -> Self {
        ToolError::Refused(why.into())
    }
}

/// The definitions that matter most for the failures.
pub fn repo_map(view: &RepoView, ask: &MapAsk) -> RepoMap {
    map::draw(view.tags(), view.omitted(), &ask.focus(view.focus()), ask.tokens)
}

/// Lines that match a regular expression.
pub fn search(view: &RepoView, ask: &SearchAsk) -> Result<SearchFound, ToolError> {
    searching::search(view.tree(), ask)
}

/// A part of a file.
pub fn read_file(view: &RepoView, ask: &ReadAsk) -> Result<FileText, ToolError> {
    read::read(view.tree(), ask)
}

/// Passages that speak of what is asked, the best first.
pub async fn retrieve(view: &RepoView, ask: &RetrieveAsk) -> Result<Retrieved, ToolError> {
    view.workspace().retrieve(view.tree(), ask).await
}
