//! Streams as they come: coloured, with other line ends, of invalid bytes, with endless lines, interleaved, in
//! another language. Each is a real output of the corpus, changed; it must read as before or be no pass.

use std::path::Path;

use super::*;

/// A red and a green run of each tool: the folder in the corpus, the tool, the cases.
const CASES: &[(&str, Tool, &str, Option<&str>)] = &[
    ("pytest", Tool::Pytest, "one_failure_v8", Some("warnings_only_v8")),
    ("cargo-test", Tool::CargoTest, "workspace_no_fail_fast", None),
    ("nextest", Tool::CargoNextest, "many_failures_merged", None),
    ("jest", Tool::Jest, "many_kinds_verbose_v29", None),
    ("go-test", Tool::GoTest, "many_go119_v", None),
    ("surefire", Tool::Surefire, "many_kinds", None),
    ("gradle", Tool::Gradle, "many_kinds", None),
    ("dotnet-test", Tool::DotnetTest, "many_kinds_normal", None),
    ("ctest", Tool::Ctest, "many", None),
    ("pyright", Tool::Pyright, "errors_human", None),
    ("tsc", Tool::Tsc, "errors_v6", None),
    ("ruff", Tool::Ruff, "findings_jsonlines", None),
];

fn case(folder: &str, name: &str) -> RawOutput {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus").join(folder).join(name);
    let part = |name: &str| std::fs::read(at.join(name)).unwrap();
    let meta: serde_json::Value = serde_json::from_slice(&part("meta.json")).unwrap();
    RawOutput {
        exit_code: String::from_utf8(part("exit_code")).unwrap().trim().parse().ok(),
        stdout: part("stdout"),
        stderr: part("stderr"),
        root: meta["cwd"].as_str().unwrap_or("/workspace").to_owned(),
        ..RawOutput::default()
    }
}

fn report(tool: Tool, raw: &RawOutput) -> jobs::verdict::Report {
    read(&Check::new("check", tool, &["true"]), raw)
}

/// Both streams with each line changed.
fn with_lines(raw: &RawOutput, change: impl Fn(&[u8]) -> Vec<u8>) -> RawOutput {
    let all = |stream: &[u8]| stream.split_inclusive(|&byte| byte == b'\n').flat_map(&change).collect();
    RawOutput { stdout: all(&raw.stdout), stderr: all(&raw.stderr), ..raw.clone() }
}

fn cases() -> impl Iterator<Item = (Tool, String, RawOutput)> {
    CASES.iter().flat_map(|&(folder, tool, red, green)| {
        [Some(red), green]
            .into_iter()
            .flatten()
            .map(move |name| (tool, format!("{folder}/{name}"), case(folder, name)))
    })
}

/// What must stay the same: outcome, counts, tests and the names of failures.
fn assert_same(name: &str, what: &str, before: &jobs::verdict::Report, after: &jobs::verdict::Report) {
    assert_eq!(before.outcome, after.outcome, "{name}, {what}");
    assert_eq!(before.counts, after.counts, "{name}, {what}");
    assert_eq!(before.tests, after.tests, "{name}, {what}");
    let names = |report: &jobs::verdict::Report| -> Vec<String> {
        report.failures.iter().map(|failure| failure.name.clone()).collect()
    };
    assert_eq!(names(before), names(after), "{name}, {what}");
    let places = |report: &jobs::verdict::Report| -> Vec<(String, Option<u32>)> {
        report.diagnostics.iter().map(|found| (found.file.clone(), found.line)).collect()
    };
    assert_eq!(places(before), places(after), "{name}, {what}");
}

#[test]
fn crlf_line_ends_change_nothing() {
    for (tool, name, raw) in cases() {
        let crlf = with_lines(&raw, |line| match line.strip_suffix(b"\n") {
            Some(line) => [line.strip_suffix(b"\r").unwrap_or(line), b"\r\n"].concat(),
            None => line.to_vec(),
        });
        assert_same(&name, "CRLF", &report(tool, &raw), &report(tool, &crlf));
    }
}

#[test]
fn colours_around_every_line_change_nothing_where_it_is_read_as_text() {
    for (tool, name, raw) in cases().filter(|(tool, ..)| *tool != Tool::Ruff) {
        let coloured = with_lines(&raw, |line| match line.strip_suffix(b"\n") {
            Some(line) => [b"\x1b[1m\x1b[38;5;196m", line, b"\x1b[0m\x1b[K\n"].concat(),
            None => line.to_vec(),
        });
        assert_same(&name, "colours", &report(tool, &raw), &report(tool, &coloured));
    }
}

#[test]
fn invalid_bytes_and_endless_lines_beside_the_output_change_no_outcome() {
    let noise: [(&str, Vec<u8>); 3] = [
        ("invalid UTF-8", b"\xff\xfe\xc3(\x80 noise\n".to_vec()),
        ("an endless line", [vec![b'x'; 2 << 20], b"\n".to_vec()].concat()),
        ("control characters", b"\x07\x08\0\x1b]0;title\x07\x1b[2J\x1b(B noise\n".to_vec()),
    ];
    for (tool, name, raw) in cases() {
        let before = report(tool, &raw);
        for (what, noise) in &noise {
            let noisy = RawOutput {
                stdout: [noise, raw.stdout.as_slice()].concat(),
                stderr: [noise, raw.stderr.as_slice()].concat(),
                ..raw.clone()
            };
            let after = report(tool, &noisy);
            let as_before = before.outcome == after.outcome && before.counts == after.counts;
            let unsure = matches!(after.outcome, CheckOutcome::Inconclusive(_));
            assert!(as_before || unsure, "{name}, {what}: {:?} {:?}", after.outcome, after.counts);
        }
    }
}

#[test]
fn interleaved_streams_of_a_red_run_are_no_pass_whatever_the_exit_code() {
    for &(folder, tool, red, _) in CASES {
        let raw = case(folder, red);
        let (mut out, mut err) = (raw.stdout.as_slice(), raw.stderr.as_slice());
        let mut merged = Vec::new();
        while !out.is_empty() || !err.is_empty() {
            for stream in [&mut out, &mut err] {
                let (now, rest) = stream.split_at(stream.len().min(37));
                merged.extend_from_slice(now);
                *stream = rest;
            }
        }
        for exit_code in [raw.exit_code, Some(0)] {
            let torn = RawOutput { exit_code, stdout: merged.clone(), stderr: Vec::new(), ..raw.clone() };
            let outcome = report(tool, &torn).outcome;
            assert_ne!(outcome, CheckOutcome::Passed, "{folder}/{red} with exit code {exit_code:?}");
        }
    }
}

#[test]
fn a_console_in_another_language_is_understood_or_inconclusive() {
    let german_green = "Testlauf für \"/w/a.dll\" (.NETCoreApp,Version=v8.0)\n\nBestanden!   : Fehler:     0, erfolgreich:     2, übersprungen:     0, gesamt:     2, Dauer: 5 ms - a.dll (net8.0)\n";
    let german_red = "Testlauf für \"/w/a.dll\" (.NETCoreApp,Version=v8.0)\n\nFehler!      : Fehler:     1, erfolgreich:     1, übersprungen:     0, gesamt:     2, Dauer: 5 ms - a.dll (net8.0)\n";
    for (tool, stdout, green) in [
        (Tool::DotnetTest, german_green, true),
        (Tool::DotnetTest, german_red, false),
        (Tool::Tsc, "a.ts(1,2): error TS2322: Der Typ \"string\" kann nicht zugewiesen werden.\n", false),
        (Tool::Gradle, "ERFOLGREICH in 2s\n", true),
        (Tool::Ctest, "100 % der Tests bestanden\n", true),
        (Tool::Jest, "Tests :  1 réussi, 1 au total\n", true),
    ] {
        for exit_code in [0, 1] {
            let raw = RawOutput {
                exit_code: Some(exit_code),
                stdout: stdout.as_bytes().to_vec(),
                ..RawOutput::default()
            };
            let outcome = report(tool, &raw).outcome;
            let fair = match &outcome {
                CheckOutcome::Passed => green && exit_code == 0,
                CheckOutcome::Failed => !green || exit_code != 0,
                CheckOutcome::Inconclusive(_) | CheckOutcome::Unsupported(_) => true,
            };
            assert!(fair, "{tool:?} {stdout:?} with exit code {exit_code}: {outcome:?}");
        }
    }
}
