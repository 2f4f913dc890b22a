//! Anthropic's Messages: the request, and the events of its stream
//! (<https://docs.anthropic.com/en/api/messages-streaming>).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::conversation::{Call, CallResult, Reply, Stop, StreamFault, ToolSpec, Turn, Usage, arguments};

/// The version of the API that this is written against.
pub const VERSION: &str = "2023-06-01";

/// The body of a request.
pub fn request(model: &str, max_output: u64, system: &str, tools: &[ToolSpec], turns: &[Turn]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters }))
        .collect();
    let mut messages: Vec<Value> = turns.iter().map(message).collect();
    // What went before is the same in the next request: the provider may keep it.
    if let Some(last) = messages.last_mut().and_then(|message| message["content"].as_array_mut())
        && let Some(block) = last.last_mut()
    {
        block["cache_control"] = json!({ "type": "ephemeral" });
    }
    json!({
        "model": model,
        "max_tokens": max_output,
        "stream": true,
        "system": [{ "type": "text", "text": system, "cache_control": { "type": "ephemeral" } }],
        "tools": tools,
        "messages": messages,
    })
}

fn message(turn: &Turn) -> Value {
    match turn {
        Turn::Said(text) => json!({ "role": "user", "content": [{ "type": "text", "text": text }] }),
        Turn::Replied(content) => json!({ "role": "assistant", "content": content }),
        Turn::Answered(answers) => {
            let blocks: Vec<Value> = answers
                .iter()
                .map(|answer| {
                    json!({
                        "type": "tool_result",
                        "tool_use_id": answer.call,
                        "content": answer.content,
                        "is_error": answer.result == CallResult::Refused,
                    })
                })
                .collect();
            json!({ "role": "user", "content": blocks })
        }
    }
}

/// What has been read of one stream.
#[derive(Debug, Default)]
pub struct Stream {
    blocks: BTreeMap<u64, Block>,
    stop: Option<String>,
    usage: Usage,
    ended: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// Something else that must be given back as it came.
    Other(Value),
}

impl Stream {
    /// Takes one event's data.
    pub fn event(&mut self, data: &Value) -> Result<(), StreamFault> {
        match data["type"].as_str().unwrap_or("") {
            "message_start" => self.count(&data["message"]["usage"]),
            "content_block_start" => {
                let block = &data["content_block"];
                let text = |name: &str| block[name].as_str().unwrap_or("").to_owned();
                let block = match block["type"].as_str().unwrap_or("") {
                    "text" => Block::Text(text("text")),
                    "tool_use" => Block::Call { id: text("id"), name: text("name"), input: String::new() },
                    _ => Block::Other(block.clone()),
                };
                self.blocks.insert(data["index"].as_u64().unwrap_or(0), block);
            }
            "content_block_delta" => self.delta(data["index"].as_u64().unwrap_or(0), &data["delta"]),
            "message_delta" => {
                if let Some(stop) = data["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                }
                self.count(&data["usage"]);
            }
            "message_stop" => self.ended = true,
            "error" => return Err(fault(&data["error"])),
            // The API says that kinds of events may be added; `ping` is one that says nothing.
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &Value) {
        let added = |name: &str| delta[name].as_str().unwrap_or("");
        match self.blocks.get_mut(&index) {
            Some(Block::Text(text)) => text.push_str(added("text")),
            Some(Block::Call { input, .. }) => input.push_str(added("partial_json")),
            Some(Block::Other(block)) => {
                for name in ["thinking", "signature", "data"] {
                    if let Some(more) = delta[name].as_str() {
                        let whole = format!("{}{more}", block[name].as_str().unwrap_or(""));
                        block[name] = Value::String(whole);
                    }
                }
            }
            None => {}
        }
    }

    /// Counts are running totals; the last one of each kind stands.
    fn count(&mut self, usage: &Value) {
        let of = |name: &str| usage[name].as_u64();
        let input = [of("input_tokens"), of("cache_creation_input_tokens"), of("cache_read_input_tokens")];
        if input.iter().any(Option::is_some) {
            let input = input.iter().flatten().fold(0, |sum: u64, part| sum.saturating_add(*part));
            self.usage.input = self.usage.input.max(input);
        }
        if let Some(output) = of("output_tokens") {
            self.usage.output = self.usage.output.max(output);
        }
    }

    /// What was counted so far, also of a stream that was cut.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The whole reply.
    pub fn finish(self) -> Result<Reply, StreamFault> {
        if !self.ended {
            return Err(StreamFault::Cut("there was no message_stop".to_owned()));
        }
        let (mut said, mut calls, mut echo) = (String::new(), Vec::new(), Vec::new());
        for block in self.blocks.into_values() {
            match block {
                Block::Text(text) if text.trim().is_empty() => {}
                Block::Text(text) => {
                    said.push_str(&text);
                    echo.push(json!({ "type": "text", "text": text }));
                }
                Block::Call { id, name, input } => {
                    let input = arguments(&input);
                    let given = input.clone().unwrap_or_else(|_| json!({}));
                    echo.push(json!({ "type": "tool_use", "id": id, "name": name, "input": given }));
                    calls.push(Call { id, name, input });
                }
                Block::Other(block) => echo.push(block),
            }
        }
        if echo.is_empty() {
            // A message without content is refused when it is given back.
            echo.push(json!({ "type": "text", "text": "(nothing)" }));
        }
        let stop = match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
            Some("refusal") => Stop::Refused(said.clone()),
            Some(_) | None => Stop::Ended,
        };
        Ok(Reply { text: said, calls, stop, usage: self.usage, echo: Value::Array(echo) })
    }
}

fn fault(error: &Value) -> StreamFault {
    let message = error["message"].as_str().unwrap_or("no reason given").to_owned();
    match error["type"].as_str().unwrap_or("") {
        "overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error" => {
            StreamFault::Overloaded(message)
        }
        _ => StreamFault::Rejected(message),
    }
}
