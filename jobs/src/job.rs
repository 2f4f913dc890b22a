//! What was admitted. A job never changes; its id is the digest of its canonical form.

use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::digest::Digest;
use crate::forge::{Account, PushTarget, Repository, Role, Subject};
use crate::id::{CommitId, JobId, TreeId};

/// Bounds of a run, admitted with the job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub max_runtime_ms: u64,
    pub max_iterations: u32,
    pub max_patch_bytes: u64,
    pub max_changed_files: u64,
    pub max_memory_bytes: u64,
    pub max_processes: u64,
    pub max_tokens: u64,
    /// Seconds that the egress window may stand open.
    pub egress_seconds: u64,
    pub egress_bytes: u64,
    /// How often a check whose tests changed their state is run again on the unchanged tree, to find those
    /// that do so by themselves. Left out of the form where it is the usual number, so that a job keeps its
    /// id and a reader that does not know the member yet takes the job.
    #[serde(skip_serializing_if = "is_usual")]
    pub reruns: u32,
}

const USUAL_RERUNS: u32 = 2;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_usual(reruns: &u32) -> bool {
    *reruns == USUAL_RERUNS
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_runtime_ms: 30 * 60_000,
            max_iterations: 5,
            max_patch_bytes: 1 << 20,
            max_changed_files: 64,
            max_memory_bytes: 4 << 30,
            max_processes: 512,
            max_tokens: 500_000,
            egress_seconds: 600,
            egress_bytes: 2 << 30,
            reruns: USUAL_RERUNS,
        }
    }
}

/// Which agent edits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name")]
pub enum AgentSpec {
    /// The fix modes of cargo, clippy and ruff; no model.
    Fixers,
    /// A recorded patch, by the digest of its bytes in the artifact folder.
    Replay { patch: Digest },
    /// A model with tools, by the name that the operator's configuration gives it.
    Model { profile: String },
}

impl AgentSpec {
    /// The name in configuration, receipts and pages.
    pub const fn name(&self) -> &'static str {
        match self {
            AgentSpec::Fixers => "fixers",
            AgentSpec::Replay { .. } => "replay",
            AgentSpec::Model { .. } => "model",
        }
    }
}

/// What the run is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Repair what is red.
    Repair,
    /// Only say what is red.
    Verify,
}

/// Who asked, and by which words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    pub actor: Account,
    /// The role that the forge told at admission.
    pub role: Role,
    /// The comment, click or delivery that asked: `comment/123`, `check-action/5`, `cli`.
    pub origin: String,
    /// Digest of the comment's text as it was admitted.
    pub text: Digest,
}

/// How a patch is given out that cannot be pushed to the fork it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForkPatch {
    /// As a file beside the receipts.
    #[default]
    Artifact,
    /// As suggested changes in a review, where the patch fits the pull request's diff.
    Suggestion,
    /// From a branch of the app's own, by a pull request, once a person has authorized it.
    PullRequest,
}

/// Which paths a patch may not touch and who may authorize, from the base branch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Guard {
    pub least_role: Role,
    pub author_may_apply: bool,
    /// Globs; a patch that touches one is refused before a push.
    pub protected_paths: Vec<String>,
    /// What becomes of the patch for a fork that takes no push.
    #[serde(default)]
    pub fork_patch: ForkPatch,
    pub authorization_hours: u32,
    pub allow_suppressions: bool,
    /// Whether a repair may take away or rewrite what tests say. A test that ran must run still.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_test_changes: bool,
    /// Whether a repair may change the files that decide how checks run, and their thresholds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_check_changes: bool,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            least_role: Role::Write,
            author_may_apply: true,
            protected_paths: crate::policy::default_protected_paths(),
            fork_patch: ForkPatch::Artifact,
            authorization_hours: 24,
            allow_suppressions: false,
            allow_test_changes: false,
            allow_check_changes: false,
        }
    }
}

/// Everything that a run may rely on. Nothing of it comes from the head of a pull request,
/// but for the commit that is to be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    pub repository: Repository,
    pub subject: Subject,
    pub goal: Goal,
    /// The commit to repair, and its tree.
    pub head: CommitId,
    pub tree: TreeId,
    /// The base branch's commit that policy and checks were read from.
    pub base: CommitId,
    /// The ref to fetch `head` through, such as `refs/pull/5/head`.
    pub fetch_ref: String,
    pub push_target: PushTarget,
    /// The branch that `base` was read from.
    #[serde(default)]
    pub base_branch: Option<String>,
    pub checks: Vec<Check>,
    pub limits: Limits,
    pub agent: AgentSpec,
    pub guard: Guard,
    pub request: Request,
}

impl JobSpec {
    /// The canonical form: JSON with sorted members and no spaces (as RFC 8785 for these types).
    ///
    /// The members are sorted here, since a feature of `serde_json` that any crate in the graph may
    /// switch on would else keep them in the order of the fields.
    pub fn canonical(&self) -> Vec<u8> {
        let mut value = serde_json::to_value(self).expect("a job has only string keys and finite numbers");
        sort_members(&mut value);
        serde_json::to_vec(&value).expect("a JSON value serializes")
    }

    /// The id: digest of the canonical form.
    pub fn id(&self) -> JobId {
        JobId::of(Digest::of(self.canonical()))
    }
}

/// Puts the members of every object into the order of their names' bytes.
fn sort_members(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            let mut sorted: Vec<_> = std::mem::take(members).into_iter().collect();
            sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
            for (name, mut member) in sorted {
                sort_members(&mut member);
                members.insert(name, member);
            }
        }
        serde_json::Value::Array(elements) => elements.iter_mut().for_each(sort_members),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::store::testing::spec;

    #[test]
    fn the_canonical_form_has_sorted_members_and_no_spaces() {
        let text = String::from_utf8(spec("comment/1").canonical()).unwrap();
        assert!(text.starts_with("{\"agent\":{\"name\":\"fixers\"},\"base\":\"cccc"), "{text}");
        assert!(text.contains("\"repository\":{\"forge\":\"local\",\"installation\":7,\"name\":"), "{text}");
        assert!(!text.contains(": ") && !text.contains(", "), "{text}");
    }

    #[test]
    fn the_id_changes_with_every_part_and_with_nothing_else() {
        let job = spec("comment/1");
        let read: super::JobSpec = serde_json::from_slice(&job.canonical()).unwrap();
        assert_eq!((read.id(), &read), (job.id(), &job));
        assert_ne!(spec("comment/2").id(), job.id());
    }
}
