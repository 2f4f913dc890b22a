//! `.github/whipstitch.toml` of the base branch: what may start a run, what it is verified by, its
//! bounds, its agent, and who may authorize a push.
//!
//! The file is a repository's, so hostile: bounded, strictly typed, and never a command line in one
//! string. Every key is optional; `deploy/whipstitch.example.toml` shows them all with their meaning,
//! and `deploy/whipstitch.schema.json` is for editors. A fault names its line and column.

mod file;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::forge::Role;
use crate::job::{AgentSpec, Guard, Limits};

/// Where the file is in a repository.
pub const PATH: &str = ".github/whipstitch.toml";
/// A larger file is refused.
pub const MAX_BYTES: usize = 64 << 10;

/// A repository's policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    pub triggers: Triggers,
    /// `None` where the file names none: then they are found from what the repository is.
    pub checks: Option<Vec<Check>>,
    pub limits: Limits,
    pub agent: AgentSpec,
    pub guard: Guard,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            triggers: Triggers::default(),
            checks: None,
            limits: Limits::default(),
            agent: AgentSpec::Fixers,
            guard: Guard::default(),
        }
    }
}

/// What may start a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Triggers {
    /// A `/whipstitch` command in a comment.
    pub comment: bool,
    /// Labels that ask for a repair when they are put on a pull request or issue.
    pub labels: Vec<String>,
    /// A check suite of others that failed on a pull request.
    pub failed_check_suite: bool,
    /// Apps, by their ids, whose comments may ask for a run. They never authorize anything.
    pub apps: Vec<i64>,
    /// The least role that may ask.
    pub least_role: Role,
    /// Whether the author of a pull request may ask whatever their role is.
    pub author_may_ask: bool,
}

impl Default for Triggers {
    fn default() -> Self {
        Self {
            comment: true,
            labels: Vec::new(),
            failed_check_suite: false,
            apps: Vec::new(),
            least_role: Role::Write,
            author_may_ask: false,
        }
    }
}

/// What is wrong with the file, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{PATH}:{line}:{column}: {message}")]
pub struct PolicyError {
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// A sentence without a final stop; names the choices where there are some.
    pub message: String,
}

impl Policy {
    /// Reads the file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyError> {
        if bytes.len() > MAX_BYTES {
            let message = format!("the file has {} bytes and may have {MAX_BYTES}", bytes.len());
            return Err(PolicyError { line: 1, column: 1, message });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            fault(&valid, valid.len(), "the file is not UTF-8 here".to_owned())
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        file::read(text)
    }

    /// The same policy with no bound above the operator's.
    pub fn within(self, caps: &Limits) -> Self {
        Self { limits: self.limits.within(caps), ..self }
    }
}

impl Limits {
    /// The lesser of each bound and the operator's.
    pub fn within(self, caps: &Limits) -> Self {
        Self {
            max_runtime_ms: self.max_runtime_ms.min(caps.max_runtime_ms),
            max_iterations: self.max_iterations.min(caps.max_iterations),
            max_patch_bytes: self.max_patch_bytes.min(caps.max_patch_bytes),
            max_changed_files: self.max_changed_files.min(caps.max_changed_files),
            max_memory_bytes: self.max_memory_bytes.min(caps.max_memory_bytes),
            max_processes: self.max_processes.min(caps.max_processes),
            max_tokens: self.max_tokens.min(caps.max_tokens),
            egress_seconds: self.egress_seconds.min(caps.egress_seconds),
            egress_bytes: self.egress_bytes.min(caps.egress_bytes),
            // More of them only make a verdict harder to reach, within the same time.
            reruns: self.reruns,
        }
    }
}

/// A fault at a byte of the text.
fn fault(text: &str, at: usize, message: String) -> PolicyError {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let one_based = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    PolicyError {
        line: one_based(before.matches('\n').count()),
        column: one_based(before[line_start..].chars().count()),
        message,
    }
}

/// Paths that no patch may touch unless the base's policy says otherwise.
pub fn default_protected_paths() -> Vec<String> {
    [
        ".github/**",
        "**/CODEOWNERS",
        "whipstitch.toml",
        ".mcp.json",
        "**/CLAUDE.md",
        "**/AGENTS.md",
        ".claude/**",
        ".codex/**",
        ".cursor/**",
        ".husky/**",
        ".gitmodules",
        ".gitattributes",
    ]
    .map(str::to_owned)
    .to_vec()
}
