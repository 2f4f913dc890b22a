//! Replays a recorded patch: for demos, tests and patches that somebody else wrote.

use async_trait::async_trait;

use super::{Agent, AgentError, Identity, Proposal, Task};
use crate::edit;

/// The agent of one recorded patch.
#[derive(Clone, Debug)]
pub struct Replay {
    patch: Vec<u8>,
}

impl Replay {
    /// An agent that proposes this patch and nothing else.
    pub fn new(patch: Vec<u8>) -> Self {
        Self { patch }
    }
}

#[async_trait]
impl Agent for Replay {
    fn identity(&self) -> Identity {
        Identity { name: "replay".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), model: None }
    }

    async fn propose(&self, task: &Task<'_>) -> Result<Proposal, AgentError> {
        if task.iteration > 0 {
            let note = "the recorded patch has been proposed; there is no other".to_owned();
            return Ok(Proposal { after: None, note, tokens: 0 });
        }
        let applied = edit::apply_patch(&self.patch, task.tree)
            .map_err(|error| AgentError::refused(format!("the recorded patch does not fit: {error}")))?;
        let files = applied.changeset.changes.len();
        let mut note = format!("a recorded patch of {files} file{}", if files == 1 { "" } else { "s" });
        for line in &applied.notes {
            note.push_str("; ");
            note.push_str(line);
        }
        Ok(Proposal { after: Some(applied.tree), note, tokens: 0 })
    }
}
