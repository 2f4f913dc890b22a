//! Whole documents of many entries, in the forms that tools write.

use std::fmt::Write as _;

use jobs::check::Tool;
use runners::reports::RawOutput;

/// What stands before the entries, one entry, what stands between two, and what ends it all.
struct Form {
    name: &'static str,
    tool: Tool,
    file: Option<&'static str>,
    head: &'static str,
    entry: fn(&mut String, usize),
    between: &'static str,
    tail: &'static str,
}

const FORMS: &[Form] = &[
    Form {
        name: "JUnit XML",
        tool: Tool::Junit,
        file: Some("junit.xml"),
        head: "<?xml version=\"1.0\"?>\n<testsuites><testsuite name=\"s\">\n",
        entry: |out, at| {
            write!(out, "<testcase classname=\"a.B{}\" name=\"t{at}\" time=\"0.01\"/>\n<testcase classname=\"a.B\" name=\"f{at}\"><failure message=\"expected 1 &lt; 2\">\n  at a/b.py:{at}\n</failure></testcase>\n", at % 40).unwrap();
        },
        between: "",
        tail: "</testsuite></testsuites>\n",
    },
    Form {
        name: "pytest's XML",
        tool: Tool::Pytest,
        file: Some("report.xml"),
        head: "<?xml version=\"1.0\"?>\n<testsuites><testsuite name=\"pytest\">\n",
        entry: |out, at| {
            write!(out, "<testcase classname=\"tests.test_a.TestB\" name=\"test_{at}\" file=\"tests/test_a.py\" line=\"{at}\" time=\"0.01\"><failure message=\"assert 1 == 2\">self = x\n\n&gt;   assert 1 == 2\nE   assert 1 == 2\n\ntests/test_a.py:{at}: AssertionError</failure></testcase>\n").unwrap();
        },
        between: "",
        tail: "</testsuite></testsuites>\n",
    },
    Form {
        name: "TRX",
        tool: Tool::DotnetTest,
        file: Some("report.trx"),
        head: "<TestRun><Results>\n",
        entry: |out, at| {
            writeln!(out, "<UnitTestResult testId=\"{at}\" testName=\"A.B.T{at}\" outcome=\"Failed\"><Output><ErrorInfo><Message>expected 1</Message><StackTrace>   at A.B.T() in /workspace/T.cs:line {at}</StackTrace></ErrorInfo></Output></UnitTestResult>").unwrap();
        },
        between: "",
        tail: "</Results><ResultSummary outcome=\"Failed\"/></TestRun>\n",
    },
    Form {
        name: "SARIF",
        tool: Tool::Sarif,
        file: Some("out.sarif"),
        head: "{\"version\":\"2.1.0\",\"runs\":[{\"tool\":{\"driver\":{\"name\":\"x\",\"rules\":[]}},\"results\":[",
        entry: |out, at| {
            write!(out, "{{\"ruleId\":\"R1\",\"level\":\"error\",\"message\":{{\"text\":\"wrong in {at}\"}},\"locations\":[{{\"physicalLocation\":{{\"artifactLocation\":{{\"uri\":\"src/a.c\"}},\"region\":{{\"startLine\":{at},\"startColumn\":3}}}}}}]}}").unwrap();
        },
        between: ",",
        tail: "]}]}",
    },
    Form {
        name: "pyright's JSON",
        tool: Tool::Pyright,
        file: None,
        head: "{\"version\":\"1\",\"generalDiagnostics\":[",
        entry: |out, at| {
            write!(out, "{{\"file\":\"/workspace/a.py\",\"severity\":\"error\",\"message\":\"no {at}\",\"range\":{{\"start\":{{\"line\":{at},\"character\":2}},\"end\":{{\"line\":{at},\"character\":9}}}},\"rule\":\"reportX\"}}").unwrap();
        },
        between: ",",
        tail: "],\"summary\":{\"filesAnalyzed\":9,\"errorCount\":9,\"warningCount\":0,\"informationCount\":0,\"timeInSec\":1}}",
    },
    Form {
        name: "ESLint's JSON",
        tool: Tool::Eslint,
        file: None,
        head: "[",
        entry: |out, at| {
            write!(out, "{{\"filePath\":\"/workspace/a{at}.js\",\"messages\":[{{\"ruleId\":\"semi\",\"severity\":2,\"message\":\"Missing semicolon.\",\"line\":{at},\"column\":9}}],\"suppressedMessages\":[],\"errorCount\":1,\"fatalErrorCount\":0,\"warningCount\":0}}").unwrap();
        },
        between: ",",
        tail: "]",
    },
    Form {
        name: "Jest's JSON",
        tool: Tool::Jest,
        file: Some("report.json"),
        head: "{\"numFailedTestSuites\":1,\"numFailedTests\":1,\"numPassedTests\":9,\"success\":false,\"testResults\":[{\"name\":\"/workspace/a.test.js\",\"message\":\"\",\"status\":\"failed\",\"assertionResults\":[",
        entry: |out, at| {
            write!(out, "{{\"ancestorTitles\":[\"a\"],\"title\":\"t{at}\",\"status\":\"failed\",\"failureMessages\":[\"Error: no\\n    at Object.<anonymous> (/workspace/a.test.js:{at}:3)\"]}}").unwrap();
        },
        between: ",",
        tail: "]}]}",
    },
    Form {
        name: "TAP",
        tool: Tool::Tap,
        file: None,
        head: "TAP version 13\n",
        entry: |out, at| {
            write!(out, "ok {at} - adds {at}\nnot ok {at} - subtracts {at}\n  ---\n  message: 'no'\n  at: a.js:{at}:2\n  ...\n").unwrap();
        },
        between: "",
        tail: "",
    },
];

/// One output of about `bytes` bytes for each form.
pub fn all(bytes: usize) -> impl Iterator<Item = (String, Tool, RawOutput)> {
    FORMS.iter().map(move |form| {
        let mut text = form.head.to_owned();
        let mut at = 0;
        while text.len() < bytes {
            if at > 0 {
                text.push_str(form.between);
            }
            at += 1;
            (form.entry)(&mut text, at);
        }
        text.push_str(form.tail);
        let mut raw = RawOutput { exit_code: Some(1), ..RawOutput::default() };
        match form.file {
            Some(file) => raw.files.push((file.to_owned(), text.into_bytes())),
            None => raw.stdout = text.into_bytes(),
        }
        (form.name.to_owned(), form.tool, raw)
    })
}
