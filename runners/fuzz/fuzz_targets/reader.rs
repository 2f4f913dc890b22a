//! One reader of reports on arbitrary bytes; the target is named as the tool is.
//!
//! No bytes make it panic or hang, keep more than its bounds, or call a command passed that failed, was
//! killed or whose output was cut. Half of the inputs are repeated until they are long, so that work that
//! grows faster than its input runs into the time limit.
#![no_main]

use jobs::check::{Check, Tool};
use jobs::verdict::CheckOutcome;
use libfuzzer_sys::fuzz_target;
use runners::reports::{Ended, Kept, RawOutput, read, read_json};

/// A repeated input has at least so many bytes.
const LONG: usize = 128 << 10;
/// What separates stdout, stderr and the report file.
const SEPARATOR: u8 = 0x1e;

fuzz_target!(|bytes: &[u8]| {
    let tool: Tool = env!("CARGO_BIN_NAME").parse().expect("every target of this file is named as a tool is");
    let Some((&head, rest)) = bytes.split_first() else { return };
    let mut parts = rest.splitn(3, |&byte| byte == SEPARATOR).map(|part| sized(part, head & 0x80 != 0));
    let mut part = || parts.next().unwrap_or_default();
    let (stdout, stderr, file) = (part(), part(), part());
    let exit_code = match head & 0x0f {
        code @ 0..=5 => Some(i32::from(code)),
        6 => Some(8),
        7 => Some(100),
        8 => Some(101),
        9 => Some(134),
        10 => Some(137),
        11 => Some(143),
        12 => Some(-11),
        13 => None,
        _ => Some(0),
    };
    let raw = RawOutput {
        exit_code,
        ended: if head & 0x10 == 0 { Ended::ByItself } else { Ended::Killed },
        kept: if head & 0x20 == 0 { Kept::Whole } else { Kept::Truncated },
        stdout,
        stderr,
        files: ["report.xml", "report.trx", "report.json", "report.sarif"]
            .map(|name| (name.to_owned(), file.clone()))
            .to_vec(),
        ..RawOutput::default()
    };
    let check = Check::new("check", tool, &["true"]);
    let report = read(&check, &raw);
    let sound = exit_code == Some(0) && raw.ended == Ended::ByItself && raw.kept == Kept::Whole;
    assert!(sound || report.outcome != CheckOutcome::Passed, "{:?}", report.outcome);
    assert!(report.failures.len() <= 1_000 && report.diagnostics.len() <= 10_000);
    assert!(report.failures.iter().all(|known| known.message.len() <= 1_000 && known.excerpt.len() <= 4_000));
    if head & 0x80 == 0 {
        let told = read_json(&check, &raw);
        assert_eq!(told["judgement"]["is"] == "passed", report.outcome == CheckOutcome::Passed);
    }
});

fn sized(part: &[u8], long: bool) -> Vec<u8> {
    if long && !part.is_empty() { part.repeat(LONG / part.len() + 1) } else { part.to_vec() }
}
