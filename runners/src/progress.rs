//! What a run does just now, for those who watch. Nothing durable depends on it: the journal is the
//! truth, and a watcher that falls behind loses lines, never a run.

use jobs::clock::Millis;
use jobs::id::RunId;
use jobs::run::{Outcome, Phase, Suspension};
use jobs::step::StepKind;

/// One sign of life of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    pub run: RunId,
    pub at: Millis,
    pub what: Happening,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Happening {
    /// A node took the run up, for the first time or again after an interruption.
    Claimed { subject: String, attempt: Attempt },
    /// A step began.
    Begun { phase: Phase, step: StepKind, iteration: u32 },
    /// One command of a step began; `argv` is cut to 200 characters.
    Command { name: String, argv: String },
    /// A step ended well; `summary` is one line for people.
    Done { phase: Phase, step: StepKind, iteration: u32, summary: String },
    /// A step ended badly.
    Failed { phase: Phase, step: StepKind, iteration: u32, error: String },
    /// The run waits for a person or a look-up.
    Suspended { why: Suspension },
    /// The run has its one end.
    Finished { outcome: Outcome },
}

/// Whether the run starts or goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    First,
    Again,
}

/// Joins an argument array for a line that people read, cut at 200 characters.
pub fn line_of(argv: &[String]) -> String {
    let joined = argv.join(" ");
    match joined.char_indices().nth(200) {
        Some((cut, _)) => format!("{}…", &joined[..cut]),
        None => joined,
    }
}
