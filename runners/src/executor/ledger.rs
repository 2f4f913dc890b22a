//! What a run leaves behind, in one place: its steps, its journal and its receipts, each signed before it
//! is stored and all under the run's fence.
//!
//! A ledger is loaded from the store, so that a worker that takes a run up continues the same chains.

use std::sync::Arc;

use jobs::clock::{Clock, Millis};
use jobs::digest::Digest;
use jobs::id::{Fence, LaunchId, RunId, TreeId};
use jobs::job::JobSpec;
use jobs::run::{Outcome, Phase};
use jobs::step::{Output, SealReport, StepKind, StepState};
use jobs::store::launches::{self, Launch, NewLaunch};
use jobs::store::receipts::{NewReceipt, ReceiptKind};
use jobs::store::runs::{Claimed, Settlement};
use jobs::store::steps::{self, Line, NewStep, Step};
use jobs::store::{self, Db, Signed, journal, runs};
use receipts::journal::{Entry, Kind};
use receipts::{Apply, Journal, Open, RunChain, Seal, SealOutcome, Signer, Timestamp};
use tokio::sync::broadcast;

use super::PhaseError;
use crate::edit::Changeset;
use crate::progress::{Happening, Progress};

/// The journal entry, and the words of the last receipt, that name the report by its digest.
const SEAL_REPORT: &str = "seal report";
/// Who writes what no agent and no person does.
const RUNNER: &str = "whipstitch:runner";

/// The durable side of one run, held by one worker.
pub struct Ledger {
    db: Db,
    run: RunId,
    fence: Fence,
    signer: Arc<Signer>,
    clock: Arc<dyn Clock>,
    progress: broadcast::Sender<Progress>,
    journal: Journal,
    entries: Vec<receipts::Signed>,
    chain: Option<RunChain>,
    receipts: Vec<(receipts::Signed, Option<Digest>)>,
    steps: Vec<Step>,
    phase: Phase,
}

impl Ledger {
    /// Loads what the run has left so far.
    pub async fn load(
        db: &Db,
        claimed: &Claimed,
        signer: Arc<Signer>,
        clock: Arc<dyn Clock>,
        progress: broadcast::Sender<Progress>,
    ) -> Result<Self, PhaseError> {
        let run = claimed.run.clone();
        let entries: Vec<_> = journal::list(db, &run).await?.into_iter().map(outside).collect();
        if let Some(other) = entries.last().and_then(key_id).filter(|key| *key != signer.key_id()) {
            return Err(PhaseError::OtherKey(other));
        }
        let kept = store::receipts::list(db, &run).await?;
        let receipts: Vec<_> = kept.into_iter().map(|kept| (outside(kept.signed), kept.diff)).collect();
        let journal = Journal::resume(*run.chain().as_bytes(), &entries)?;
        let signed: Vec<_> = receipts.iter().map(|(signed, _)| signed.clone()).collect();
        let chain = if signed.is_empty() { None } else { Some(RunChain::resume(&signed)?) };
        let steps = steps::list(db, &run).await?;
        let (db, fence, phase) = (db.clone(), claimed.fence, Phase::Provision);
        Ok(Self { db, run, fence, signer, clock, progress, journal, entries, chain, receipts, steps, phase })
    }

    /// The steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The signed lines so far.
    pub fn entries(&self) -> &[receipts::Signed] {
        &self.entries
    }

    /// The receipts so far, each with the digest of its diff.
    pub fn receipts(&self) -> &[(receipts::Signed, Option<Digest>)] {
        &self.receipts
    }

    /// The run's launches.
    pub async fn launches(&self) -> Result<Vec<Launch>, PhaseError> {
        Ok(launches::list(&self.db, &self.run).await?)
    }

    /// Tells those who watch.
    pub fn tell(&self, what: Happening) {
        // Nobody watching is no fault.
        let _ = self.progress.send(Progress { run: self.run.clone(), at: self.clock.now(), what });
    }

    /// Opens journal and chain, where that was not done before.
    pub async fn open(&mut self, claimed: &Claimed) -> Result<(), PhaseError> {
        if self.chain.is_some() {
            return self.close_lost_launch().await;
        }
        let job = *claimed.job_id.digest().as_bytes();
        let now = self.now();
        let mut lines = vec![
            self.entry(Kind::Plan, "plan", job)?,
            self.entry(Kind::Admit, &format!("admit {}", claimed.job.request.origin), job)?,
        ];
        let actor = asker(&claimed.job);
        let open = Open {
            run: *self.run.chain().as_bytes(),
            actor: &actor,
            reason: &format!("asked by {}", claimed.job.request.origin),
            as_of: stamp(claimed.created_at.min(now)),
            issued_at: stamp(now),
            job,
            base: claimed.job.head.as_str(),
        };
        let (chain, signed) = RunChain::open(&self.signer, &open)?;
        self.chain = Some(chain);
        lines.push(self.receipt(ReceiptKind::Open, signed, None));
        self.write(lines).await
    }

    /// A launch that was given up, or whose result was established, is closed in the journal too.
    async fn close_lost_launch(&mut self) -> Result<(), PhaseError> {
        use jobs::launch::LaunchState;
        let open = matches!(self.journal.last(), Some(Kind::Intent | Kind::Launched));
        let launches = self.launches().await?;
        let Some(launch) = launches.last().filter(|_| open) else { return Ok(()) };
        let lines = match &launch.state {
            LaunchState::Adopted { proposal } => {
                let mut lines = Vec::new();
                if self.journal.last() == Some(Kind::Intent) {
                    let intent = self.last_digest(Kind::Intent).unwrap_or_default();
                    lines.push(self.entry(Kind::Launched, launch.id.as_str(), intent)?);
                }
                lines.push(self.entry(Kind::Exited, launch.id.as_str(), body_of(*proposal))?);
                lines
            }
            LaunchState::Abandoned { .. } | LaunchState::Uncertain => {
                vec![self.entry(Kind::Lost, launch.id.as_str(), *launch.input.as_bytes())?]
            }
            LaunchState::Intended | LaunchState::Started | LaunchState::Settled { .. } => Vec::new(),
        };
        self.write(lines).await
    }

    /// Enters the phase that a step belongs to.
    pub async fn enter(&mut self, phase: Phase) -> Result<(), PhaseError> {
        if self.phase != phase && self.phase.may_enter(phase) {
            runs::enter(&self.db, &self.run, self.fence, phase, self.now()).await?;
            self.phase = phase;
        }
        Ok(())
    }

    /// Records that a step begins.
    pub async fn begin(&mut self, kind: StepKind, iteration: u32) -> Result<(), PhaseError> {
        let phase = phase_of(kind, iteration);
        self.enter(phase).await?;
        self.tell(Happening::Begun { phase, step: kind, iteration });
        let line = self.step(kind, iteration, StepState::Begun)?;
        self.write(vec![line]).await
    }

    /// Records what a step left.
    pub async fn done(&mut self, kind: StepKind, iteration: u32, output: Output) -> Result<(), PhaseError> {
        let lines = match &output {
            // An entry of its own, so that the report can be held against the journal without the other rows.
            Output::Bootstrapped { seal, .. } => {
                vec![self.entry(Kind::Step, SEAL_REPORT, *seal.digest().as_bytes())?]
            }
            Output::Provisioned { .. }
            | Output::Navigated { .. }
            | Output::Baseline { .. }
            | Output::Proposed { .. }
            | Output::Applied { .. }
            | Output::Verified { .. }
            | Output::Governed { .. } => Vec::new(),
        };
        self.done_with(kind, iteration, output, lines).await
    }

    /// What the run's container could and could not do; `None` before it was sealed.
    pub fn seal_report(&self) -> Option<&SealReport> {
        seal_report(&self.steps)
    }

    async fn done_with(
        &mut self,
        kind: StepKind,
        iteration: u32,
        output: Output,
        mut lines: Vec<Line>,
    ) -> Result<(), PhaseError> {
        let summary = super::summary::of(&output);
        lines.push(self.step(kind, iteration, StepState::Done { output: Box::new(output) })?);
        self.write(lines).await?;
        self.tell(Happening::Done { phase: phase_of(kind, iteration), step: kind, iteration, summary });
        Ok(())
    }

    /// Records that a step failed.
    pub async fn failed(&mut self, kind: StepKind, iteration: u32, error: &str) -> Result<(), PhaseError> {
        let error = error.chars().take(4000).collect::<String>();
        let line = self.step(kind, iteration, StepState::Failed { error: error.clone() })?;
        self.write(vec![line]).await?;
        self.tell(Happening::Failed { phase: phase_of(kind, iteration), step: kind, iteration, error });
        Ok(())
    }

    /// Makes the intent to start an agent durable. Gives the intent's digest, which the agent is told.
    pub async fn intend(
        &mut self,
        id: &LaunchId,
        iteration: u32,
        agent: &str,
        input: Digest,
    ) -> Result<Digest, PhaseError> {
        let line = self.entry(Kind::Intent, id.as_str(), *input.as_bytes())?;
        let Line::Entry(entry) = line else { return Err(PhaseError::internal("an intent is an entry")) };
        let intent = entry.digest();
        let launch =
            NewLaunch { id: id.clone(), iteration, agent: agent.to_owned(), input, entry, at: self.now() };
        launches::intend(&self.db, &self.run, self.fence, launch).await?;
        Ok(intent)
    }

    /// Records that the agent is being started.
    pub async fn launched(&mut self, id: &LaunchId, intent: Digest) -> Result<(), PhaseError> {
        let entry = self.signed(Kind::Launched, id.as_str(), *intent.as_bytes())?;
        let change = self.change(id, &entry);
        Ok(launches::start(&self.db, change).await?)
    }

    /// Records the agent's result.
    pub async fn exited(
        &mut self,
        id: &LaunchId,
        proposal: Option<Digest>,
        tokens: u64,
    ) -> Result<(), PhaseError> {
        let entry = self.signed(Kind::Exited, id.as_str(), body_of(proposal))?;
        let change = self.change(id, &entry);
        Ok(launches::settle(&self.db, change, proposal, tokens).await?)
    }

    /// Records that it is not known whether the agent ran to its end.
    pub async fn lost(&mut self, id: &LaunchId, input: Digest) -> Result<(), PhaseError> {
        let entry = self.signed(Kind::Lost, id.as_str(), *input.as_bytes())?;
        let change = self.change(id, &entry);
        Ok(launches::uncertain(&self.db, change).await?)
    }

    fn change<'a>(&'a self, launch: &'a LaunchId, entry: &'a Signed) -> launches::Change<'a> {
        launches::Change { run: &self.run, fence: self.fence, launch, entry, now: self.now() }
    }

    /// Records one applied change: candidate, its examination, the leave to apply it, the change itself
    /// and its receipt, all or nothing.
    pub async fn applied(
        &mut self,
        iteration: u32,
        actor: &str,
        changeset: &Changeset,
        examined: &str,
        output: Output,
    ) -> Result<(), PhaseError> {
        let phase = phase_of(StepKind::Apply, iteration);
        self.enter(phase).await?;
        self.tell(Happening::Begun { phase, step: StepKind::Apply, iteration });
        let patch = changeset.patch_digest();
        let body = *patch.as_bytes();
        let as_of = self.known_at();
        let mut lines = vec![self.step(StepKind::Apply, iteration, StepState::Begun)?];
        lines.push(self.entry(Kind::Candidate, &format!("candidate of iteration {iteration}"), body)?);
        lines.push(self.entry(Kind::Check, examined, body)?);
        lines.push(self.entry(Kind::Authorise, "within the admitted bounds", body)?);
        let authorised = self.journal.head();
        lines.push(self.entry(Kind::Applied, &format!("applied in iteration {iteration}"), body)?);
        let now = self.now();
        let reason = format!("iteration {iteration}: {examined}");
        let apply = Apply {
            actor,
            reason: &reason,
            as_of: stamp(as_of.min(now)),
            issued_at: stamp(now),
            diff: &changeset.patch,
            journal_ref: authorised,
            tree_before: changeset.tree_before.as_str(),
            tree_after: changeset.tree_after.as_str(),
        };
        let signer = Arc::clone(&self.signer);
        let chain = self.chain.as_mut().ok_or_else(|| PhaseError::internal("the chain is not open"))?;
        let signed = chain.apply(&signer, &apply)?;
        lines.push(self.receipt(ReceiptKind::Apply, signed, Some(patch)));
        self.done_with(StepKind::Apply, iteration, output, lines).await
    }

    /// When the last check was read: what a decision rests on.
    fn known_at(&self) -> Millis {
        let checked = |step: &&Step| match (step.kind, &step.state) {
            (StepKind::Baseline | StepKind::Verify, StepState::Done { .. }) => true,
            (_, StepState::Begun | StepState::Done { .. } | StepState::Failed { .. }) => false,
        };
        self.steps.iter().rev().find(checked).map_or_else(|| self.now(), |step| step.at)
    }

    /// Signs the seals of journal and chain. Nothing is stored yet: the bundle comes first.
    pub fn seal(&mut self, tree_after: &TreeId, outcome: Outcome) -> Result<Settlement, PhaseError> {
        let now = self.now();
        let as_of = self.known_at().min(now);
        let word = match &outcome {
            Outcome::Succeeded => SealOutcome::Succeeded,
            Outcome::Failed { .. } => SealOutcome::Failed,
            Outcome::Halted { .. } => SealOutcome::Halted,
        };
        let body = Digest::of(outcome.name());
        let entry = self.signed(Kind::Seal, outcome.name(), *body.as_bytes())?;
        let seal = Seal {
            actor: RUNNER,
            reason: &self.reason_of_end(&outcome),
            as_of: stamp(as_of),
            issued_at: stamp(now),
            tree_after: tree_after.as_str(),
            journal_head: self.journal.head(),
            outcome: word,
        };
        let signer = Arc::clone(&self.signer);
        let chain = self.chain.as_mut().ok_or_else(|| PhaseError::internal("the chain is not open"))?;
        let signed = chain.seal(&signer, &seal)?;
        let receipt = self.new_receipt(ReceiptKind::Seal, signed, None);
        let (run, fence) = (self.run.clone(), self.fence);
        Ok(Settlement { run, fence, outcome, entry, receipts: vec![receipt], now })
    }

    /// The outcome in words, and the report by which one knows what the code that was run could reach.
    fn reason_of_end(&self, outcome: &Outcome) -> String {
        /// Of the words, so that the digest behind them is never cut off.
        const MOST: usize = 220;
        let words: String = super::summary::of_outcome(outcome).chars().take(MOST).collect();
        match self.seal_report() {
            Some(report) => format!("{words}; {SEAL_REPORT} sha256:{}", report.digest()),
            None => words,
        }
    }

    fn step(&mut self, kind: StepKind, iteration: u32, state: StepState) -> Result<Line, PhaseError> {
        let (word, body) = match &state {
            StepState::Begun => ("begun", Digest::of("begun")),
            StepState::Done { output } => {
                let text = serde_json::to_vec(output)
                    .map_err(|error| PhaseError::internal(&format!("cannot write a step: {error}")))?;
                ("done", Digest::of(text))
            }
            StepState::Failed { error } => ("failed", Digest::of(error)),
        };
        let subject = format!("{} {iteration} {word}", kind.name());
        let entry = self.signed(Kind::Step, &subject, *body.as_bytes())?;
        Ok(Line::Step(NewStep { kind, iteration, state, entry, at: self.now() }))
    }

    fn entry(&mut self, kind: Kind, subject: &str, body: [u8; 32]) -> Result<Line, PhaseError> {
        Ok(Line::Entry(self.signed(kind, subject, body)?))
    }

    fn signed(&mut self, kind: Kind, subject: &str, body: [u8; 32]) -> Result<Signed, PhaseError> {
        let entry = Entry { kind, at: stamp(self.now()), subject, body };
        let signed = self.journal.append(&self.signer, &entry)?;
        self.entries.push(signed.clone());
        Ok(inside(signed))
    }

    fn receipt(&mut self, kind: ReceiptKind, signed: receipts::Signed, diff: Option<Digest>) -> Line {
        Line::Receipt(self.new_receipt(kind, signed, diff))
    }

    fn new_receipt(
        &mut self,
        kind: ReceiptKind,
        signed: receipts::Signed,
        diff: Option<Digest>,
    ) -> NewReceipt {
        self.receipts.push((signed.clone(), diff));
        NewReceipt { kind, signed: inside(signed), diff }
    }

    async fn write(&mut self, lines: Vec<Line>) -> Result<(), PhaseError> {
        if lines.is_empty() {
            return Ok(());
        }
        let places = steps::record(&self.db, &self.run, self.fence, &lines, self.now()).await?;
        let recorded = lines.into_iter().filter_map(|line| match line {
            Line::Step(step) => Some(step),
            Line::Entry(_) | Line::Receipt(_) => None,
        });
        for (step, seq) in recorded.zip(places) {
            let NewStep { kind, iteration, state, at, .. } = step;
            self.steps.push(Step { seq, kind, iteration, state, at });
        }
        Ok(())
    }

    /// Digest of the last entry of a kind.
    fn last_digest(&self, kind: Kind) -> Option<[u8; 32]> {
        let is = |entry: &&receipts::Signed| {
            serde_json::from_slice::<serde_json::Value>(&entry.bytes)
                .is_ok_and(|read| read.get("kind").and_then(|word| word.as_str()) == Some(kind.name()))
        };
        self.entries.iter().rev().find(is).map(receipts::Signed::digest)
    }

    /// The present time.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }
}

/// The key that signed a line, as the line names it.
fn key_id(signed: &receipts::Signed) -> Option<String> {
    let read: serde_json::Value = serde_json::from_slice(&signed.bytes).ok()?;
    read.get("key_id")?.as_str().map(str::to_owned)
}

/// The report of the last installation among a run's steps.
pub fn seal_report(steps: &[Step]) -> Option<&SealReport> {
    steps.iter().rev().find_map(|step| match &step.state {
        StepState::Done { output } => match output.as_ref() {
            Output::Bootstrapped { seal, .. } => Some(seal),
            Output::Provisioned { .. }
            | Output::Navigated { .. }
            | Output::Baseline { .. }
            | Output::Proposed { .. }
            | Output::Applied { .. }
            | Output::Verified { .. }
            | Output::Governed { .. } => None,
        },
        StepState::Begun | StepState::Failed { .. } => None,
    })
}

/// The decision before the first edit belongs to it, not to a repair.
fn phase_of(kind: StepKind, iteration: u32) -> Phase {
    match (kind, iteration) {
        (StepKind::Govern, 0) => Phase::Edit,
        (kind, iteration) => kind.phase(iteration),
    }
}

fn body_of(proposal: Option<Digest>) -> [u8; 32] {
    proposal.map_or([0; 32], |digest| *digest.as_bytes())
}

fn stamp(at: Millis) -> Timestamp {
    Timestamp::from_unix(at.div_euclid(1000))
}

/// A stored line as the receipts crate takes it.
pub fn outside(signed: Signed) -> receipts::Signed {
    receipts::Signed { bytes: signed.bytes, signature: signed.signature }
}

fn inside(signed: receipts::Signed) -> Signed {
    Signed { bytes: signed.bytes, signature: signed.signature }
}

/// The account that asked, as a receipt names it.
fn asker(job: &JobSpec) -> String {
    format!("{}:user/{}", job.repository.forge.name(), job.request.actor.id)
}
