//! A tool that is not there: how shells, interpreters and launchers say so, and what to install.
//!
//! Nothing was looked at then, so the run proves nothing; the words help whoever set the check up.

use jobs::check::Tool;

use super::reading::Input;
use super::text;

/// Lines at the end of each stream that are looked at.
const LINES: usize = 40;

/// What is not there and what would bring it, where the output's end tells.
pub(super) fn told(input: &Input<'_>) -> Option<String> {
    let last = |stream: &'_ str| stream.lines().rev().take(LINES).find_map(|line| absent(line.trim()));
    let what = last(&input.stderr).or_else(|| last(&input.stdout))?;
    let what = text::cut(&what, 200);
    Some(match remedy(input.check.tool, &what) {
        Some(remedy) => format!("{what} is not installed where the check runs; {remedy}"),
        None => format!("{what} is not installed where the check runs; install it or correct the check"),
    })
}

/// The program or module that a line says is absent.
fn absent(line: &str) -> Option<String> {
    python_module(line)
        .or_else(|| node_module(line))
        .or_else(|| cargo_command(line))
        .or_else(|| command(line))
}

/// `/usr/bin/python3: No module named pytest`, as `python -m` says it.
fn python_module(line: &str) -> Option<String> {
    let (program, module) = line.split_once(": No module named ")?;
    let name = text::base_name(program);
    let python = name.starts_with("python") || name.starts_with("pypy");
    let module = module.trim_matches(['\'', '"']);
    (python && is_name(module)).then(|| module.to_owned())
}

/// `Error: Cannot find module '/w/node_modules/jest/bin/jest.js'`, as node says of the script itself, and
/// what npx says of a package that it may not fetch.
fn node_module(line: &str) -> Option<String> {
    if line.starts_with("This is not the tsc command you are looking for") {
        return Some("typescript".to_owned());
    }
    if let Some(rest) = line.strip_prefix("npm ERR! ").or_else(|| line.strip_prefix("npm error ")) {
        let canceled = rest.strip_prefix("npx canceled due to missing packages and no YES option: [");
        if let Some(names) = canceled {
            let name = names.trim_matches(['"', ']', '\'', ' ']);
            return Some(name.rsplit_once('@').map_or(name, |(name, _)| name).to_owned());
        }
        return rest.starts_with("could not determine executable to run").then(|| "the program".to_owned());
    }
    let path = line.strip_prefix("Error: Cannot find module '")?.split('\'').next()?;
    let (_, inside) = path.rsplit_once("/node_modules/")?;
    let mut names = inside.split('/');
    let first = names.next()?;
    Some(match names.next() {
        Some(second) if first.starts_with('@') => format!("{first}/{second}"),
        Some(_) | None if first == ".bin" => text::base_name(inside).to_owned(),
        Some(_) | None => first.to_owned(),
    })
}

/// ``error: no such command: `nextest` `` and `error: 'cargo-clippy' is not installed for the toolchain ..`.
fn cargo_command(line: &str) -> Option<String> {
    let rest = line.strip_prefix("error: ")?;
    if let Some(name) =
        rest.strip_prefix("no such command: `").or_else(|| rest.strip_prefix("no such subcommand: `"))
    {
        return Some(format!("cargo-{}", name.split('`').next()?));
    }
    let (name, _) = rest.split_once(" is not installed for the toolchain ")?;
    Some(text::base_name(name.trim_matches(['\'', '`'])).trim_end_matches(".exe").to_owned())
}

/// `sh: 1: jest: not found`, `bash: line 1: jest: command not found`, `env: 'jest': No such file or directory`.
fn command(line: &str) -> Option<String> {
    let shells = ["sh", "bash", "dash", "zsh", "env", "make", "time", "timeout", "xvfb-run", "nice"];
    let (program, _) = line.split_once(": ")?;
    if !shells.contains(&text::base_name(program)) {
        return None;
    }
    let ends = [": command not found", ": not found", ": No such file or directory"];
    let head = ends.iter().find_map(|end| line.strip_suffix(end))?;
    let name = head.rsplit(": ").next()?.trim_matches(['\'', '`', '"', '\u{2018}', '\u{2019}']);
    is_name(text::base_name(name)).then(|| name.to_owned())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@+".contains(&byte))
}

/// How a check's own tool is brought in.
fn remedy(tool: Tool, what: &str) -> Option<String> {
    let name = text::base_name(what);
    let python = |package: &str| {
        Some(format!("add {package} to the project's requirements, or install it where the check runs"))
    };
    let node = |package: &str| Some(format!("add {package} to devDependencies in package.json"));
    match tool {
        Tool::Pytest if name.contains("pytest") => python("pytest"),
        Tool::Ruff if name == "ruff" => python("ruff"),
        Tool::Pyright if name == "pyright" => python("pyright"),
        Tool::Jest if name == "jest" => node("jest"),
        Tool::Tsc if matches!(name, "tsc" | "typescript") => node("typescript"),
        Tool::Eslint if name == "eslint" => node("eslint"),
        Tool::CargoNextest if name == "cargo-nextest" => Some("run `cargo install cargo-nextest`".to_owned()),
        Tool::Clippy if name == "cargo-clippy" => Some("run `rustup component add clippy`".to_owned()),
        Tool::Pytest
        | Tool::CargoTest
        | Tool::CargoNextest
        | Tool::Jest
        | Tool::GoTest
        | Tool::Surefire
        | Tool::Gradle
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
        | Tool::Sarif => None,
    }
}

#[cfg(test)]
mod tests {
    use jobs::check::Check;
    use jobs::verdict::CheckOutcome;

    use super::*;
    use crate::reports::{RawOutput, read};

    #[test]
    fn a_tool_that_is_not_there_is_named_with_what_brings_it() {
        for (tool, code, said, what) in [
            (Tool::Pytest, 1, "/usr/bin/python3: No module named pytest\n", "pytest is not installed"),
            (
                Tool::Pytest,
                1,
                "python: No module named 'pytest'\n",
                "add pytest to the project's requirements",
            ),
            (Tool::Ruff, 127, "sh: 1: ruff: not found\n", "ruff is not installed"),
            (Tool::Jest, 127, "bash: line 1: jest: command not found\n", "jest is not installed"),
            (
                Tool::Jest,
                1,
                "Error: Cannot find module '/w/node_modules/jest/bin/jest.js'\n    at x (node:1:2)\n",
                "add jest to devDependencies",
            ),
            (
                Tool::Eslint,
                1,
                "npm error npx canceled due to missing packages and no YES option: [\"eslint@9.1.0\"]\n",
                "eslint is not installed",
            ),
            (
                Tool::Tsc,
                1,
                "\n                This is not the tsc command you are looking for                \n",
                "typescript is not installed",
            ),
            (
                Tool::CargoNextest,
                101,
                "error: no such command: `nextest`\n\nhelp: x\n",
                "cargo install cargo-nextest",
            ),
            (
                Tool::Clippy,
                1,
                "error: 'cargo-clippy' is not installed for the toolchain 'stable'\n",
                "rustup component add clippy",
            ),
            (
                Tool::Junit,
                127,
                "env: \u{2018}vitest\u{2019}: No such file or directory\n",
                "vitest is not installed",
            ),
        ] {
            let raw =
                RawOutput { exit_code: Some(code), stderr: said.as_bytes().to_vec(), ..RawOutput::default() };
            let report = read(&Check::new("check", tool, &["x"]), &raw);
            let CheckOutcome::Inconclusive(why) = &report.outcome else {
                panic!("{tool:?}: {said:?} is {:?}", report.outcome)
            };
            assert!(why.contains(what), "{tool:?}: {why}");
        }
    }

    #[test]
    fn a_module_that_a_test_lacks_is_no_absent_tool() {
        assert_eq!(absent("ModuleNotFoundError: No module named 'requests'"), None);
        assert_eq!(absent("E   ImportError: No module named x"), None);
        assert_eq!(absent("cat: x: No such file or directory"), None);
        assert_eq!(absent("Error: Cannot find module './own'"), None);
    }
}
