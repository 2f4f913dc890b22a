//! OpenAI's responses: the request, and the events of its stream
//! (<https://platform.openai.com/docs/api-reference/responses-streaming>).
//!
//! Nothing is kept at the provider: each request carries the whole conversation, reasoning in its
//! encrypted form included.

use serde_json::{Value, json};

use super::conversation::{Call, Reply, Stop, StreamFault, ToolSpec, Turn, Usage, arguments};
use super::openai_chat;

/// The body of a request.
pub fn request(model: &str, max_output: u64, system: &str, tools: &[ToolSpec], turns: &[Turn]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": false,
            })
        })
        .collect();
    let mut input = Vec::new();
    for turn in turns {
        match turn {
            Turn::Said(text) => input.push(json!({
                "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }],
            })),
            Turn::Replied(items) => input.extend(items.as_array().into_iter().flatten().cloned()),
            Turn::Answered(answers) => input.extend(answers.iter().map(|answer| {
                json!({ "type": "function_call_output", "call_id": answer.call, "output": answer.content })
            })),
        }
    }
    json!({
        "model": model,
        "max_output_tokens": max_output,
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "instructions": system,
        "tools": tools,
        "input": input,
    })
}

/// What has been read of one stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Items that were finished, for servers whose last event carries none.
    items: Vec<Value>,
    last: Option<Value>,
    usage: Usage,
}

impl Stream {
    /// Takes one event's data.
    pub fn event(&mut self, data: &Value) -> Result<(), StreamFault> {
        match data["type"].as_str().unwrap_or("") {
            "response.output_item.done" => self.items.push(data["item"].clone()),
            "response.completed" | "response.incomplete" => {
                let response = &data["response"];
                self.count(&response["usage"]);
                self.last = Some(response.clone());
            }
            "response.failed" => {
                self.count(&data["response"]["usage"]);
                return Err(openai_chat::fault(&data["response"]["error"]));
            }
            "error" => {
                let error = if data["error"].is_object() { &data["error"] } else { data };
                return Err(match openai_chat::fault(error) {
                    // The event's own type is `error`, which says nothing of its kind.
                    StreamFault::Rejected(why) if error["code"].is_null() => StreamFault::Overloaded(why),
                    other => other,
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, usage: &Value) {
        let of = |name: &str| usage[name].as_u64().unwrap_or(0);
        self.usage = Usage { input: of("input_tokens"), output: of("output_tokens") };
    }

    /// What was counted so far, also of a stream that was cut.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The whole reply.
    pub fn finish(self) -> Result<Reply, StreamFault> {
        let Some(last) = self.last else {
            return Err(StreamFault::Cut("there was no response.completed".to_owned()));
        };
        let items = match last["output"].as_array() {
            Some(items) if !items.is_empty() => items.clone(),
            Some(_) | None => self.items,
        };
        let (mut text, mut refusal, mut calls, mut echo) =
            (String::new(), String::new(), Vec::new(), Vec::new());
        for item in items {
            match item["type"].as_str().unwrap_or("") {
                "message" => {
                    for part in item["content"].as_array().into_iter().flatten() {
                        text.push_str(part["text"].as_str().unwrap_or(""));
                        refusal.push_str(part["refusal"].as_str().unwrap_or(""));
                    }
                    echo.push(item);
                }
                "function_call" => {
                    let of = |name: &str| item[name].as_str().unwrap_or("").to_owned();
                    let input = arguments(&of("arguments"));
                    let mut given = item.clone();
                    if input.is_err() {
                        given["arguments"] = Value::String("{}".to_owned());
                    }
                    calls.push(Call { id: of("call_id"), name: of("name"), input });
                    echo.push(given);
                }
                // Reasoning without its encrypted form cannot be given back where nothing is kept.
                "reasoning" if item["encrypted_content"].is_null() => {}
                _ => echo.push(item),
            }
        }
        let stop = match last["incomplete_details"]["reason"].as_str() {
            Some("max_output_tokens") => Stop::Length,
            Some(why) => Stop::Refused(why.to_owned()),
            None if !refusal.is_empty() => Stop::Refused(refusal),
            None => Stop::Ended,
        };
        Ok(Reply { text, calls, stop, usage: self.usage, echo: Value::Array(echo) })
    }
}
