//! libtest's own JSON lines, which nightly and nextest can print.

use serde::Deserialize;

use super::blocks::{Block, Outcome, Run, Stated};

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    stdout: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    test_count: Option<u64>,
    #[serde(default)]
    passed: u64,
    #[serde(default)]
    failed: u64,
    #[serde(default)]
    ignored: u64,
    #[serde(default)]
    measured: u64,
    #[serde(default)]
    filtered_out: u64,
}

/// Adds a block for each suite that the stream tells of.
pub(super) fn parse(stdout: &[u8], run: &mut Run) {
    let mut open: Option<Block> = None;
    for line in stdout.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Event>(&String::from_utf8_lossy(line)) else { continue };
        match (event.kind.as_str(), event.event.as_str()) {
            ("suite", "started") => {
                run.blocks.extend(open.take());
                open = Some(Block { announced: event.test_count.unwrap_or_default(), ..Block::default() });
            }
            ("suite", word @ ("ok" | "failed")) => {
                let mut block = open.take().unwrap_or_default();
                let ok = if word == "ok" { Stated::Ok } else { Stated::Failed };
                block.result = Some(Outcome {
                    ok,
                    passed: event.passed,
                    failed: event.failed,
                    ignored: event.ignored,
                    measured: event.measured,
                    filtered: event.filtered_out,
                });
                run.blocks.push(block);
            }
            ("test", word) => {
                if let (Some(block), Some(name)) = (&mut open, &event.name) {
                    take_test(block, name, word, &event);
                }
            }
            _ => {}
        }
    }
    run.blocks.extend(open);
}

fn take_test(block: &mut Block, name: &str, word: &str, event: &Event) {
    match word {
        "started" => block.begun = Some(name.to_owned()),
        "ok" => block.state(name, Stated::Ok),
        "ignored" => block.state(name, Stated::Ignored),
        "failed" | "timeout" => {
            if block.tests.get(name) != Some(&Stated::Failed) {
                block.failed_names.push(name.to_owned());
            }
            block.state(name, Stated::Failed);
            for line in event.stdout.as_deref().unwrap_or_default().lines().take(60) {
                block.add_story(name, line);
            }
            if let Some(message) = &event.message {
                for line in format!("note: {message}").lines().take(20) {
                    block.add_story(name, line);
                }
            }
        }
        _ => {}
    }
}
