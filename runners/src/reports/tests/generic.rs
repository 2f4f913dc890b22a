//! The generic readers on what frameworks without a reader of their own write.

use super::*;

fn read_file(tool: Tool, name: &str, content: &str, exit_code: i32) -> jobs::verdict::Report {
    let check = Check { reports: vec![name.to_owned()], ..Check::new("check", tool, &["make", "test"]) };
    let files = vec![(name.to_owned(), content.as_bytes().to_vec())];
    read(&check, &RawOutput { exit_code: Some(exit_code), files, ..RawOutput::default() })
}

const VITEST: &str = r#"<?xml version="1.0" encoding="UTF-8" ?>
<testsuites name="vitest tests" tests="3" failures="1" errors="0" time="0.5">
    <testsuite name="src/sum.test.ts" timestamp="2026-01-01T00:00:00.000Z" hostname="h" tests="3" failures="1" errors="0" skipped="1" time="0.004">
        <testcase classname="src/sum.test.ts" name="sum &gt; adds" time="0.001"></testcase>
        <testcase classname="src/sum.test.ts" name="sum &gt; is wrong" time="0.002">
            <failure message="expected 3 to be 4 // Object.is equality" type="AssertionError">
AssertionError: expected 3 to be 4 // Object.is equality
 ❯ src/sum.test.ts:9:20
            </failure>
        </testcase>
        <testcase classname="src/sum.test.ts" name="sum &gt; later" time="0"><skipped/></testcase>
    </testsuite>
</testsuites>
"#;

const PHPUNIT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="CLI Arguments" tests="2" assertions="2" errors="1" failures="0" skipped="0" time="0.01">
    <testsuite name="Tests\MoneyTest" file="/workspace/tests/MoneyTest.php" tests="2" assertions="2" errors="1" failures="0" skipped="0" time="0.01">
      <testcase name="testAdds" file="/workspace/tests/MoneyTest.php" line="9" class="Tests\MoneyTest" classname="Tests.MoneyTest" assertions="1" time="0.001"/>
      <testcase name="testThrows" file="/workspace/tests/MoneyTest.php" line="15" class="Tests\MoneyTest" classname="Tests.MoneyTest" assertions="1" time="0.001">
        <error type="RuntimeException">Tests\MoneyTest::testThrows
RuntimeException: no money

/workspace/src/Money.php:21
/workspace/tests/MoneyTest.php:17</error>
      </testcase>
    </testsuite>
  </testsuite>
</testsuites>
"#;

const RSPEC: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="rspec" tests="2" skipped="0" failures="0" errors="0" time="0.003" timestamp="2026-01-01T00:00:00+00:00" hostname="h">
<properties><property name="seed" value="1"/></properties>
<testcase classname="spec.sum_spec" name="Sum adds" file="./spec/sum_spec.rb" time="0.001"></testcase>
<testcase classname="spec.sum_spec" name="Sum adds" file="./spec/sum_spec.rb" time="0.001"></testcase>
</testsuite>
"#;

const GOOGLE_TEST: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="0" disabled="1" errors="0" time="0." name="AllTests">
  <testsuite name="Sum" tests="2" failures="0" disabled="1" skipped="0" errors="0" time="0.">
    <testcase name="Adds" status="run" result="completed" time="0." classname="Sum" />
    <testcase name="DISABLED_Later" status="notrun" result="suppressed" time="0." classname="Sum" />
  </testsuite>
</testsuites>
"#;

#[test]
fn junit_files_of_other_frameworks_tell_failures_with_their_places() {
    let vitest = read_file(Tool::Junit, "junit.xml", VITEST, 1);
    assert_eq!(vitest.outcome, CheckOutcome::Failed);
    assert_eq!(
        (vitest.counts.passed, vitest.counts.failed, vitest.counts.skipped),
        (Some(1), Some(1), Some(1))
    );
    let failure = &vitest.failures[0];
    assert_eq!(failure.name, "src/sum.test.ts::sum > is wrong");
    assert_eq!((failure.file.as_deref(), failure.line), (Some("src/sum.test.ts"), Some(9)));
    let phpunit = read_file(Tool::Junit, "build/junit.xml", PHPUNIT, 2);
    assert_eq!(phpunit.outcome, CheckOutcome::Failed);
    assert_eq!(
        (phpunit.failures[0].file.as_deref(), phpunit.failures[0].line),
        (Some("src/Money.php"), Some(21))
    );
}

#[test]
fn green_junit_files_pass_and_each_occurrence_of_a_name_is_a_test() {
    let rspec = read_file(Tool::Junit, "rspec.xml", RSPEC, 0);
    assert_eq!(rspec.outcome, CheckOutcome::Passed);
    assert_eq!(rspec.counts.passed, Some(2));
    let google = read_file(Tool::Junit, "out.xml", GOOGLE_TEST, 0);
    assert_eq!(google.outcome, CheckOutcome::Passed);
    assert_eq!((google.counts.passed, google.counts.skipped), (Some(1), Some(1)));
}

#[test]
fn a_junit_file_and_an_exit_code_that_differ_are_no_pass() {
    assert_eq!(read_file(Tool::Junit, "rspec.xml", RSPEC, 1).outcome, CheckOutcome::Failed);
    let hidden = read_file(Tool::Junit, "junit.xml", VITEST, 0);
    assert_eq!(hidden.outcome, CheckOutcome::Failed);
    assert!(hidden.notes.iter().any(|note| note.contains("exit code 0")), "{:?}", hidden.notes);
    let cut = read_file(Tool::Junit, "rspec.xml", &RSPEC[..RSPEC.len() - 20], 0);
    assert!(matches!(cut.outcome, CheckOutcome::Inconclusive(_)), "{:?}", cut.outcome);
    let declared = RSPEC.replace("failures=\"0\"", "failures=\"1\"");
    assert_eq!(read_file(Tool::Junit, "rspec.xml", &declared, 0).outcome, CheckOutcome::Failed);
    let by_status = GOOGLE_TEST.replace("status=\"run\"", "status=\"fail\"");
    assert_eq!(read_file(Tool::Junit, "out.xml", &by_status, 0).outcome, CheckOutcome::Failed);
    let nothing = r#"<testsuites tests="0"><testsuite name="x" tests="0"></testsuite></testsuites>"#;
    assert!(matches!(read_file(Tool::Junit, "o.xml", nothing, 0).outcome, CheckOutcome::Inconclusive(_)));
}

#[test]
fn a_format_that_is_not_read_is_unsupported_with_the_one_to_use() {
    for (tool, name, content) in [
        (Tool::Junit, "xunit.xml", "<assemblies><assembly name=\"x\"/></assemblies>"),
        (Tool::Junit, "nunit.xml", "<test-run id=\"0\" result=\"Passed\"></test-run>"),
        (Tool::Sarif, "old.sarif", r#"{"version":"1.0.0","runs":[{"results":[]}]}"#),
    ] {
        for code in [0, 1] {
            let outcome = read_file(tool, name, content, code).outcome;
            let CheckOutcome::Unsupported(what) = &outcome else { panic!("{name}: {outcome:?}") };
            assert!(what.contains("JUnit XML") || what.contains("SARIF 2.1.0"), "{what}");
        }
    }
}

fn read_tap(stdout: &str, exit_code: i32) -> jobs::verdict::Report {
    let check = Check::new("check", Tool::Tap, &["prove", "-v"]);
    let stdout = stdout.as_bytes().to_vec();
    read(&check, &RawOutput { exit_code: Some(exit_code), stdout, ..RawOutput::default() })
}

#[test]
fn a_tap_stream_passes_only_with_its_whole_plan() {
    let good = "TAP version 14\n# Subtest: inner\n    ok 1 - a\n    1..1\nok 1 - inner\nok 2 - b # SKIP no network\n1..2\n";
    let report = read_tap(good, 0);
    assert_eq!(report.outcome, CheckOutcome::Passed, "{:?}", report.notes);
    assert_eq!((report.counts.passed, report.counts.skipped), (Some(1), Some(1)));
    for (name, stream) in [
        ("no plan", "ok 1 - a\n"),
        ("cut", "1..3\nok 1\nok 2\n"),
        ("bail out", "1..1\nok 1\nBail out! no database\n"),
        ("nothing", "1..0 # SKIP not here\n"),
        ("silence", ""),
    ] {
        assert!(matches!(read_tap(stream, 0).outcome, CheckOutcome::Inconclusive(_)), "{name}");
    }
    let failed =
        read_tap("1..2\nok 1\nnot ok 2 - adds\n  ---\n  message: 'wrong'\n  at: t/sum.js:4:2\n  ...\n", 0);
    assert_eq!(failed.outcome, CheckOutcome::Failed);
    assert_eq!((failed.failures[0].file.as_deref(), failed.failures[0].line), (Some("t/sum.js"), Some(4)));
    assert_eq!(read_tap("1..1\nok 1\n", 1).outcome, CheckOutcome::Failed);
    assert_eq!(read_tap("1..1\nnot ok 1 - later # TODO not yet\n", 0).outcome, CheckOutcome::Passed);
}

#[test]
fn tap_in_report_files_is_read_in_place_of_the_console() {
    assert_eq!(read_file(Tool::Tap, "out/unit.tap", "1..1\nok 1 - a\n", 0).outcome, CheckOutcome::Passed);
    assert_eq!(read_file(Tool::Tap, "out/unit.tap", "1..1\nnot ok 1 - a\n", 0).outcome, CheckOutcome::Failed);
}

const SARIF: &str = r#"{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{
  "tool":{"driver":{"name":"shellcheck","rules":[{"id":"SC1","defaultConfiguration":{"level":"error"}},{"id":"SC2"}]}},
  "results":[
    {"ruleId":"SC1","message":{"text":"broken"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"file:///workspace/a.sh"},"region":{"startLine":3,"startColumn":5}}}]},
    {"ruleId":"SC2","level":"warning","message":{"text":"odd"},"locations":[]},
    {"ruleId":"SC1","message":{"text":"known"},"suppressions":[{"kind":"inSource"}],"locations":[]},
    {"ruleId":"SC1","kind":"pass","message":{"text":"fine"},"locations":[]}
  ]}]}"#;

#[test]
fn sarif_levels_suppressions_and_kinds_are_taken_as_the_standard_says() {
    let report = read_file(Tool::Sarif, "out.sarif", SARIF, 0);
    assert_eq!(report.outcome, CheckOutcome::Failed);
    assert_eq!(report.diagnostics.len(), 2, "{:?}", report.diagnostics);
    assert_eq!((report.diagnostics[0].file.as_str(), report.diagnostics[0].line), ("a.sh", Some(3)));
    let clean = r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":[]}]}"#;
    assert_eq!(read_file(Tool::Sarif, "out.sarif", clean, 0).outcome, CheckOutcome::Passed);
    assert!(matches!(read_file(Tool::Sarif, "out.sarif", clean, 2).outcome, CheckOutcome::Inconclusive(_)));
    let unlooked = r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}}}]}"#;
    assert!(matches!(read_file(Tool::Sarif, "o.sarif", unlooked, 0).outcome, CheckOutcome::Inconclusive(_)));
    let stdout = RawOutput { exit_code: Some(0), stdout: SARIF.as_bytes().to_vec(), ..RawOutput::default() };
    assert_eq!(read(&Check::new("check", Tool::Sarif, &["x"]), &stdout).outcome, CheckOutcome::Failed);
}
