//! A conversation with a model in no protocol's words, and one reply of it.

use serde_json::Value;

/// A tool as a model is told of it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// What a model asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The provider's, which its answer must name.
    pub id: String,
    pub name: String,
    /// The arguments, or why they are none.
    pub input: Result<Value, String>,
}

/// The answer to one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub call: String,
    pub content: String,
    pub result: CallResult,
}

/// Whether a call did what it asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallResult {
    Done,
    Refused,
}

/// One turn.
#[derive(Clone, Debug)]
pub enum Turn {
    /// What we say.
    Said(String),
    /// What the model replied, in the form that its protocol wants it back.
    Replied(Value),
    Answered(Vec<Answer>),
}

/// One whole reply.
#[derive(Clone, Debug)]
pub struct Reply {
    pub text: String,
    pub calls: Vec<Call>,
    pub stop: Stop,
    pub usage: Usage,
    /// The reply in its protocol's form.
    pub echo: Value,
}

/// Why a reply ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The model has said all it wants to, or waits for its calls' answers.
    Ended,
    /// It came to the bound of one reply.
    Length,
    /// It will not do this, in the provider's words.
    Refused(String),
}

/// Tokens of one reply, as the provider counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All of the input, what came from the provider's cache included.
    pub input: u64,
    pub output: u64,
}

impl Usage {
    /// Both together.
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Why a stream gave no reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamFault {
    /// It ended, or could not be read, before the reply was whole.
    #[error("the reply was cut off: {0}")]
    Cut(String),
    /// The provider says within the stream that it cannot serve now.
    #[error("the provider is overloaded: {0}")]
    Overloaded(String),
    /// The provider says within the stream that the request is wrong.
    #[error("{0}")]
    Rejected(String),
}

/// Reads a call's arguments; a model's damage is told to it, not guessed away.
pub fn arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err("the arguments are no JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are no JSON: {error}")),
    }
}
