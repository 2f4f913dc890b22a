//! (see below)
use super::PatchFacts;
use super::diff::FileDiff;

pub(super) fn look(_facts: &mut PatchFacts, _file: &FileDiff) {}
