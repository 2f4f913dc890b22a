//! Edits: proposals of an agent turned into changesets, and changesets applied whole or not at all.
//!
//! Everything but [`commit`] is pure: trees and bytes in, values out. A proposal is checked against the
//! tree in memory first; only a changeset whose every line matched ever reaches a disk.

pub mod apply;
pub mod binary;
pub mod changeset;
pub mod commit;
pub mod diff;
pub mod hunk;
mod journal;
pub mod mend;
pub mod overlay;
pub mod patch;
pub mod quote;
pub mod replace;

pub use apply::{Applied, ApplyError, apply_patch, apply_proposal};
pub use changeset::{Change, Changeset, ChangesetError, Limits, Side};
pub use commit::{CommitError, Recovery, Target, commit_changeset, recover};
pub use replace::{Occurrence, ReplaceError, Replacement, str_replace};
