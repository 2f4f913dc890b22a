//! A scripted provider on loopback that speaks the three protocols, and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use runners::agents::model::{Profile, Protocol};
use secrecy::SecretString;
use serde_json::{Value, json};

/// The key that a test looks for where it must not be.
pub const KEY: &str = "sk-test-3f1c9a77e0";

/// One answer of the script.
#[derive(Clone, Debug)]
pub enum Scripted {
    /// A reply in words, which ends the conversation.
    Says(&'static str),
    /// One call of a tool, its arguments as the model writes them.
    Calls(&'static str, String),
    /// A status with headers; its body is an error in the protocol's form.
    Status(u16, &'static [(&'static str, &'static str)]),
    /// A reply that is cut after its first event.
    Cut,
    /// An error within the stream.
    Overloaded,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<String>,
    pub body: Value,
}

pub struct Provider {
    protocol: Protocol,
    address: std::net::SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: Option<JoinHandle<()>>,
}

impl Provider {
    /// Serves the script's answers in turn, and its last one again and again.
    pub fn new(protocol: Protocol, script: Vec<Scripted>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let Some(request) = read(&stream) else { return };
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request);
                    seen.len() - 1
                };
                let answer = script.get(number).or(script.last()).cloned().unwrap();
                // A client that went away is no fault of the script.
                let _ = stream.write_all(&answer_of(protocol, &answer, number));
            }
        });
        Self { protocol, address, asked, serving: Some(serving) }
    }

    pub fn profile(&self) -> Profile {
        Profile {
            protocol: self.protocol,
            model: "stand-in".to_owned(),
            base_url: format!("http://{}/v1", self.address).parse().unwrap(),
            key: Some(SecretString::from(KEY)),
            headers: std::collections::BTreeMap::new(),
            max_output_tokens: 1000,
            context_tokens: 20_000,
        }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // A connection without a request ends the thread.
        drop(TcpStream::connect(self.address));
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap();
        }
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap() == 0 {
        return None;
    }
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let header = header.trim_end().to_owned();
        if header.is_empty() {
            break;
        }
        headers.push(header);
    }
    let length = headers
        .iter()
        .find_map(|header| {
            header.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
        })
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Some(Asked { path, headers, body: serde_json::from_slice(&body).unwrap() })
}

fn answer_of(protocol: Protocol, answer: &Scripted, number: usize) -> Vec<u8> {
    let (status, headers, body) = match answer {
        Scripted::Status(status, headers) => {
            let error = json!({ "type": "error", "error": { "type": "some_error", "message": "not now" } });
            (*status, *headers, error.to_string())
        }
        Scripted::Says(text) => (200, &[][..], events(&says(protocol, text))),
        Scripted::Calls(name, arguments) => (200, &[][..], events(&calls(protocol, number, name, arguments))),
        Scripted::Cut => (200, &[][..], events(&says(protocol, "never whole")[..1])),
        Scripted::Overloaded => {
            let error =
                json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
            (200, &[][..], events(&[error]))
        }
    };
    let kind = if status == 200 { "text/event-stream" } else { "application/json" };
    let mut text = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    text.into_bytes()
}

fn events(events: &[Value]) -> String {
    let line = |event: &Value| match event {
        Value::String(text) => format!("data: {text}\n\n"),
        event => match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        },
    };
    events.iter().map(line).collect()
}

fn says(protocol: Protocol, text: &str) -> Vec<Value> {
    match protocol {
        Protocol::Anthropic => anthropic(
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        Protocol::OpenAiChat => chat(json!({ "role": "assistant", "content": text }), "stop"),
        Protocol::OpenAiResponses => responses(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        })),
    }
}

fn calls(protocol: Protocol, number: usize, name: &str, arguments: &str) -> Vec<Value> {
    let id = format!("call_{number}");
    match protocol {
        Protocol::Anthropic => anthropic(
            json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments }),
            "tool_use",
        ),
        Protocol::OpenAiChat => {
            let function = json!({ "name": name, "arguments": arguments });
            let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
            chat(json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
        }
        Protocol::OpenAiResponses => responses(json!({
            "type": "function_call", "id": format!("fc_{number}"), "call_id": id, "name": name,
            "arguments": arguments, "status": "completed",
        })),
    }
}

fn anthropic(block: Value, delta: Value, stop: &str) -> Vec<Value> {
    vec![
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 90, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 10 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn chat(delta: Value, finish: &str) -> Vec<Value> {
    vec![
        json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] }),
        json!({ "choices": [], "usage": { "prompt_tokens": 90, "completion_tokens": 10 } }),
        Value::String("[DONE]".to_owned()),
    ]
}

fn responses(item: Value) -> Vec<Value> {
    vec![
        json!({ "type": "response.created", "response": {} }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": {
            "output": [item], "usage": { "input_tokens": 90, "output_tokens": 10 },
        } }),
    ]
}
