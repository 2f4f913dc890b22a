//! TAP, versions 12 to 14: the generic reader for frameworks that print it.
//!
//! The plan is the witness: without it, or with another number of points than it says, nothing is concluded.

use jobs::verdict::{Counts, TestFailure, TestState};

use super::junit;
use super::reading::{Executed, Input, Reading};
use super::text;

const EXCERPT_LINES: usize = 60;

#[derive(Default)]
struct Stream {
    plan: Option<u64>,
    points: u64,
    failed: u64,
    passed: u64,
    skipped: u64,
    todo: u64,
    bail: Option<String>,
    /// The failing point whose lines are being read.
    open: Option<(String, Vec<String>)>,
}

/// Reads the TAP stream on stdout, or those in the check's report files where it names some.
pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    let mut totals = Stream::default();
    let files = input.files(|path| path.ends_with(".tap") || path.ends_with(".txt"));
    if files.is_empty() {
        take_stream(&mut reading, input, &input.stdout, &mut totals);
    }
    for (_, bytes) in files {
        take_stream(&mut reading, input, &text::clean(bytes), &mut totals);
    }
    reading.counts = Counts {
        passed: Some(totals.passed),
        failed: Some(totals.failed),
        skipped: Some(totals.skipped),
        errors: Some(0),
    };
    if totals.todo > 0 {
        reading.extra.insert("todo", totals.todo);
    }
    reading.executed = match totals.passed + totals.failed + totals.todo {
        0 if totals.plan.is_some() => Executed::Nothing,
        0 => Executed::Unknown,
        _ => Executed::Some,
    };
    reading
}

/// Reads one stream, which has one plan.
fn take_stream(reading: &mut Reading, input: &Input<'_>, text: &str, totals: &mut Stream) {
    let mut stream = Stream::default();
    for line in text.lines() {
        take_line(reading, input, &mut stream, line);
    }
    close(reading, input, &mut stream);
    if let Some(why) = stream.bail {
        reading.open(format!("the tests bailed out: {why}"));
    }
    match stream.plan {
        Some(plan) if plan != stream.points => {
            reading.open(format!("{plan} tests were planned and {} told", stream.points));
        }
        Some(_) => {}
        None => reading.open("no TAP plan was printed"),
    }
    totals.plan = totals.plan.or(stream.plan);
    totals.passed += stream.passed;
    totals.failed += stream.failed;
    totals.skipped += stream.skipped;
    totals.todo += stream.todo;
}

fn take_line(reading: &mut Reading, input: &Input<'_>, stream: &mut Stream, line: &str) {
    if let Some(rest) = line.strip_prefix("1..") {
        let (count, _) = text::leading_count(rest);
        if let (Some(count), None) = (count, stream.plan) {
            stream.plan = Some(count);
        } else if count != stream.plan {
            reading.open("two TAP plans differ");
        }
    } else if let Some(rest) = line.strip_prefix("Bail out!") {
        stream.bail = Some(text::cut(rest.trim(), 300));
    } else if let Some((ok, rest)) = point(line) {
        close(reading, input, stream);
        take_point(reading, stream, ok, rest);
    } else if let Some((_, lines)) = &mut stream.open {
        // YAML blocks and the output of subtests are indented.
        if (line.starts_with(' ') || line.starts_with('#')) && lines.len() < EXCERPT_LINES {
            lines.push(line.trim().to_owned());
        }
    }
}

/// `ok 1 - name` or `not ok 2 name # TODO why`.
fn point(line: &str) -> Option<(bool, &str)> {
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    (rest.is_empty() || rest.starts_with(' ')).then_some((ok, rest))
}

fn take_point(reading: &mut Reading, stream: &mut Stream, ok: bool, rest: &str) {
    stream.points += 1;
    let (_, rest) = text::leading_count(rest.trim_start());
    let (name, directive) = match rest.rsplit_once(" # ") {
        Some((name, directive)) => (name, directive.to_ascii_lowercase()),
        None => (rest, String::new()),
    };
    let name = name.trim().trim_start_matches("- ").trim();
    let name = if name.is_empty() { format!("test {}", stream.points) } else { name.to_owned() };
    if directive.starts_with("skip") {
        stream.skipped += 1;
        reading.distinct_test(&name, TestState::Skipped);
    } else if directive.starts_with("todo") {
        stream.todo += 1;
        reading.distinct_test(&name, TestState::ExpectedFailure);
    } else if ok {
        stream.passed += 1;
        reading.distinct_test(&name, TestState::Passed);
    } else {
        stream.failed += 1;
        let id = reading.distinct_test(&name, TestState::Failed);
        stream.open = Some((id, Vec::new()));
    }
}

fn close(reading: &mut Reading, input: &Input<'_>, stream: &mut Stream) {
    let Some((name, lines)) = stream.open.take() else { return };
    let text = lines.join("\n");
    let place = junit::place_in(&text);
    let said = lines.iter().find_map(|line| {
        ["message:", "error:"]
            .iter()
            .find_map(|key| line.strip_prefix(key))
            .map(|rest| rest.trim().trim_matches(['"', '\'', '|', '-']))
    });
    let message = said.filter(|message| !message.is_empty()).unwrap_or_else(|| {
        lines.iter().map(String::as_str).find(|line| !line.is_empty() && *line != "---").unwrap_or("not ok")
    });
    reading.failure(TestFailure {
        name,
        file: place.map(|(file, _)| input.path(file)),
        line: place.map(|(_, line)| line),
        message: message.to_owned(),
        excerpt: text,
    });
}
