//! Real output of every tool, read and held against the truth that was written down from the sources.
//!
//! Outcomes must agree without exception. Where a detail differs and stands, it is in [`STANDING`] with the
//! reason; every other difference fails the test, and so does an entry that is no longer needed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that prints its table")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jobs::check::{Check, Tool};
use runners::reports::{Ended, Kept, RawOutput, read_json};
use serde_json::Value;

/// Differences in detail that stand: case, what differs, why.
const STANDING: &[(&str, &str, &str)] = &[
    (
        "cargo-check/build_script_fails",
        "build.rs",
        "the output holds a compiler-message with the place in build.rs; the expectation says there is none",
    ),
    (
        "cargo-test/filter_matches_nothing",
        "filtered",
        "the output's two result lines say 2 and 1, so 3 and not 4",
    ),
    ("cargo-test/filter_one", "filtered", "the output's two result lines say 1 and 1, so 2 and not 3"),
    ("go-test/failfast", "failed: 1 expected, 2", "the output prints `--- FAIL: Example` as well"),
    ("go-test/failfast", "Example", "the output prints `--- FAIL: Example` as well"),
    ("go-vet/findings_json_go119", "structtag", "the output says 10:2, the expectation column 8"),
    ("go-vet/findings_json_merged", "structtag", "the output says 10:2, the expectation column 8"),
    ("go-vet/findings_plain", "StructTag", "the output says 10:2, the expectation column 8"),
    ("go-vet/findings_plain_go119", "StructTag", "the output says 10:2, the expectation column 8"),
];

/// Files of a case that are not the tool's report.
fn tool_of(folder: &str) -> Tool {
    match folder {
        "nextest" => Tool::CargoNextest,
        "cargo-clippy" => Tool::Clippy,
        other => other.parse().unwrap(),
    }
}

struct Case {
    id: String,
    tool: Tool,
    raw: RawOutput,
    expected: Value,
}

fn load(folder: &Path, tool: &str) -> Case {
    let expected: Value = serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    let code = String::from_utf8(read("exit_code")).unwrap();
    let meta: Value = serde_json::from_slice(&read("meta.json")).unwrap_or_default();
    // Where only a report file is known, the report alone is read, as after a clean exit.
    let exit_code = Some(code.trim().parse().unwrap_or(0));
    let mut files = Vec::new();
    collect(&folder.join("files"), "", &mut files);
    let raw = RawOutput {
        exit_code,
        ended: Ended::ByItself,
        kept: Kept::Whole,
        stdout: read("stdout"),
        stderr: read("stderr"),
        files,
        root: meta["cwd"].as_str().unwrap_or("/workspace").to_owned(),
    };
    let name = folder.file_name().unwrap().to_str().unwrap();
    Case { id: format!("{tool}/{name}"), tool: tool_of(tool), raw, expected }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else {
            files.push((name, fs::read(entry.path()).unwrap()));
        }
    }
}

fn cases(root: &Path, wanted: impl Fn(&str) -> bool) -> Vec<Case> {
    let mut found = Vec::new();
    for tool in folders(root) {
        for case in folders(&tool) {
            let name = case.file_name().unwrap().to_str().unwrap().to_owned();
            if wanted(&name) {
                found.push(load(&case, tool.file_name().unwrap().to_str().unwrap()));
            }
        }
    }
    found
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn has_tag(case: &Case, tag: &str) -> bool {
    case.expected["tags"].as_array().is_some_and(|tags| tags.iter().any(|known| known == tag))
}

/// What a case's reading gets wrong: the outcome, and details.
#[derive(Default)]
struct Differences {
    outcome: Option<String>,
    details: Vec<String>,
    compared: usize,
}

fn compare(case: &Case) -> Differences {
    let check = Check::new("check", case.tool, &["true"]);
    let got = read_json(&check, &case.raw);
    let mut differences = Differences::default();
    if got["outcome"] != case.expected["outcome"] {
        differences.outcome = Some(format!("{} is read as {}", case.expected["outcome"], got["outcome"]));
    }
    let judged_passed = got["judgement"]["is"] == "passed";
    // Nothing was executed, so nothing is proven, whatever the tool's own summary says.
    let executed_nothing =
        has_tag(case, "zero_tests") || (has_tag(case, "trx_only") && case.expected["passed"] == 0);
    let passing = case.expected["outcome"] == "passed" && !executed_nothing;
    if judged_passed != passing {
        differences.outcome =
            Some(format!("judged {} though it is {}", got["judgement"], case.expected["outcome"]));
    }
    for key in [
        "passed",
        "failed",
        "skipped",
        "errors",
        "warnings",
        "xfailed",
        "xpassed",
        "deselected",
        "todo",
        "filtered",
    ] {
        let want = &case.expected[key];
        // With a partial expectation the number of warnings is as partial as their list.
        if want.is_null() || (key == "warnings" && has_tag(case, "partial_expectation")) {
            continue;
        }
        differences.compared += 1;
        if &got[key] != want {
            differences.details.push(format!("{key}: {want} expected, {} read", got[key]));
        }
    }
    compare_failures(case, &got, &mut differences);
    compare_diagnostics(case, &got, &mut differences);
    differences
}

fn last_segment(name: &str) -> &str {
    let mut rest = name.trim_end();
    if let Some(open) = rest.find('[') {
        // Parameters are part of the name; what is inside of them separates nothing.
        let head = &rest[..open];
        let start =
            [" › ", " > ", "::", "."].iter().filter_map(|sep| head.rfind(sep).map(|at| at + sep.len())).max();
        return &rest[start.unwrap_or(0)..];
    }
    for separator in [" › ", " > ", "::", "."] {
        if let Some((head, tail)) = rest.rsplit_once(separator)
            && !tail.is_empty()
            && !(separator == "." && (tail.contains(' ') || head.contains(' ')))
        {
            rest = tail;
        }
    }
    rest
}

fn base(path: &Value) -> Option<&str> {
    path.as_str().map(|path| path.rsplit('/').next().unwrap())
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn compare_failures(case: &Case, got: &Value, differences: &mut Differences) {
    let want = case.expected["failures"].as_array().unwrap();
    let mut left: Vec<&Value> = got["failures"].as_array().unwrap().iter().collect();
    for failure in want {
        differences.compared += 1;
        let name = failure["name"].as_str().unwrap();
        let same_name = |found: &&Value| {
            let other = found["name"].as_str().unwrap();
            other == name || last_segment(other) == last_segment(name) || other.ends_with(name)
        };
        let full = left.iter().position(|found| {
            same_name(found)
                && (failure["file"].is_null() || base(&found["file"]) == base(&failure["file"]))
                && (failure["line"].is_null() || found["line"] == failure["line"])
        });
        let Some(at) = full.or_else(|| left.iter().position(same_name)) else {
            let names: Vec<&Value> = left.iter().map(|found| &found["name"]).collect();
            differences.details.push(format!("failure {name:?} is missing; left: {names:?}"));
            continue;
        };
        let found = left.remove(at);
        for key in ["file", "line"] {
            if failure[key].is_null() {
                continue;
            }
            differences.compared += 1;
            let same = if key == "file" {
                base(&failure[key]) == base(&found[key])
            } else {
                failure[key] == found[key]
            };
            if !same {
                differences
                    .details
                    .push(format!("failure {name:?} {key}: {} expected, {} read", failure[key], found[key]));
            }
        }
        if let Some(part) = failure["message_contains"].as_str() {
            differences.compared += 1;
            let message = found["message"].as_str().unwrap();
            let excerpt = found["excerpt"].as_str().unwrap_or_default();
            if !squeeze(message).contains(&squeeze(part)) && !squeeze(excerpt).contains(&squeeze(part)) {
                differences
                    .details
                    .push(format!("failure {name:?} message: {part:?} expected, {message:?} read"));
            }
        }
    }
    if !want.is_empty() || case.expected["outcome"] == "passed" {
        for extra in left {
            differences.details.push(format!("failure {} is none", extra["name"]));
        }
    }
}

fn compare_diagnostics(case: &Case, got: &Value, differences: &mut Differences) {
    let want = case.expected["diagnostics"].as_array().unwrap();
    let mut left: Vec<&Value> = got["diagnostics"].as_array().unwrap().iter().collect();
    for wanted in want {
        differences.compared += 1;
        let at = left.iter().position(|found| {
            ["line", "column", "severity", "code"]
                .iter()
                .all(|&key| wanted[key].is_null() || wanted[key] == found[key])
                && (wanted["file"].is_null() || base(&wanted["file"]) == base(&found["file"]))
                && wanted["message_contains"]
                    .as_str()
                    .is_none_or(|part| squeeze(found["message"].as_str().unwrap()).contains(&squeeze(part)))
        });
        match at {
            Some(at) => {
                left.remove(at);
            }
            None => {
                let near: Vec<&&Value> =
                    left.iter().filter(|found| found["line"] == wanted["line"]).take(3).collect();
                differences.details.push(format!("diagnostic {wanted} is missing; near: {near:?}"));
            }
        }
    }
    let partial = has_tag(case, "partial_expectation");
    if !partial {
        for extra in left {
            differences.details.push(format!("diagnostic {extra} is none"));
        }
    }
}

/// Reads all cases, prints the table, and returns the unexpected differences.
fn run(cases: &[Case]) -> Vec<String> {
    let mut table: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut wrong = Vec::new();
    let (mut compared, mut differing) = (0, 0);
    for case in cases {
        let tool = case.id.split('/').next().unwrap();
        let row = table.entry(tool).or_default();
        let differences = compare(case);
        row[0] += 1;
        row[1] += usize::from(differences.outcome.is_none());
        row[2] += differences.compared;
        row[3] += differences.details.len();
        compared += differences.compared;
        differing += differences.details.len();
        if let Some(outcome) = differences.outcome {
            wrong.push(format!("{}: OUTCOME: {outcome}", case.id));
        }
        let standing: Vec<_> = STANDING.iter().filter(|(id, ..)| *id == case.id).collect();
        for (_, what, why) in &standing {
            if differences.details.iter().any(|detail| detail.contains(what)) {
                println!("stands: {}: {what}: {why}", case.id);
            } else {
                wrong.push(format!("{}: no longer differs in {what:?}: take it off the list", case.id));
            }
        }
        for detail in differences.details {
            if !standing.iter().any(|(_, what, _)| detail.contains(what)) {
                wrong.push(format!("{}: {detail}", case.id));
            }
        }
    }
    println!("{:<14} {:>6} {:>9} {:>8} {:>7}", "tool", "cases", "outcomes", "details", "differ");
    for (tool, [cases, outcomes, details, differ]) in &table {
        println!("{tool:<14} {cases:>6} {outcomes:>9} {details:>8} {differ:>7}");
    }
    let share = differing as f64 * 100.0 / compared.max(1) as f64;
    println!("{} cases, {compared} details compared, {differing} differ ({share:.2} %)", cases.len());
    if share >= 2.0 {
        wrong.push(format!("{share:.2} % of the details differ, and fewer than 2 % may"));
    }
    wrong
}

#[test]
fn every_case_of_the_corpus_is_read_as_its_sources_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
    let cases = cases(&root, |_| true);
    assert!(cases.len() > 200, "the corpus is not there: {} cases", cases.len());
    let wrong = run(&cases);
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn stand_in_formats_are_read_in_place() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("WHIPSTITCH_SHARED").map_or(beside, PathBuf::from).join("corpus");
    if !shared.is_dir() {
        println!("skipped: the stand-in cases are not beside the repository ({})", shared.display());
        return;
    }
    let cases = cases(&shared, |name| name.starts_with("pub_"));
    assert!(!cases.is_empty(), "the folder of stand-in cases holds none");
    let wrong = run(&cases);
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
