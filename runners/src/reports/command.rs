//! What is added to an admitted command so that its tool answers in its most reliable form.
//!
//! An admitted command is never replaced, only extended, and only where its own words show which program
//! runs: `pytest`, `python3 -m pytest`, `npx jest`, `cargo check` are extended, `make test` and
//! `sh -c ".."` are run as they are and read from their console. A script that hands its own words on is
//! extended as well: `sh -c 'cmake --build build && exec "$@"' sh ctest --test-dir build`. What an admitted
//! command already asks for (its own `--junitxml`, its own `--message-format`) is left as it is.
//!
//! | tool | added | read from |
//! |---|---|---|
//! | pytest | `--junitxml=.whipstitch-reports/<check>.xml -o junit_family=xunit1 -rA` | XML, console, exit code |
//! | cargo test | `--no-fail-fast` | console of each binary, exit code |
//! | cargo-nextest | `--no-fail-fast --message-format libtest-json-plus`, `NEXTEST_EXPERIMENTAL_LIBTEST_JSON=1` | JSON lines, console, exit code |
//! | Jest | `--json --outputFile=.whipstitch-reports/<check>.json` | JSON file, console, exit code |
//! | go test | `-json` | JSON lines, exit code |
//! | Surefire | nothing | `**/target/surefire-reports/TEST-*.xml`, console, exit code |
//! | Gradle | `--console=plain --continue` | `**/build/test-results/**/*.xml`, console, exit code |
//! | dotnet test | `--logger trx --results-directory .whipstitch-reports/<check>` | TRX files, console, exit code |
//! | CTest | `--output-junit .whipstitch-reports/<check>.xml --no-tests=error` | XML, console, exit code |
//! | pyright | `--outputjson` | JSON, exit code |
//! | tsc | `--pretty false` | console, exit code |
//! | cargo check, Clippy | `--message-format=json` | JSON lines, console, exit code |
//! | go vet | `-json` | JSON objects, console, exit code |
//! | ESLint | `-f json` | JSON, exit code |
//! | Ruff | `--output-format=json` | JSON, exit code |
//! | JUnit, SARIF, TAP | nothing | the check's `reports`; TAP on stdout where it names none, exit code |
//!
//! Report files prove something only when they are of this run. So the caller deletes whatever matches
//! `report_files` before the command starts ([`super::files::clear`]) and collects what matches after it
//! ended ([`super::files::collect`]). A tool that was asked for a file and did not write it has not passed,
//! whatever its console says: `must_write`.

use std::collections::BTreeMap;

use jobs::check::{Check, Tool};

/// The folder that added arguments write to, in the check's directory.
pub const REPORT_FOLDER: &str = ".whipstitch-reports";

/// A command that is ready to run, and the files that it will write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedCheck {
    pub argv: Vec<String>,
    /// Added to the environment.
    pub env: BTreeMap<String, String>,
    /// Patterns relative to the check's directory: `*` within a name, `**/` for any folders.
    pub report_files: Vec<String>,
    /// Whether the tool writes one of them in every run that executes a test.
    pub must_write: bool,
}

/// The admitted command, extended for the reader of its tool.
pub fn command(check: &Check) -> PreparedCheck {
    let mut prepared = PreparedCheck {
        argv: check.argv.clone(),
        env: BTreeMap::new(),
        report_files: check.reports.clone(),
        must_write: false,
    };
    let Some(program) = Program::find(&check.argv) else {
        prepared.report_files.extend(native_reports(check.tool).map(str::to_owned));
        return prepared;
    };
    let report = format!("{REPORT_FOLDER}/{}", file_stem(&check.name));
    match check.tool {
        Tool::Pytest if program.is(&["pytest", "py.test"]) => pytest(&mut prepared, &report),
        Tool::CargoTest if program.cargo(&["test", "t"]) => {
            prepared.env.insert("CARGO_TERM_COLOR".to_owned(), "never".to_owned());
            add_before_dashes(&mut prepared.argv, program.end + 1, "--no-fail-fast", &["--no-fail-fast"]);
        }
        Tool::CargoNextest if program.cargo(&["nextest"]) => {
            // The flags are those of `cargo nextest run`, before which a profile or a colour may stand.
            let run = check.argv.iter().position(|word| word == "run" || word == "r");
            if let Some(run) = run.filter(|&run| run > program.end + 1) {
                nextest(&mut prepared, run);
            }
        }
        Tool::Jest if program.is(&["jest", "jest.js"]) => jest(&mut prepared, &report),
        Tool::GoTest if program.is(&["go"]) => {
            add_before_dashes(&mut prepared.argv, program.end + 1, "-json", &["-json"]);
        }
        Tool::Surefire => prepared.report_files.extend(native_reports(check.tool).map(str::to_owned)),
        Tool::Gradle => {
            prepared.report_files.extend(native_reports(check.tool).map(str::to_owned));
            if program.is(&["gradle", "gradlew"]) {
                add(&mut prepared.argv, "--console", &["--console=plain"]);
                add(&mut prepared.argv, "--continue", &["--continue"]);
            }
        }
        Tool::DotnetTest if program.is(&["dotnet"]) => {
            if add_before_dashes(
                &mut prepared.argv,
                program.end + 1,
                "--results-directory",
                &["--logger", "trx", "--results-directory", &report],
            ) {
                prepared.report_files.push(format!("{report}/**/*.trx"));
                prepared.must_write = true;
            }
            prepared.env.insert("DOTNET_CLI_UI_LANGUAGE".to_owned(), "en".to_owned());
        }
        Tool::Ctest if program.is(&["ctest"]) => {
            let file = format!("{report}.xml");
            if add(&mut prepared.argv, "--output-junit", &["--output-junit", &file]) {
                // CTest puts a relative file below its build folder.
                prepared.report_files.push(format!("**/{file}"));
                prepared.must_write = true;
            }
            add(&mut prepared.argv, "--no-tests", &["--no-tests=error"]);
        }
        Tool::Pyright if program.is(&["pyright", "basedpyright"]) => {
            add(&mut prepared.argv, "--outputjson", &["--outputjson"]);
        }
        Tool::Tsc if program.is(&["tsc"]) => {
            add(&mut prepared.argv, "--pretty", &["--pretty", "false"]);
        }
        Tool::CargoCheck | Tool::Clippy if program.cargo(&["check", "c", "clippy", "build"]) => {
            add_before_dashes(
                &mut prepared.argv,
                program.end + 1,
                "--message-format",
                &["--message-format=json"],
            );
        }
        Tool::GoVet if program.is(&["go"]) => {
            add_before_dashes(&mut prepared.argv, program.end + 1, "-json", &["-json"]);
        }
        Tool::Eslint if program.is(&["eslint", "eslint.js"]) => {
            if !prepared.argv.iter().any(|word| word == "--format" || word.starts_with("--format=")) {
                add(&mut prepared.argv, "-f", &["-f", "json"]);
            }
        }
        Tool::Ruff if program.is(&["ruff"]) => {
            add_before_dashes(
                &mut prepared.argv,
                program.end + 1,
                "--output-format",
                &["--output-format=json"],
            );
        }
        Tool::Pytest
        | Tool::CargoTest
        | Tool::CargoNextest
        | Tool::Jest
        | Tool::GoTest
        | Tool::DotnetTest
        | Tool::Ctest
        | Tool::Pyright
        | Tool::Tsc
        | Tool::CargoCheck
        | Tool::Clippy
        | Tool::GoVet
        | Tool::Eslint
        | Tool::Ruff
        | Tool::Junit
        | Tool::Tap
        | Tool::Sarif => {}
    }
    prepared
}

/// Where a tool writes reports without being asked to.
fn native_reports(tool: Tool) -> impl Iterator<Item = &'static str> {
    let patterns: &[&str] = match tool {
        Tool::Surefire => &["**/target/surefire-reports/TEST-*.xml", "**/target/failsafe-reports/TEST-*.xml"],
        Tool::Gradle => &["**/build/test-results/**/*.xml"],
        Tool::Pytest
        | Tool::CargoTest
        | Tool::CargoNextest
        | Tool::Jest
        | Tool::GoTest
        | Tool::DotnetTest
        | Tool::Ctest
        | Tool::Pyright
        | Tool::Tsc
        | Tool::CargoCheck
        | Tool::Clippy
        | Tool::GoVet
        | Tool::Eslint
        | Tool::Ruff
        | Tool::Junit
        | Tool::Tap
        | Tool::Sarif => &[],
    };
    patterns.iter().copied()
}

/// The program in an argument array, after the launchers that stand before it.
struct Program<'a> {
    argv: &'a [String],
    name: &'a str,
    /// Index of its word.
    end: usize,
}

impl<'a> Program<'a> {
    /// Finds the program behind `env`, `python -m`, `npx`, `uv run` and their like; `None` for shells.
    fn find(argv: &'a [String]) -> Option<Self> {
        let mut at = 0;
        loop {
            let name = super::text::base_name(argv.get(at)?);
            let next = argv.get(at + 1).map(String::as_str);
            at += match (name, next) {
                // A script that ends in its own words: after it stands its name, then they.
                ("sh" | "bash" | "dash", Some("-c" | "-ec" | "-euc"))
                    if argv.get(at + 2).is_some_and(|script| hands_on(script)) =>
                {
                    4
                }
                ("sh" | "bash" | "dash" | "zsh" | "make" | "just" | "tox" | "nox", _) => return None,
                ("env", Some(_)) => 1,
                ("npx" | "bunx", Some("--yes" | "-y" | "--no-install" | "--no")) => 2,
                ("npx" | "bunx", Some(_)) => 1,
                ("pnpm" | "yarn" | "npm", Some("exec" | "dlx")) => 2,
                ("yarn" | "pnpm", Some(_)) => 1,
                ("uv" | "poetry" | "pdm" | "pipenv" | "hatch" | "rye", Some("run")) => 2,
                (python, Some("-m")) if python.starts_with("python") || python.starts_with("pypy") => 2,
                ("node", Some(script)) if !script.starts_with('-') => 1,
                (word, Some(_)) if word.contains('=') && !word.starts_with('-') => 1,
                ("--", Some(_)) => 1,
                _ => return Some(Self { argv, name, end: at }),
            };
        }
    }

    fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name)
    }

    /// Whether it is cargo with one of the subcommands, before which a toolchain may stand.
    fn cargo(&self, subcommands: &[&str]) -> bool {
        let next = self.argv.get(self.end + 1).map(String::as_str);
        self.name == "cargo" && next.is_some_and(|word| subcommands.contains(&word))
    }
}

/// Whether a script's last command is the words that it was given.
fn hands_on(script: &str) -> bool {
    let last = script.trim_end().rsplit(['\n', ';', '&', '|']).next().unwrap_or_default().trim();
    last.strip_prefix("exec").unwrap_or(last).trim() == "\"$@\""
}

/// Adds words before a `--` unless the flag is there already; tells whether it did.
fn add(argv: &mut Vec<String>, flag: &str, words: &[&str]) -> bool {
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    insert(argv, end, flag, words)
}

/// The same, directly after the subcommand at `at`.
fn add_before_dashes(argv: &mut Vec<String>, at: usize, flag: &str, words: &[&str]) -> bool {
    let at = (at + 1).min(argv.len());
    insert(argv, at, flag, words)
}

fn insert(argv: &mut Vec<String>, at: usize, flag: &str, words: &[&str]) -> bool {
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let with_value = format!("{flag}=");
    if argv[..end].iter().any(|word| word == flag || word.starts_with(&with_value)) {
        return false;
    }
    argv.splice(at..at, words.iter().map(|&word| word.to_owned()));
    true
}

fn pytest(prepared: &mut PreparedCheck, report: &str) {
    let file = format!("{report}.xml");
    if prepared.argv.iter().any(|word| word.starts_with("--junitxml") || word.starts_with("--junit-xml")) {
        prepared.report_files.extend(own_value(&prepared.argv, &["--junitxml", "--junit-xml"]));
    } else {
        add(&mut prepared.argv, "--junitxml", &[&format!("--junitxml={file}"), "-o", "junit_family=xunit1"]);
        prepared.report_files.push(file);
    }
    prepared.must_write = true;
    add(&mut prepared.argv, "-rA", &["-rA"]);
    prepared.env.insert("PY_COLORS".to_owned(), "0".to_owned());
}

fn nextest(prepared: &mut PreparedCheck, at: usize) {
    prepared.env.insert("NEXTEST_EXPERIMENTAL_LIBTEST_JSON".to_owned(), "1".to_owned());
    add_before_dashes(&mut prepared.argv, at, "--message-format", &["--message-format", "libtest-json-plus"]);
    add_before_dashes(&mut prepared.argv, at, "--no-fail-fast", &["--no-fail-fast"]);
    prepared.report_files.push("target/nextest/*/junit.xml".to_owned());
}

fn jest(prepared: &mut PreparedCheck, report: &str) {
    prepared.must_write = true;
    if let Some(own) = own_value(&prepared.argv, &["--outputFile"]) {
        prepared.report_files.push(own);
        return;
    }
    let file = format!("{report}.json");
    add(&mut prepared.argv, "--json", &["--json"]);
    add(&mut prepared.argv, "--outputFile", &[&format!("--outputFile={file}")]);
    prepared.report_files.push(file);
}

/// The value of a flag that the admitted command has itself.
fn own_value(argv: &[String], flags: &[&str]) -> Option<String> {
    let at = argv.iter().position(|word| {
        flags
            .iter()
            .any(|flag| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
    })?;
    match argv[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => argv.get(at + 1).cloned(),
    }
}

/// A check's name as a file name.
fn file_stem(name: &str) -> String {
    let stem: String =
        name.chars().map(|next| if next.is_ascii_alphanumeric() { next } else { '-' }).take(80).collect();
    if stem.is_empty() { "check".to_owned() } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(tool: Tool, argv: &[&str]) -> String {
        command(&Check::new("unit tests", tool, argv)).argv.join(" ")
    }

    #[test]
    fn flags_stand_where_their_tool_takes_them() {
        for (tool, argv, wanted) in [
            (
                Tool::Pytest,
                ["python3", "-m", "pytest", "-q"].as_slice(),
                "python3 -m pytest -q --junitxml=.whipstitch-reports/unit-tests.xml -o junit_family=xunit1 -rA",
            ),
            (
                Tool::CargoTest,
                &["cargo", "test", "--lib", "--", "--nocapture"],
                "cargo test --no-fail-fast --lib -- --nocapture",
            ),
            (
                Tool::CargoNextest,
                &["cargo", "nextest", "run", "--workspace"],
                "cargo nextest run --no-fail-fast --message-format libtest-json-plus --workspace",
            ),
            (
                Tool::Jest,
                &["npx", "jest", "unit"],
                "npx jest unit --json --outputFile=.whipstitch-reports/unit-tests.json",
            ),
            (Tool::GoTest, &["go", "test", "./..."], "go test -json ./..."),
            (
                Tool::Clippy,
                &["cargo", "clippy", "--", "-D", "warnings"],
                "cargo clippy --message-format=json -- -D warnings",
            ),
            (Tool::Ruff, &["ruff", "check", "."], "ruff check --output-format=json ."),
        ] {
            assert_eq!(prepared(tool, argv), wanted);
        }
    }

    #[test]
    fn what_a_command_asks_for_itself_and_what_a_shell_runs_stay() {
        for (tool, argv) in [
            (Tool::CargoNextest, ["cargo", "nextest", "list"].as_slice()),
            (Tool::Pytest, &["make", "test"]),
            (Tool::Pytest, &["sh", "-c", "pytest"]),
            (Tool::Ruff, &["ruff", "check", "--output-format", "json"]),
        ] {
            assert_eq!(prepared(tool, argv), argv.join(" "));
        }
    }

    #[test]
    fn a_script_that_hands_its_words_on_is_extended() {
        let script = "cmake --build build && exec \"$@\"";
        let check = Check::new("c", Tool::Ctest, &["sh", "-c", script, "sh", "ctest", "--test-dir", "build"]);
        let prepared = command(&check);
        assert_eq!(
            prepared.argv[4..],
            [
                "ctest",
                "--test-dir",
                "build",
                "--output-junit",
                ".whipstitch-reports/c.xml",
                "--no-tests=error"
            ]
        );
        assert_eq!(prepared.report_files, ["**/.whipstitch-reports/c.xml"]);
        assert!(prepared.must_write);
        let other = Check::new("c", Tool::Ctest, &["sh", "-c", "ctest $1", "sh", "ctest"]);
        assert_eq!(command(&other).argv, other.argv);
    }
}
