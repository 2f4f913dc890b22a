//! What a patch does to the things that judge it: tests, assertions, suppressions, check configuration.
//!
//! Pure and line-based: a patch is never applied here and no language is parsed. Only what a patch adds or
//! takes away on balance counts, so code that moves within a file is not held against it. Where it cannot
//! be known, the patch is flagged: a maintainer can look at a flagged patch, but not at one that passed.

use std::collections::BTreeSet;

use jobs::check::Check;
use jobs::job::Guard;

mod around;
mod configuration;
mod diff;
mod hidden;
mod patterns;
mod rebound;
mod regions;
mod test_code;

use diff::FileDiff;

/// Flags kept from one patch.
const FLAGS: usize = 200;

/// What kind of thing a patch did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FlagKind {
    /// A comment or attribute that silences a finding.
    Suppression,
    /// A test is skipped, expected to fail, or others are left out by focusing on one.
    TestSetAside,
    /// A test or a file of tests is gone or renamed.
    TestDeleted,
    /// An assertion is gone or changed, or made to hold always.
    TestWeakened,
    /// A file or section that decides how checks run.
    CheckConfigChanged,
    /// A number that a check compares with.
    ThresholdChanged,
    /// Leaves the process, or works around the runner.
    EarlyExit,
    /// Prints or writes what looks like a report.
    FakeReport,
    /// Brings what cannot be read: bytes, compiled code, links.
    Hidden,
}

/// One thing that a patch did.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flag {
    pub kind: FlagKind,
    pub file: String,
    /// In the changed file, 1-based; `None` for what was taken away.
    pub line: Option<u32>,
    /// The words that say it.
    pub detail: String,
}

/// What a patch did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PatchFacts {
    pub flags: Vec<Flag>,
    changed: BTreeSet<String>,
}

impl PatchFacts {
    /// Reads a unified or git patch.
    pub fn of(patch: &[u8]) -> Self {
        let mut facts = Self::default();
        let (files, cut) = diff::parse(patch);
        for file in &files {
            facts.changed.extend(file.old_path.iter().chain(&file.new_path).cloned());
            facts.read_file(file);
        }
        if cut {
            let file = FileDiff { new_path: Some("the patch".to_owned()), ..FileDiff::default() };
            facts.flag(FlagKind::Hidden, &file, None, "it is too long to be read to its end");
        }
        facts.flags.sort();
        facts.flags.dedup();
        facts.flags.truncate(FLAGS);
        facts
    }

    /// Flags the files that an admitted check runs or is told to read its settings from.
    pub fn judged_by(mut self, checks: &[Check]) -> Self {
        for check in checks {
            for path in configuration::named_files(check) {
                if self.touches(&path) {
                    let file = FileDiff { new_path: Some(path), ..FileDiff::default() };
                    let detail = format!("the command of {} names it", check.name);
                    self.flag(FlagKind::CheckConfigChanged, &file, None, &detail);
                }
            }
        }
        self
    }

    /// Leaves out what the base's policy allows.
    pub fn allowed_by(mut self, guard: &Guard) -> Self {
        self.flags.retain(|flag| match flag.kind {
            FlagKind::Suppression => !guard.allow_suppressions,
            FlagKind::TestDeleted | FlagKind::TestWeakened => !guard.allow_test_changes,
            FlagKind::CheckConfigChanged | FlagKind::ThresholdChanged => !guard.allow_check_changes,
            // Nobody who means well needs these.
            FlagKind::TestSetAside | FlagKind::EarlyExit | FlagKind::FakeReport | FlagKind::Hidden => true,
        });
        self
    }

    /// Whether the patch changes this file.
    pub fn touches(&self, file: &str) -> bool {
        self.changed.contains(file)
    }

    /// The flags as sentences.
    pub fn reasons(&self) -> Vec<String> {
        self.flags
            .iter()
            .map(|flag| {
                let line = flag.line.map(|line| format!(":{line}")).unwrap_or_default();
                format!("the patch {}: {}{line}: {}", flag.kind.words(), flag.file, flag.detail)
            })
            .collect()
    }

    fn read_file(&mut self, file: &FileDiff) {
        configuration::look(self, file);
        patterns::look(self, file);
        around::look(self, file);
        hidden::look(self, file);
        test_code::look(self, file);
    }

    fn flag(&mut self, kind: FlagKind, file: &FileDiff, line: Option<u32>, detail: &str) {
        if self.flags.len() < FLAGS * 10 {
            self.flags.push(Flag {
                kind,
                file: file.path().to_owned(),
                line,
                detail: super::text::cut(detail.trim(), 200),
            });
        }
    }
}

impl FlagKind {
    const fn words(self) -> &'static str {
        match self {
            FlagKind::Suppression => "silences a finding",
            FlagKind::TestSetAside => "sets a test aside",
            FlagKind::TestDeleted => "removes or renames a test",
            FlagKind::TestWeakened => "changes what a test asserts",
            FlagKind::CheckConfigChanged => "changes how a check runs",
            FlagKind::ThresholdChanged => "changes a threshold of a check",
            FlagKind::EarlyExit => "leaves the test process or works around its runner",
            FlagKind::FakeReport => "writes what looks like a test report",
            FlagKind::Hidden => "brings what cannot be read",
        }
    }
}

#[cfg(test)]
mod tests;
