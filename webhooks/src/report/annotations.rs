//! Remarks at the failing lines of the tested commit.
//!
//! They come from the first reading of the checks, which is of exactly that commit's tree, and are
//! told only once the run has ended. So the list is the same each time it is told, and a forge that
//! appends what it has not yet seen shows each of them once.

use jobs::run::RunState;
use jobs::store::RunView;
use jobs::verdict::{CheckOutcome, Report, Severity};

use super::mask::Mask;
use crate::forge::{Annotation, AnnotationLevel};
use crate::text::{one_line, within_bytes, within_characters};

/// More remarks than this help nobody.
const MOST: usize = 300;
/// GitHub takes 64 KiB; nobody reads as much.
const MESSAGE_BYTES: usize = 4_000;
const TITLE_CHARACTERS: usize = 255;

/// The remarks, and how many findings have none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Marked {
    pub annotations: Vec<Annotation>,
    /// Findings without a place in a file, or beyond the most that are shown.
    pub left_out: usize,
}

pub(super) fn of(view: &RunView, mask: &Mask) -> Marked {
    match view.run.state {
        RunState::Queued | RunState::Running { .. } | RunState::Suspended { .. } => return Marked::default(),
        RunState::Finished { .. } => {}
    }
    let checks = super::evidence::baseline(view).map(|checked| checked.checks.as_slice()).unwrap_or_default();
    let (mut annotations, mut found) = (Vec::new(), 0);
    for result in checks.iter().filter(|result| result.report.outcome == CheckOutcome::Failed) {
        for finding in findings(&result.report) {
            found += 1;
            let Some((path, line)) = finding.place else { continue };
            if annotations.len() < MOST {
                let message = mask.apply(&finding.message);
                let message = within_bytes(&message, MESSAGE_BYTES).trim();
                annotations.push(Annotation {
                    path: path.to_owned(),
                    start_line: line,
                    end_line: line,
                    level: finding.level,
                    title: Some(within_characters(
                        &mask.apply(&one_line(&format!("{}: {}", result.name, finding.title), 250)),
                        TITLE_CHARACTERS,
                    )),
                    message: if message.is_empty() {
                        "It failed here.".to_owned()
                    } else {
                        message.to_owned()
                    },
                });
            }
        }
    }
    let left_out = found - annotations.len();
    Marked { annotations, left_out }
}

struct Finding<'a> {
    place: Option<(&'a str, u32)>,
    level: AnnotationLevel,
    title: &'a str,
    message: String,
}

fn findings(report: &Report) -> impl Iterator<Item = Finding<'_>> {
    let failures = report.failures.iter().map(|failure| Finding {
        place: place(failure.file.as_deref(), failure.line),
        level: AnnotationLevel::Failure,
        title: &failure.name,
        message: format!("{}\n\n{}", failure.message, failure.excerpt),
    });
    let diagnostics = report.diagnostics.iter().map(|found| Finding {
        place: place(Some(&found.file), found.line),
        level: match found.severity {
            Severity::Error => AnnotationLevel::Failure,
            Severity::Warning => AnnotationLevel::Warning,
            Severity::Note => AnnotationLevel::Notice,
        },
        title: found.code.as_deref().unwrap_or("finding"),
        message: found.message.clone(),
    });
    failures.chain(diagnostics)
}

/// A line of a file within the repository.
fn place(path: Option<&str>, line: Option<u32>) -> Option<(&str, u32)> {
    let path = path?;
    let within = path.len() <= 1_000
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    line.filter(|line| within && (1..=i32::MAX as u32).contains(line)).map(|line| (path, line))
}
