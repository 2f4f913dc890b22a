//! A runner that does what a story says: it claims, journals, receipts and settles as the real one
//! does, with real trees in the story's repository, but runs nothing.

use jobs::changeset::{ChangesetFiles, FileMode, FileNow, FileState};
use jobs::check::{Check, ToolKind};
use jobs::digest::Digest;
use jobs::id::{RunId, TreeId};
use jobs::run::{Failure, Outcome, Phase};
use jobs::step::{FileChange, Output, StepKind, StepState};
use jobs::store::receipts::{NewReceipt, ReceiptKind};
use jobs::store::runs::{self, Claimed, Settlement};
use jobs::store::steps::{self, NewStep};
use jobs::store::{Signed, receipts as chain};
use jobs::verdict::{
    CheckOutcome, CheckResult, Checked, Counts, Diagnostic, Report, Severity, TestCase, TestFailure,
    TestState, Verdict,
};
use receipts::journal::{Entry, Kind};
use receipts::{Apply, Journal, Open, RunChain, Seal, SealOutcome, Timestamp};
use runners::reports::compare::{compare_knowing, flaky};
use runners::reports::{PatchFacts, RawOutput, read};

use crate::git::TreeEntry;
use crate::story::World;

/// What a run comes to.
#[derive(Clone, Debug)]
pub enum Script {
    /// Red before; green with these files (`None` deletes).
    Repaired(Change),
    /// Every check passes as it is.
    Clean,
    /// What the first check printed, read and judged as the service does.
    Observed(Box<Observed>),
    /// Red, with so many findings, and it ends like this.
    Red { findings: usize, outcome: Outcome },
}

/// Files by path with their new text; `None` where one is deleted.
pub type Change = Vec<(&'static str, Option<&'static str>)>;

/// What a check printed in the course of a run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// On the tree as it was admitted.
    pub baseline: RawOutput,
    /// On the same tree once more, where it was run again.
    pub rerun: Option<RawOutput>,
    /// The agent's change, and what was printed with it.
    pub after: Option<(Change, RawOutput)>,
}

impl Script {
    /// The repair of the story's own fault.
    pub fn repaired() -> Self {
        Script::Repaired(vec![("src/lib.rs", Some("pub fn one() -> u32 { 1 }\n"))])
    }
}

/// How long the scripted runner holds its run.
const LEASE: i64 = 600_000;

/// A run that is at work.
pub struct AtWork<'a> {
    world: &'a World,
    pub claimed: Claimed,
    journal: Journal,
    chain: RunChain,
    step: Option<[u8; 32]>,
}

impl World {
    /// Claims the next run and ends it as the script says; the forge is not told yet.
    pub async fn run(&self, script: Script) -> RunId {
        self.start().await.finish(script).await
    }

    /// Claims the next run, to be ended later.
    pub async fn start(&self) -> AtWork<'_> {
        let now = self.report.clock.now();
        let claimed = runs::claim(&self.db, "scripted", LEASE, now).await.expect("the store works");
        let claimed = claimed.expect("a run is queued");
        let (job, id) = (&claimed.job, *claimed.run.chain().as_bytes());
        let mut journal = Journal::begin(id);
        let at = Timestamp::from_unix(now / 1000);
        for kind in [Kind::Plan, Kind::Admit] {
            let entry = Entry { kind, at, subject: "job", body: *claimed.job_id.digest().as_bytes() };
            let signed = journal.append(&self.report.signer, &entry).expect("a legal entry");
            let line = stored(signed);
            jobs::store::journal::append(&self.db, &claimed.run, claimed.fence, &line, now)
                .await
                .expect("the store works");
        }
        let open = Open {
            run: id,
            actor: "runner:scripted",
            reason: "admitted",
            as_of: at,
            issued_at: at,
            job: *claimed.job_id.digest().as_bytes(),
            base: job.head.as_str(),
        };
        let (chain, opened) = RunChain::open(&self.report.signer, &open).expect("a legal receipt");
        let work = AtWork { world: self, claimed, journal, chain, step: None };
        work.keep(ReceiptKind::Open, opened, None).await;
        work
    }
}

impl AtWork<'_> {
    /// Enters a phase.
    pub async fn enter(&self, phase: Phase) {
        let now = self.world.report.clock.now();
        runs::enter(&self.world.db, &self.claimed.run, self.claimed.fence, phase, now)
            .await
            .expect("a legal step");
    }

    /// Does what the script says, and settles.
    pub async fn finish(mut self, script: Script) -> RunId {
        let checks = self.claimed.job.checks.clone();
        match script {
            Script::Clean => {
                self.done(StepKind::Baseline, Output::Baseline { checked: green(&checks) }).await;
                self.seal(Outcome::Succeeded, None).await
            }
            Script::Red { findings, outcome } => {
                self.done(StepKind::Baseline, Output::Baseline { checked: red(&checks, findings) }).await;
                self.seal(outcome, None).await
            }
            Script::Repaired(files) => {
                self.done(StepKind::Baseline, Output::Baseline { checked: red(&checks, 1) }).await;
                let applied = self.apply(&files).await;
                let checked = green(&self.claimed.job.checks);
                self.verify(checked, Verdict::Repaired, &applied).await;
                self.seal(Outcome::Succeeded, Some(applied.tree)).await
            }
            Script::Observed(observed) => {
                let Observed { baseline, rerun, after } = *observed;
                let check = checks.first().expect("the job has a check");
                let baseline = observe(check, &baseline);
                self.done(StepKind::Baseline, Output::Baseline { checked: baseline.clone() }).await;
                let Some((files, raw)) = after else {
                    return self.seal(without_a_change(&baseline), None).await;
                };
                let applied = self.apply(&files).await;
                let (checked, facts) = (observe(check, &raw), PatchFacts::of(&applied.diff));
                let reruns: Vec<Checked> = rerun.iter().map(|raw| observe(check, raw)).collect();
                let flaky = flaky(&baseline, &reruns);
                let verdict = compare_knowing(&baseline, &checked, &facts, &flaky);
                let outcome = outcome_of(&verdict);
                self.verify(checked, verdict, &applied).await;
                self.seal(outcome, Some(applied.tree)).await
            }
        }
    }

    /// Ends the run without any step.
    pub async fn end(self, outcome: Outcome) -> RunId {
        self.seal(outcome, None).await
    }

    async fn apply(&mut self, files: &[(&'static str, Option<&'static str>)]) -> Applied {
        let (git, before) = (self.world.git(), self.claimed.job.tree.clone());
        let entry = |(path, text): &(&'static str, Option<&'static str>)| TreeEntry {
            path: (*path).to_owned(),
            mode: "100644".to_owned(),
            object: text.map(|text| git.write_blob(text.as_bytes()).expect("git writes")),
        };
        let entries: Vec<_> = files.iter().map(entry).collect();
        let after = git.make_tree(Some(before.as_str()), &entries).expect("git writes");
        let after: TreeId = after.parse().expect("git names a tree");
        let names: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
        let mut diff = git.diff(before.as_str(), after.as_str()).expect("git compares");
        if diff.is_empty() {
            // A story may propose what is there already; a receipt is of something all the same.
            diff =
                names.iter().flat_map(|path| format!("--- a/{path}\n+++ b/{path}\n").into_bytes()).collect();
        }
        let artifacts = &self.world.report.artifacts;
        let patch = artifacts.put(&diff).expect("the disk works");
        let mut states: Vec<_> = files.iter().map(state).collect();
        states.sort_by(|left, right| left.path.cmp(&right.path));
        let changeset =
            ChangesetFiles { tree_before: before.clone(), tree_after: after.clone(), patch, files: states };
        let changeset = artifacts.put(&changeset.to_bytes()).expect("the disk works");
        let changed = |path: &&str| FileChange { path: (*path).to_owned(), added_lines: 1, removed_lines: 1 };
        let applied = Output::Applied {
            patch,
            tree_before: before.clone(),
            tree_after: after.clone(),
            files: names.iter().map(changed).collect(),
        };
        self.done(StepKind::Apply, applied).await;
        let now = Timestamp::from_unix(self.world.report.clock.now() / 1000);
        let receipt = self
            .chain
            .apply(
                &self.world.report.signer,
                &Apply {
                    actor: "agent:scripted/1",
                    reason: "does what the story says",
                    as_of: now,
                    issued_at: now,
                    diff: &diff,
                    journal_ref: self.step.expect("the step is in the journal"),
                    tree_before: before.as_str(),
                    tree_after: after.as_str(),
                },
            )
            .expect("a legal receipt");
        self.keep(ReceiptKind::Apply, receipt, Some(patch)).await;
        Applied { tree: after, patch, changeset, diff }
    }

    async fn verify(&mut self, checked: Checked, verdict: Verdict, applied: &Applied) {
        let (patch, changeset) = (Some(applied.patch), Some(applied.changeset));
        self.done(
            StepKind::Verify,
            Output::Verified { checked, verdict, patch, changeset, flaky: Vec::new() },
        )
        .await;
    }

    async fn done(&mut self, kind: StepKind, output: Output) {
        let (world, now) = (self.world, self.world.report.clock.now());
        let entry = Entry {
            kind: Kind::Step,
            at: Timestamp::from_unix(now / 1000),
            subject: kind.name(),
            body: [0; 32],
        };
        let signed = self.journal.append(&world.report.signer, &entry).expect("a legal entry");
        self.step = Some(signed.digest());
        let step = NewStep {
            kind,
            iteration: 0,
            state: StepState::Done { output: Box::new(output) },
            entry: stored(signed),
            at: now,
        };
        steps::append(&world.db, &self.claimed.run, self.claimed.fence, step).await.expect("the store works");
    }

    async fn keep(&self, kind: ReceiptKind, signed: receipts::Signed, diff: Option<jobs::digest::Digest>) {
        let (world, receipt) = (self.world, NewReceipt { kind, signed: stored(signed), diff });
        let now = world.report.clock.now();
        chain::append(&world.db, &self.claimed.run, self.claimed.fence, &receipt, now)
            .await
            .expect("the store works");
    }

    async fn seal(mut self, outcome: Outcome, tree: Option<TreeId>) -> RunId {
        let (world, now) = (self.world, self.world.report.clock.now());
        let at = Timestamp::from_unix(now / 1000);
        let entry = Entry { kind: Kind::Seal, at, subject: outcome.name(), body: [0; 32] };
        let signed = self.journal.append(&world.report.signer, &entry).expect("a legal entry");
        let tree = tree.unwrap_or_else(|| self.claimed.job.tree.clone());
        let seal = Seal {
            actor: "runner:scripted",
            reason: "the run ended",
            as_of: at,
            issued_at: at,
            tree_after: tree.as_str(),
            journal_head: signed.digest(),
            outcome: match &outcome {
                Outcome::Succeeded => SealOutcome::Succeeded,
                Outcome::Failed { .. } => SealOutcome::Failed,
                Outcome::Halted { .. } => SealOutcome::Halted,
            },
        };
        let sealed = self.chain.seal(&world.report.signer, &seal).expect("a legal receipt");
        let run = self.claimed.run.clone();
        let receipts = vec![NewReceipt { kind: ReceiptKind::Seal, signed: stored(sealed), diff: None }];
        let settlement = Settlement {
            run: run.clone(),
            fence: self.claimed.fence,
            outcome,
            entry: stored(signed),
            receipts,
            now,
        };
        runs::settle(&world.db, settlement).await.expect("the store works");
        run
    }
}

/// A change that was applied.
struct Applied {
    tree: TreeId,
    patch: Digest,
    changeset: Digest,
    diff: Vec<u8>,
}

/// One check as its reader reads what it printed.
fn observe(check: &Check, raw: &RawOutput) -> Checked {
    let result = CheckResult {
        name: check.name.clone(),
        exit_code: raw.exit_code,
        duration_ms: 1,
        output: None,
        report: read(check, raw),
    };
    Checked { checks: vec![result] }
}

/// How a run ends that has only read the checks.
fn without_a_change(baseline: &Checked) -> Outcome {
    if baseline.all_passed() {
        return Outcome::Succeeded;
    }
    let unknown = baseline.checks.iter().find_map(|check| match &check.report.outcome {
        CheckOutcome::Inconclusive(why) | CheckOutcome::Unsupported(why) => Some(why.clone()),
        CheckOutcome::Passed | CheckOutcome::Failed => None,
    });
    let failure = match unknown {
        Some(why) => Failure::Inconclusive(why),
        None => Failure::NotRepaired("a check is red".to_owned()),
    };
    Outcome::Failed { failure }
}

/// How a run ends by its last verdict.
fn outcome_of(verdict: &Verdict) -> Outcome {
    let failure = match verdict {
        Verdict::NothingToRepair | Verdict::Repaired => return Outcome::Succeeded,
        Verdict::NotRepaired(why) => Failure::NotRepaired(why.join("; ")),
        Verdict::Refused(why) => Failure::Refused(why.join("; ")),
        Verdict::Inconclusive(why) => Failure::Inconclusive(why.join("; ")),
    };
    Outcome::Failed { failure }
}

fn state((path, text): &(&'static str, Option<&'static str>)) -> FileState {
    let now = match text {
        Some(text) => FileNow::File { mode: FileMode::Regular, content: text.as_bytes().to_vec() },
        None => FileNow::Deleted,
    };
    FileState { path: (*path).to_owned(), now }
}

fn stored(signed: receipts::Signed) -> Signed {
    Signed { bytes: signed.bytes, signature: signed.signature }
}

fn green(checks: &[Check]) -> Checked {
    Checked { checks: checks.iter().map(|check| result(check, CheckOutcome::Passed)).collect() }
}

/// Every check fails; the first names `findings` places.
fn red(checks: &[Check], findings: usize) -> Checked {
    let mut results: Vec<_> = checks.iter().map(|check| result(check, CheckOutcome::Failed)).collect();
    if let Some(first) = results.first_mut() {
        first.report.diagnostics = (1..=findings)
            .map(|line| Diagnostic {
                file: "src/lib.rs".into(),
                line: u32::try_from(line).ok(),
                column: Some(1),
                severity: Severity::Error,
                code: Some("E0308".into()),
                message: format!("mismatched types, finding {line}; a very secret value"),
            })
            .collect();
    }
    Checked { checks: results }
}

fn result(check: &Check, outcome: CheckOutcome) -> CheckResult {
    let failed = outcome == CheckOutcome::Failed;
    let mut report = Report {
        tool: check.tool,
        outcome,
        counts: Counts::default(),
        tests: Vec::new(),
        failures: Vec::new(),
        diagnostics: Vec::new(),
        notes: Vec::new(),
    };
    if check.tool.kind() == ToolKind::Tests {
        let state = if failed { TestState::Failed } else { TestState::Passed };
        report.tests.push(TestCase { id: "one_is_one".into(), state });
        if failed {
            report.failures.push(TestFailure {
                name: "one_is_one".into(),
                file: Some("src/lib.rs".into()),
                line: Some(1),
                message: "assertion failed".into(),
                excerpt: "left: 2\nright: 1".into(),
            });
        }
    }
    CheckResult {
        name: check.name.clone(),
        exit_code: Some(i32::from(failed)),
        duration_ms: 1,
        output: None,
        report,
    }
}
