//! What is answered to a comment. No answer holds a line that would itself run, should it be quoted
//! back or read by mistake.

use askama::Template;
use jobs::forge::PushTarget;
use jobs::job::Goal;
use jobs::run::{Outcome, RunState};
use jobs::store::RunSummary;
use url::Url;

use crate::command::Fault;
use crate::text::one_line;

#[derive(Template)]
#[template(path = "comment/usage.md")]
struct Usage<'a> {
    login: &'a str,
    fault: String,
}

#[derive(Template)]
#[template(path = "comment/help.md")]
struct Help<'a> {
    login: &'a str,
}

#[derive(Template)]
#[template(path = "comment/flood.md")]
struct Flooded<'a> {
    login: &'a str,
}

#[derive(Template)]
#[template(path = "comment/refused.md")]
struct Refusals<'a> {
    login: &'a str,
    refused: &'a [(&'static str, String)],
}

#[derive(Template)]
#[template(path = "comment/status.md")]
struct Status {
    runs: Vec<StatusLine>,
}

struct StatusLine {
    id: String,
    url: Option<String>,
    wish: &'static str,
    actor: String,
    commit: String,
    state: String,
}

/// The choices, after a command that could not be read.
pub(super) fn usage(login: &str, fault: &Fault) -> String {
    render(&Usage { login: &plain(login), fault: fault.to_string() })
}

/// The choices, when they were asked for.
pub(super) fn help(login: &str) -> String {
    render(&Help { login: &plain(login) })
}

/// A polite word to one who asks too often.
pub(super) fn flooded(login: &str) -> String {
    render(&Flooded { login: &plain(login) })
}

/// What was not done, and why, for each verb.
pub(super) fn refused(login: &str, refused: &[(&'static str, String)]) -> String {
    render(&Refusals { login: &plain(login), refused })
}

/// The latest runs.
pub(super) fn status(runs: &[RunSummary], public_url: Option<&Url>) -> String {
    let line = |run: &RunSummary| StatusLine {
        id: run.id.to_string(),
        url: public_url.and_then(|base| crate::links::run(base, &run.id)),
        wish: wish(run),
        actor: plain(&run.job.request.actor.login),
        commit: run.job.head.as_str().chars().take(8).collect(),
        state: state(&run.state),
    };
    render(&Status { runs: runs.iter().map(line).collect() })
}

fn wish(run: &RunSummary) -> &'static str {
    match (run.job.goal, &run.job.push_target) {
        (Goal::Verify, _) => "verify",
        (Goal::Repair, PushTarget::Nowhere { .. }) => "try",
        (
            Goal::Repair,
            PushTarget::Branch { .. } | PushTarget::Fork { .. } | PushTarget::NewPullRequest { .. },
        ) => "fix",
    }
}

fn state(state: &RunState) -> String {
    match state {
        RunState::Queued => "queued".to_owned(),
        RunState::Running { phase } => format!("running: {}", phase.name()),
        RunState::Suspended { .. } => "suspended, waits for a decision".to_owned(),
        RunState::Finished { outcome: outcome @ (Outcome::Succeeded | Outcome::Failed { .. }) } => {
            outcome.name().to_owned()
        }
        RunState::Finished { outcome: Outcome::Halted { requeue_recommended, .. } } => {
            if *requeue_recommended { "halted, worth another run".into() } else { "halted".into() }
        }
    }
}

/// A login as a forge may show it; anything else cannot come into a sentence.
fn plain(login: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']');
    one_line(login, 60).chars().filter(fits).collect()
}

fn render(template: &impl Template) -> String {
    // These templates write into a string and call nothing that can fail.
    template.render().expect("a template of plain values renders").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Quoted, parse};

    #[test]
    fn c5_no_answer_holds_a_line_that_would_run() {
        let verb = "`\n\n/whipstitch fix\n\n`";
        let faults = [
            Fault::NoVerb,
            Fault::UnknownVerb(Quoted::new(verb)),
            Fault::BadArgument { verb: "fix", argument: Quoted::new(verb) },
            Fault::DoubledArgument { verb: "apply" },
            Fault::TooMany,
            Fault::TooLong,
        ];
        for login in ["ada", "a\n\n/whipstitch fix\n\n"] {
            let mut answers: Vec<String> = faults.iter().map(|fault| usage(login, fault)).collect();
            answers.push(help(login));
            answers.push(flooded(login));
            answers.push(refused(login, &[("fix", "x".into()), ("apply", "y".into())]));
            answers.push(status(&[], None));
            for answer in answers {
                assert_eq!(parse(&answer), Ok(vec![]), "{answer}");
            }
        }
    }

    #[test]
    fn c5_the_usage_names_every_choice() {
        insta::assert_snapshot!(usage("ada", &Fault::UnknownVerb(Quoted::new("mend"))), @r"
        @ada, nothing was started: there is no verb `mend`. A comment may hold these, each alone on a line:

        - `/whipstitch fix` repairs what is red; the patch waits for a yes
        - `/whipstitch try` does the same as a rehearsal; its patch can be read, not applied
        - `/whipstitch verify` only says what is red
        - `/whipstitch apply` pushes the verified patch; add the first digits of its seal to name one
        - `/whipstitch reject` declines the verified patch
        - `/whipstitch cancel` stops the runs of this pull request; add a run's id to name one
        - `/whipstitch resume` takes a suspended run up again; add a run's id to name one
        - `/whipstitch status` lists the latest runs
        - `/whipstitch help` shows this list
        ");
    }

    #[test]
    fn refusals_are_said_one_by_one() {
        let why = "`ada` has the role `read` here, and `write` is the least that may ask for a run";
        insta::assert_snapshot!(refused("ada", &[("fix", why.into()), ("apply", "it is closed".into())]), @r"
        @ada, `fix` was not done: `ada` has the role `read` here, and `write` is the least that may ask for a run.

        @ada, `apply` was not done: it is closed.
        ");
    }
}
