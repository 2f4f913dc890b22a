//! The agent with a model: a conversation with tools, held in the runner.
//!
//! The keys and the loop stay here; the tools work on trees in memory, and checks run in sealed
//! containers. The model is asked for edits alone: whether they help is never its to say. Every bound of
//! the launch (tokens, time, requests) is held before a request is sent, so that none is passed by more
//! than one reply.

mod anthropic;
mod client;
mod conversation;
mod data;
mod openai_chat;
mod openai_responses;
mod profile;
mod prompt;
mod tools;

use std::time::Instant;

use async_trait::async_trait;

use super::{Agent, AgentError, Identity, Proposal, Task};
use client::{AskError, Client};
use conversation::{Stop, Turn, Usage};
use data::Marker;
use tools::Hands;

use crate::navigate::{MapAsk, tools as looking};

pub use profile::{Profile, Protocol, UnknownProtocol};
pub use tools::RunCheck;

/// Requests of one launch.
const MAX_REQUESTS: u32 = 80;
/// How often a model that was cut by the bound of one reply is asked to go on.
const MAX_CONTINUED: u32 = 3;
/// Answers that are never shortened: the last ones.
const FRESH_TURNS: usize = 6;
/// A token is at least this many bytes in most text; what is estimated is rather too many.
const BYTES_PER_TOKEN: u64 = 3;
/// What stands for an answer that was shortened away.
const ELIDED: &str = "[an earlier answer, left out; ask again for what you need of it]";

/// An agent of one model.
#[derive(Clone, Debug)]
pub struct Model {
    profile: Profile,
}

impl Model {
    /// The agent that talks with this model.
    pub fn new(profile: Profile) -> Self {
        Self { profile }
    }
}

#[async_trait]
impl Agent for Model {
    fn identity(&self) -> Identity {
        Identity {
            name: "model".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: Some(self.profile.model.clone()),
        }
    }

    async fn propose(&self, task: &Task<'_>) -> Result<Proposal, AgentError> {
        let client = Client::new(&self.profile)
            .map_err(|error| AgentError::NotStarted(crate::executor::whole(&error)))?;
        let marker = Marker::of(&task.launch.to_string(), task.intent);
        let system = prompt::system(&marker);
        let map = looking::repo_map(task.view, &MapAsk::default()).text;
        let first = prompt::task(task, &marker, Some(map.as_str()).filter(|map| !map.trim().is_empty()));
        let hands = Hands {
            tree: task.tree.clone(),
            view: task.view.clone(),
            checks: task.checks,
            run_check: task.run_check,
            marker,
        };
        let work = Work {
            task,
            client,
            context_bytes: self.profile.context_tokens.saturating_mul(BYTES_PER_TOKEN),
            system,
            turns: vec![Turn::Said(first)],
            hands,
            tokens: 0,
            ends: Instant::now() + task.time_left,
        };
        tokio::select! {
            () = task.cancel.cancelled() => Err(AgentError::refused("it was interrupted")),
            proposal = work.all() => proposal,
        }
    }
}

/// One launch under way.
struct Work<'t, 'a> {
    task: &'t Task<'a>,
    client: Client<'t>,
    context_bytes: u64,
    system: String,
    turns: Vec<Turn>,
    hands: Hands<'a>,
    tokens: u64,
    ends: Instant,
}

impl Work<'_, '_> {
    async fn all(mut self) -> Result<Proposal, AgentError> {
        let tools = tools::specs();
        let mut continued = 0;
        for request in 0..MAX_REQUESTS {
            self.shorten();
            if let Some(why) = self.bound() {
                return Ok(self.proposal(&why));
            }
            let left = self.ends.saturating_duration_since(Instant::now());
            let asked = match self.client.ask(&self.system, &tools, &self.turns, left).await {
                Ok(asked) => asked,
                Err(error) => return self.unanswered(request, &error),
            };
            self.tokens = self.tokens.saturating_add(self.cost(asked.usage, &asked.reply.echo));
            let reply = asked.reply;
            self.turns.push(Turn::Replied(reply.echo));
            if !reply.calls.is_empty() {
                let mut answers = Vec::with_capacity(reply.calls.len());
                for call in &reply.calls {
                    answers.push(self.hands.answer(call).await);
                }
                self.turns.push(Turn::Answered(answers));
                continue;
            }
            match reply.stop {
                Stop::Refused(why) => {
                    return Err(AgentError::Refused { why: data::bounded(&why, 1000), tokens: self.tokens });
                }
                Stop::Length if continued < MAX_CONTINUED => {
                    continued += 1;
                    let go_on = "Your reply was cut at the bound of one reply. Go on, in smaller steps.";
                    self.turns.push(Turn::Said(go_on.to_owned()));
                }
                Stop::Length | Stop::Ended => return Ok(self.proposal(&reply.text)),
            }
        }
        Ok(self.proposal(&format!("the launch's {MAX_REQUESTS} requests are spent")))
    }

    /// What came of it when the provider gave no reply: edits that stand are still a proposal.
    fn unanswered(self, request: u32, error: &AskError) -> Result<Proposal, AgentError> {
        let why = crate::executor::whole(error);
        if self.hands.tree.id() != self.task.tree.id() {
            return Ok(self.proposal(&why));
        }
        if request == 0 {
            Err(AgentError::NotStarted(why))
        } else {
            Err(AgentError::Refused { why, tokens: self.tokens })
        }
    }

    /// The budget that the next request would pass, if one would.
    fn bound(&self) -> Option<String> {
        let next = self.turns_bytes() / BYTES_PER_TOKEN;
        let budget = self.task.tokens_left;
        if self.tokens.saturating_add(next) >= budget {
            return Some(format!(
                "the launch's {budget} tokens are spent: {} used, about {next} for the next request",
                self.tokens
            ));
        }
        (Instant::now() >= self.ends).then(|| "the launch's time is spent".to_owned())
    }

    fn turns_bytes(&self) -> u64 {
        let size = |turn: &Turn| match turn {
            Turn::Said(text) => text.len(),
            Turn::Replied(value) => value.to_string().len(),
            Turn::Answered(answers) => answers.iter().map(|answer| answer.content.len()).sum(),
        };
        (self.system.len() + self.turns.iter().map(size).sum::<usize>()) as u64
    }

    /// Puts a word in the place of the oldest answers until a request is as small as the model wants it.
    fn shorten(&mut self) {
        let mut bytes = self.turns_bytes();
        let old = self.turns.len().saturating_sub(FRESH_TURNS);
        for turn in &mut self.turns[..old] {
            if bytes <= self.context_bytes {
                return;
            }
            let Turn::Answered(answers) = turn else { continue };
            for answer in answers {
                if answer.content.len() > ELIDED.len() {
                    bytes -= (answer.content.len() - ELIDED.len()) as u64;
                    answer.content = ELIDED.to_owned();
                }
            }
        }
    }

    /// The provider's own count, or an estimate where it gives none: a server that counts nothing must
    /// not be free.
    fn cost(&self, usage: Usage, echo: &serde_json::Value) -> u64 {
        match usage.total() {
            0 => (self.turns_bytes() + echo.to_string().len() as u64) / BYTES_PER_TOKEN,
            told => told,
        }
    }

    fn proposal(self, note: &str) -> Proposal {
        let changed = self.hands.tree.id() != self.task.tree.id();
        Proposal {
            after: changed.then_some(self.hands.tree),
            note: note.trim().to_owned(),
            tokens: self.tokens,
        }
    }
}
