//! What holds for every reader: no bytes make it panic, and nothing unclear makes it say that all passed.

use jobs::check::ToolKind;
use jobs::verdict::CheckOutcome;
use proptest::prelude::*;

use super::*;

mod generic;
mod streams;

/// Pieces of what tools print, so that arbitrary bytes reach deep into the readers.
const PIECES: &[&str] = &[
    "\n",
    "\r\n",
    "\r",
    "\u{1b}[31m",
    "\0",
    "\u{feff}",
    "    ",
    "\t",
    "ü🎉",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":1:2: ",
    "(1,2): ",
    "=== RUN   TestA\n",
    "=== CONT  TestA",
    "--- FAIL: TestA (0.00s)\n",
    "--- PASS: TestA/b (0.00s)",
    "ok  \tpkg\t0.1s\n",
    "FAIL\tpkg [build failed]\n",
    "{\"Time\":\"t\",\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"T\"}\n",
    "{\"Action\":\"fail\",\"Package\":\"p\"}\n",
    "panic: x\n",
    "[INFO] Results:\n",
    "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0\n",
    "[ERROR] a(B)  Time elapsed: 0 s  <<< FAILURE!\n",
    "> Task :a:test FAILED\n",
    "A > b FAILED\n",
    "2 tests completed, 1 failed\n",
    "BUILD SUCCESSFUL in 1s\n",
    "Test run for /x/a.dll (x)\n",
    "Total tests: 1. Passed: 1. Failed: 0. Skipped: 0.\n",
    "Failed   A.B\n",
    "T.cs(1,2): error CS1: x\n",
    "    Start 1: a\n",
    "1/1 Test #1: a ....***Failed  0.00 sec\n",
    "1/1 Test #1: a ....   Passed  0.00 sec\n",
    "100% tests passed out of 1\n",
    "\t  1 - a (Failed)\n",
    "test a ... ok\n",
    "running 1 test\n",
    "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
    "     Running x (target/x)\n",
    "=== 1 passed in 0.1s ===\n",
    "FAILED a.py::b - x\n",
    "Tests:       1 passed, 1 total\n",
    "  ● a › b\n",
    "ok 1 - a\n",
    "1..1\n",
    "not ok 2\n",
    "<testsuite tests=\"1\">",
    "<testcase name=\"a\" classname=\"b\">",
    "<failure message=\"x\">",
    "</testcase>",
    "</testsuite>",
    "<TestRun>",
    "<UnitTestResult testName=\"a\" outcome=\"Passed\"/>",
    "error[E0308]: x\n",
    "  --> a.rs:1:2\n",
    "a.ts(1,2): error TS1: x\n",
    "error TS: x\n",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => proptest::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn raw(stdout: Vec<u8>, stderr: Vec<u8>, file: Vec<u8>, exit_code: Option<i32>) -> RawOutput {
    let files = ["r.xml", "r.trx", "r.json", "r.sarif"].map(|name| (name.to_owned(), file.clone())).to_vec();
    RawOutput { exit_code, stdout, stderr, files, ..RawOutput::default() }
}

proptest! {
    #[test]
    fn no_reader_panics_and_a_failed_command_never_passes(
        stdout in text(),
        stderr in text(),
        file in text(),
        code in prop_oneof![Just(None), (-1..200).prop_map(Some)],
    ) {
        let raw = raw(stdout, stderr, file, code);
        for tool in Tool::ALL {
            let report = read(&Check::new("check", tool, &["true"]), &raw);
            if code != Some(0) {
                prop_assert_ne!(&report.outcome, &CheckOutcome::Passed, "{:?}", tool);
            }
            for failure in &report.failures {
                prop_assert!(failure.message.len() <= 1_000 && failure.excerpt.len() <= 4_000);
            }
        }
    }

    #[test]
    fn what_was_killed_or_cut_never_passes(stdout in text(), stderr in text(), file in text()) {
        let whole = raw(stdout, stderr, file, Some(0));
        for tool in Tool::ALL {
            let check = Check::new("check", tool, &["true"]);
            let killed = read(&check, &RawOutput { ended: Ended::Killed, ..whole.clone() });
            prop_assert_ne!(killed.outcome, CheckOutcome::Passed, "{:?} killed", tool);
            let cut = read(&check, &RawOutput { kept: Kept::Truncated, ..whole.clone() });
            prop_assert_ne!(cut.outcome, CheckOutcome::Passed, "{:?} cut", tool);
        }
    }

    #[test]
    fn no_patch_makes_its_reader_panic(patch in text()) {
        let facts = PatchFacts::of(&[b"--- a/tests/a.py\n+++ b/tests/a.py\n@@ -1,9 +1,9 @@\n".as_slice(), &patch].concat());
        prop_assert!(facts.flags.len() <= 200);
    }
}

#[test]
fn silence_is_no_pass_for_a_test_framework() {
    for tool in Tool::ALL.into_iter().filter(|tool| tool.kind() == ToolKind::Tests) {
        let report = read(
            &Check::new("check", tool, &["true"]),
            &RawOutput { exit_code: Some(0), ..RawOutput::default() },
        );
        assert!(matches!(report.outcome, CheckOutcome::Inconclusive(_)), "{tool:?}: {:?}", report.outcome);
    }
}
