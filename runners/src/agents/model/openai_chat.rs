//! OpenAI's chat completions, which many servers speak: the request, and the chunks of its stream
//! (<https://platform.openai.com/docs/api-reference/chat-streaming>).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::conversation::{Call, Reply, Stop, StreamFault, ToolSpec, Turn, Usage, arguments};

/// The body of a request.
pub fn request(model: &str, max_output: u64, system: &str, tools: &[ToolSpec], turns: &[Turn]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let function =
                json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
            json!({ "type": "function", "function": function })
        })
        .collect();
    let mut messages = vec![json!({ "role": "system", "content": system })];
    for turn in turns {
        match turn {
            Turn::Said(text) => messages.push(json!({ "role": "user", "content": text })),
            Turn::Replied(message) => messages.push(message.clone()),
            Turn::Answered(answers) => messages.extend(answers.iter().map(
                |answer| json!({ "role": "tool", "tool_call_id": answer.call, "content": answer.content }),
            )),
        }
    }
    json!({
        "model": model,
        "max_completion_tokens": max_output,
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": tools,
        "messages": messages,
    })
}

/// What has been read of one stream.
#[derive(Debug, Default)]
pub struct Stream {
    text: String,
    refusal: String,
    calls: BTreeMap<u64, Parts>,
    finish: Option<String>,
    usage: Usage,
    ended: bool,
}

#[derive(Debug, Default)]
struct Parts {
    id: String,
    name: String,
    arguments: String,
}

impl Stream {
    /// The stream's last line.
    pub const DONE: &'static str = "[DONE]";

    /// Takes the last line.
    pub fn done(&mut self) {
        self.ended = true;
    }

    /// Takes one chunk.
    pub fn event(&mut self, data: &Value) -> Result<(), StreamFault> {
        if !data["error"].is_null() {
            return Err(fault(&data["error"]));
        }
        if let Some(usage) = data["usage"].as_object() {
            let of = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
            self.usage = Usage { input: of("prompt_tokens"), output: of("completion_tokens") };
        }
        let Some(choice) = data["choices"].get(0) else { return Ok(()) };
        let delta = &choice["delta"];
        self.text.push_str(delta["content"].as_str().unwrap_or(""));
        self.refusal.push_str(delta["refusal"].as_str().unwrap_or(""));
        for (place, part) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let call = self.calls.entry(part["index"].as_u64().unwrap_or(place as u64)).or_default();
            let function = &part["function"];
            if let Some(id) = part["id"].as_str().filter(|id| !id.is_empty()) {
                call.id = id.to_owned();
            }
            call.name.push_str(function["name"].as_str().unwrap_or(""));
            call.arguments.push_str(function["arguments"].as_str().unwrap_or(""));
        }
        if let Some(finish) = choice["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }

    /// What was counted so far, also of a stream that was cut.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The whole reply. Some servers end without the last line once they have told why they stop.
    pub fn finish(self) -> Result<Reply, StreamFault> {
        let Some(finish) = self.finish else {
            let seen = if self.ended { "it told no finish_reason" } else { "there was no [DONE]" };
            return Err(StreamFault::Cut(seen.to_owned()));
        };
        let (mut calls, mut given) = (Vec::new(), Vec::new());
        for (index, parts) in self.calls {
            let id = if parts.id.is_empty() { format!("call_{index}") } else { parts.id };
            let input = arguments(&parts.arguments);
            // Some servers refuse a conversation whose arguments cannot be read.
            let text = if input.is_ok() && !parts.arguments.trim().is_empty() {
                parts.arguments.as_str()
            } else {
                "{}"
            };
            let function = json!({ "name": parts.name, "arguments": text });
            given.push(json!({ "id": id, "type": "function", "function": function }));
            calls.push(Call { id, name: parts.name, input });
        }
        let mut echo = json!({ "role": "assistant", "content": self.text });
        if !given.is_empty() {
            echo["tool_calls"] = Value::Array(given);
        }
        let stop = match finish.as_str() {
            "length" => Stop::Length,
            "content_filter" => Stop::Refused("the provider's filter stopped the reply".to_owned()),
            _ if !self.refusal.is_empty() => Stop::Refused(self.refusal),
            _ => Stop::Ended,
        };
        Ok(Reply { text: self.text, calls, stop, usage: self.usage, echo })
    }
}

/// An error within a stream, which this protocol and its sibling write alike.
pub(super) fn fault(error: &Value) -> StreamFault {
    let message = error["message"].as_str().unwrap_or("no reason given").to_owned();
    let kind = error["type"].as_str().or_else(|| error["code"].as_str()).unwrap_or("");
    let busy = ["server_error", "rate_limit", "overloaded", "timeout", "unavailable"];
    if busy.iter().any(|word| kind.contains(word)) {
        StreamFault::Overloaded(message)
    } else {
        StreamFault::Rejected(message)
    }
}
