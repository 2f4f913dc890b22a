//! pytest's last line: `=== 2 failed, 1 passed in 0.04s ===`, which any test can print as well.

use std::collections::BTreeMap;

use jobs::verdict::Counts;

use crate::reports::text;

/// The numbers of one summary line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::reports::pytest) struct Summary {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    pub errors: u64,
    pub xfailed: u64,
    others: BTreeMap<&'static str, u64>,
    /// The line's index.
    pub at: usize,
}

impl Summary {
    pub fn counts(&self) -> Counts {
        Counts {
            passed: Some(self.passed),
            failed: Some(self.failed),
            skipped: Some(self.skipped),
            errors: Some(self.errors),
        }
    }

    /// The counts that only pytest has.
    pub fn extras(&self, extra: &mut BTreeMap<&'static str, u64>) {
        if self.xfailed > 0 {
            extra.insert("xfailed", self.xfailed);
        }
        extra.extend(self.others.iter().map(|(name, count)| (*name, *count)));
    }

    fn red(&self) -> u64 {
        self.failed + self.errors
    }
}

/// The summary line to believe.
///
/// What a test printed stands before the short summary's header or the last progress line, what an exit hook
/// prints stands after the real line. So the first candidate after those marks is taken; without a mark the
/// reddest of all, since a run without failures shows nothing that its tests printed.
pub(super) fn find(lines: &[&str]) -> Option<Summary> {
    let candidates: Vec<Summary> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| parse(line).map(|found| Summary { at, ..found }))
        .collect();
    let header =
        lines.iter().rposition(|line| line.starts_with('=') && line.contains(" short test summary info "));
    let progress = lines.iter().rposition(|line| line.ends_with("[100%]"));
    let mark = header.or(progress).unwrap_or(0);
    let after = candidates.iter().filter(|found| found.at >= mark);
    match header.or(progress) {
        Some(_) => after.min_by_key(|found| found.at).cloned(),
        None => candidates.iter().max_by_key(|found| (found.red(), found.at)).cloned(),
    }
}

/// `2 failed, 1 passed, 3 warnings in 0.04s (0:01:02)` with or without `=` around it; `no tests ran in 0.01s`.
fn parse(line: &str) -> Option<Summary> {
    let inner = line.trim_matches('=').trim();
    let (words, time) = inner.rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let mut summary = Summary::default();
    if words == "no tests ran" {
        return Some(summary);
    }
    for part in words.split(", ") {
        let (count, word) = text::leading_count(part);
        let (count, word) = (count?, word.strip_prefix(' ')?);
        match word {
            "passed" => summary.passed = count,
            "failed" => summary.failed = count,
            "skipped" => summary.skipped = count,
            "error" | "errors" => summary.errors = count,
            "xfailed" => summary.xfailed = count,
            "xpassed" => drop(summary.others.insert("xpassed", count)),
            "deselected" => drop(summary.others.insert("deselected", count)),
            "warning" | "warnings" => drop(summary.others.insert("warnings", count)),
            "rerun" | "reruns" => drop(summary.others.insert("rerun", count)),
            "subtests passed" | "subtest passed" => drop(summary.others.insert("subtests_passed", count)),
            "subtests failed" | "subtest failed" => summary.failed += count,
            _ if word.chars().all(|next| next.is_ascii_lowercase() || next == ' ') => {}
            _ => return None,
        }
    }
    Some(summary)
}

/// How many tests `collected 5 items / 2 deselected / 3 selected` leaves to run.
pub(super) fn selected(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("collected ").or_else(|| {
        line.split_once(" collected ")
            .filter(|(before, _)| before.starts_with("collecting"))
            .map(|(_, rest)| rest)
    })?;
    let (count, rest) = text::leading_count(rest);
    if !rest.starts_with(" item") {
        return None;
    }
    let named = rest.split(" / ").find_map(|part| {
        let (count, word) = text::leading_count(part.trim());
        word.starts_with(" selected").then_some(count?)
    });
    named.or(count)
}
