//! The durable plan of a run: steps, each `Begun` and then `Done` or `Failed`, kept as journal entries.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{LaunchId, TreeId};
use crate::run::Phase;
use crate::verdict::{Checked, NamedTest, Verdict};

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    Provision,
    Bootstrap,
    Navigate,
    /// The checks on the tree as it was admitted.
    Baseline,
    /// The agent's proposal.
    Propose,
    /// The proposal applied as one changeset.
    Apply,
    /// The checks on the changed tree, in a fresh container.
    Verify,
    /// The governor's decision before the next iteration.
    Govern,
}

impl StepKind {
    /// The phase that the step belongs to, in iteration `iteration` (the first edit is 0).
    pub const fn phase(self, iteration: u32) -> Phase {
        match self {
            StepKind::Provision => Phase::Provision,
            StepKind::Bootstrap => Phase::Bootstrap,
            StepKind::Navigate => Phase::Navigate,
            StepKind::Baseline | StepKind::Verify => Phase::Verify,
            StepKind::Propose | StepKind::Apply => {
                if iteration == 0 {
                    Phase::Edit
                } else {
                    Phase::Repair
                }
            }
            StepKind::Govern => Phase::Repair,
        }
    }

    /// The name in rows and pages.
    pub const fn name(self) -> &'static str {
        match self {
            StepKind::Provision => "provision",
            StepKind::Bootstrap => "bootstrap",
            StepKind::Navigate => "navigate",
            StepKind::Baseline => "baseline",
            StepKind::Propose => "propose",
            StepKind::Apply => "apply",
            StepKind::Verify => "verify",
            StepKind::Govern => "govern",
        }
    }
}

/// Where a step stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum StepState {
    Begun,
    Done { output: Box<Output> },
    Failed { error: String },
}

/// What a finished step leaves for the next ones and for people.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum Output {
    Provisioned {
        tree: TreeId,
        files: u64,
        bytes: u64,
    },
    Bootstrapped {
        installs: Vec<Install>,
        egress: Vec<EgressLine>,
        seal: SealReport,
    },
    Navigated {
        languages: Vec<LanguageCount>,
        omitted: Vec<String>,
        /// What the repo map was made of; `None` in records of before there was one.
        #[serde(default)]
        map: Option<MapBuilt>,
    },
    Baseline {
        checked: Checked,
    },
    Proposed {
        launch: LaunchId,
        patch: Option<Digest>,
        note: String,
        /// Tokens that the launch used, as the provider counts them.
        #[serde(default, skip_serializing_if = "is_zero")]
        tokens: u64,
    },
    Applied {
        patch: Digest,
        tree_before: TreeId,
        tree_after: TreeId,
        files: Vec<FileChange>,
    },
    Verified {
        checked: Checked,
        verdict: Verdict,
        /// The whole patch from the admitted tree to the verified one, in the artifact folder;
        /// what a person authorizes and what is pushed. `None` when the trees are the same.
        #[serde(default)]
        patch: Option<Digest>,
        /// The same change as [`ChangesetFiles`](crate::changeset::ChangesetFiles), in the artifact
        /// folder: what a push writes.
        #[serde(default)]
        changeset: Option<Digest>,
        /// The tests whose state differed over runs of the unchanged tree: nothing is claimed of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flaky: Vec<NamedTest>,
    },
    Governed {
        go: bool,
        why: String,
        figures: Vec<(String, String)>,
    },
}

/// Agents without a model leave the figure out, so that their lines are what they were before it.
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// One command that installed dependencies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Install {
    pub directory: String,
    pub argv: Vec<String>,
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// Lockfiles that the install changed; they are not part of the repair.
    pub changed_lockfiles: Vec<String>,
}

/// One thing that passed, or did not pass, the egress window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EgressLine {
    pub host: String,
    pub port: u16,
    /// `None` when admitted, else the reason of the refusal.
    pub refused: Option<String>,
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// The command that asked.
    pub asked_by: String,
    /// What was asked for, where the broker itself asked: a tunnel's inside is not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Digest of what came whole from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// It came from this host's cache, and nothing passed the host's own network.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cached: bool,
}

/// So that a line says only what is remarkable.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What the container could and could not do, measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SealReport {
    /// `embedded`, `podman`, ...
    pub backend: String,
    pub kernel: String,
    /// Landlock's ABI version; `None` where the kernel has none.
    pub landlock_abi: Option<u32>,
    /// Digest of the compiled seccomp policy.
    pub policy: Option<Digest>,
    /// How memory is held: `cgroup-v2`, `cgroup-v1`, `rlimits`.
    pub limits_tier: String,
    /// Each limit and what holds it; reports of older versions have none.
    #[serde(default)]
    pub limits: Vec<HeldLimit>,
    /// Digest of what passed the egress window, as the step's lines stand in the journal.
    #[serde(default)]
    pub egress: Option<Digest>,
    /// Each self-test and whether the way out was found closed.
    pub tests: Vec<SealTest>,
}

/// One limit of a container, and what holds it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldLimit {
    /// `memory`, `processes`, `processors`, `disk`.
    pub name: String,
    /// `cgroup-v2`, `cgroup-v1`, `rlimit`, `watch`, `none`.
    pub by: String,
    /// Whether the kernel holds it; else it is best effort.
    pub enforced: bool,
}

impl SealReport {
    /// Whether every way out was found closed, and at least one was tried.
    pub fn sealed(&self) -> bool {
        !self.tests.is_empty() && self.tests.iter().all(|test| test.closed)
    }

    /// The report as the text that its digest is of.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings, numbers and lists are always written")
    }

    /// The digest by which receipts name the report.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_bytes())
    }
}

/// One way out that was tried from inside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SealTest {
    /// `interfaces`, `ipv4`, `user-namespace`, `io-uring`, ...
    pub name: String,
    pub closed: bool,
    /// What the kernel answered.
    pub evidence: String,
}

/// Files of one language.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LanguageCount {
    pub language: String,
    pub files: u64,
}

/// What a repo map was made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MapBuilt {
    /// Files with tags.
    pub files: u64,
    pub definitions: u64,
    /// Names that files refer to, each counted once a file.
    pub references: u64,
    /// Blobs that were read, and those that were known of earlier runs.
    pub read: u64,
    pub kept: u64,
    /// Files of a known language without tags.
    pub skipped: u64,
    /// Each language with the version of its grammar and reader.
    pub versions: Vec<String>,
    pub duration_ms: u64,
}

/// One changed file of a changeset.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    pub added_lines: u64,
    pub removed_lines: u64,
}
