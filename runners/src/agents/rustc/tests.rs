//! Messages as rustc writes them, cut to the members that are read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::workspace::{Entry, Mode};

const SOURCE: &str = "fn main() {\n    let x = 1;\n    x = 2\n}\n";

fn tree_of(path: &str, content: &str) -> Tree {
    let entry = Entry::new(Mode::Regular, content.as_bytes());
    Tree::new(BTreeMap::from([(TreePath::parse(path).unwrap(), entry)]), None).unwrap()
}

/// The suggestion to put `mut ` before the `x` of line 2.
fn span() -> Value {
    json!({
        "file_name": "src/main.rs", "byte_start": 20, "byte_end": 20, "line_start": 2,
        "text": [{"text": "    let x = 1;"}],
        "suggested_replacement": "mut ", "suggestion_applicability": "MachineApplicable", "expansion": null,
    })
}

fn message(level: &str, span: &Value) -> Vec<u8> {
    let message = json!({
        "reason": "compiler-message",
        "message": {
            "level": level, "message": "cannot assign twice", "code": {"code": "E0384"}, "spans": [],
            "children": [{"level": "help", "message": "make it mutable", "spans": [span], "children": []}],
        },
    });
    format!("   Compiling x\n{message}\n{{\"reason\":\"build-finished\",\"success\":false}}\n").into_bytes()
}

fn found(stdout: &[u8]) -> Vec<Suggestion> {
    suggestions(stdout, "", &tree_of("src/main.rs", SOURCE))
}

fn with(name: &str, value: Value) -> Vec<u8> {
    let mut span = span();
    span[name] = value;
    message("error", &span)
}

#[test]
fn an_applicable_suggestion_of_an_error_is_taken() {
    let found = found(&message("error", &span()));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].says, "cannot assign twice (E0384)");
    assert_eq!((found[0].parts[0].start, found[0].parts[0].with.as_str()), (20, "mut "));
}

#[test]
fn warnings_and_what_needs_judgement_are_not() {
    assert!(found(&message("warning", &span())).is_empty());
    for other in ["MaybeIncorrect", "HasPlaceholders", "Unspecified"] {
        assert!(found(&with("suggestion_applicability", json!(other))).is_empty(), "{other}");
    }
    assert!(found(&with("suggestion_applicability", Value::Null)).is_empty());
    assert!(found(&with("expansion", json!({"macro_decl_name": "m!"}))).is_empty());
}

#[test]
fn a_suggestion_that_adds_a_way_to_panic_needs_judgement() {
    for adds in [").try_into().unwrap()", ".expect(\"REASON\")", "panic!()", "unsafe { x }"] {
        assert!(found(&with("suggested_replacement", json!(adds))).is_empty(), "{adds}");
    }
    let mut moved = span();
    moved["text"] = json!([{"text": "    let x = 1;"}, {"text": "    x = 2"}]);
    moved["suggested_replacement"] = json!("2; // x.unwrap() is gone");
    assert!(found(&message("error", &moved)).is_empty());
    let source = "fn main() {\n    return x.unwrap();\n}\n";
    let kept = json!({
        "file_name": "src/main.rs", "byte_start": 16, "byte_end": 34, "line_start": 2,
        "text": [{"text": "    return x.unwrap();"}],
        "suggested_replacement": "x.unwrap()", "suggestion_applicability": "MachineApplicable",
    });
    assert_eq!(suggestions(&message("error", &kept), "", &tree_of("src/main.rs", source)).len(), 1);
}

#[test]
fn a_span_must_fit_the_file_that_is_there() {
    assert!(found(&with("text", json!([{"text": "    let y = 1;"}]))).is_empty());
    assert!(found(&with("text", json!([]))).is_empty());
    assert!(found(&with("line_start", json!(3))).is_empty());
    assert!(found(&with("byte_end", json!(4000))).is_empty());
    assert!(found(&with("byte_end", json!(19))).is_empty());
    for outside in
        ["src/other.rs", "/workspace/src/main.rs", "../src/main.rs", "/rustc/1/library/core/src/lib.rs"]
    {
        assert!(found(&with("file_name", json!(outside))).is_empty(), "{outside}");
    }
}

#[test]
fn a_file_with_carriage_returns_fits_too() {
    let source = SOURCE.replace('\n', "\r\n");
    let mut span = span();
    span["byte_start"] = json!(21);
    span["byte_end"] = json!(21);
    let found = suggestions(&message("error", &span), "", &tree_of("src/main.rs", &source));
    assert_eq!(found[0].parts[0].start, 21);
}

#[test]
fn a_place_within_a_character_is_refused() {
    let source = "fn main() {\n    let ü = 1;\n}\n";
    let mut span = span();
    span["text"] = json!([{"text": "    let ü = 1;"}]);
    span["byte_start"] = json!(21);
    span["byte_end"] = json!(21);
    let tree = tree_of("src/main.rs", source);
    assert!(suggestions(&message("error", &span), "", &tree).is_empty());
}

#[test]
fn the_file_is_looked_for_from_the_checks_directory_upwards() {
    let tree = tree_of("rust/src/main.rs", SOURCE);
    let found = suggestions(&message("error", &span()), "rust/member", &tree);
    assert_eq!(found[0].parts[0].path.to_string(), "rust/src/main.rs");
}

#[test]
fn a_message_with_one_uncertain_part_is_left_out_whole() {
    let mut second = span();
    second["suggestion_applicability"] = json!("MaybeIncorrect");
    let line = json!({
        "reason": "compiler-message",
        "message": {"level": "error", "message": "m", "spans": [span(), second], "children": []},
    });
    assert!(found(line.to_string().as_bytes()).is_empty());
}

#[test]
fn hostile_lines_are_passed_over() {
    for line in ["{", "{\"reason\":1}", "{\"reason\":\"compiler-message\",\"message\":{}}", "\u{0}"] {
        assert!(found(line.as_bytes()).is_empty(), "{line:?}");
    }
}
