//! Code that leaves the test process, reaches around its runner, or knows that it is being tested.
//!
//! What is repaired runs in the same process as the tests, so it could stop the tests or answer for them, and
//! no report could tell. So a patch that adds the means for it is flagged, whatever it is meant for.

use super::diff::{FileDiff, Line};
use super::patterns::{CMAKE, GO, In, JVM, NATIVE, PYTHON, RUST, SCRIPT, Word, counts_in, squeeze, surplus};
use super::test_code::is_test_path;
use super::{FlagKind, PatchFacts};

/// Words without white space, in lower case, and where they count.
const WORDS: &[Word] = &[
    // Leaving.
    ("exit_success", In::Code),
    ("runtime.halt(", In::Code),
    ("runtime.getruntime().halt(", In::Code),
    ("os._exit", PYTHON),
    ("systemexit", PYTHON),
    ("os.exec", PYTHON),
    ("posix_spawn", PYTHON),
    ("os.fork", PYTHON),
    ("os.setsid", PYTHON),
    ("start_new_session", PYTHON),
    ("os.dup2", PYTHON),
    ("os.kill(", PYTHON),
    ("atexit", PYTHON),
    ("pytest.exit(", PYTHON),
    ("commandext", RUST),
    ("process::exit", RUST),
    ("process::{exit", RUST),
    ("asm!(", RUST),
    ("extern\"c\"", RUST),
    ("libc::_exit", RUST),
    ("libc::exit", RUST),
    ("process.reallyexit", SCRIPT),
    ("syscall.exit", GO),
    ("functestmain(", GO),
    ("nohup", In::Code),
    ("exit(", In::Tests),
    ("quit(", In::Tests),
    ("abort()", In::Tests),
    ("catch_unwind", In::Tests),
    ("recover()", In::Tests),
    ("daemon=true", In::Tests),
    ("setsid", In::Tests),
    // Reaching around the runner.
    ("pytest_sessionfinish", In::Code),
    ("pytest_runtest", In::Code),
    ("pytest_collection", In::Code),
    ("pytest_terminal_summary", In::Code),
    ("pytest_report", In::Code),
    ("pytest_pyfunc_call", In::Code),
    ("pytest_assertion_pass", In::Code),
    ("hookwrapper", PYTHON),
    ("hookimpl", PYTHON),
    ("import_pytest", PYTHON),
    ("from_pytest", PYTHON),
    ("pluggy", PYTHON),
    ("builtins", PYTHON),
    ("sys.modules", PYTHON),
    ("sys.stdout=", PYTHON),
    ("sys.stderr=", PYTHON),
    ("sys.__stdout__", PYTHON),
    ("sys.settrace", PYTHON),
    ("sys.setprofile", PYTHON),
    ("sys.meta_path", PYTHON),
    ("sys.path_hooks", PYTHON),
    ("sys.excepthook", PYTHON),
    ("sys._getframe", PYTHON),
    ("inspect.stack", PYTHON),
    ("inspect.currentframe", PYTHON),
    ("gc.get_", PYTHON),
    ("ctypes", PYTHON),
    ("marshal", PYTHON),
    ("__import__", PYTHON),
    ("import_module(", PYTHON),
    ("importlib.util", PYTHON),
    ("importlib.machinery", PYTHON),
    ("importlib.reload", PYTHON),
    ("__dict__[", PYTHON),
    ("globals()", PYTHON),
    ("getattr(os", PYTHON),
    ("getattr(sys", PYTHON),
    ("vars(os", PYTHON),
    ("vars(sys", PYTHON),
    ("assertionerror=", PYTHON),
    ("panic::set_hook", RUST),
    ("macro_rules!assert", RUST),
    ("macro_rules!panic", RUST),
    ("asassert_eq", RUST),
    ("asassert}", RUST),
    ("asassert;", RUST),
    ("#[path=", RUST),
    ("#[global_allocator]", RUST),
    ("#[ctor", RUST),
    ("#[no_mangle]", RUST),
    ("unsafe(no_mangle)", RUST),
    ("export_name=", RUST),
    ("link_section=", RUST),
    ("require.cache", SCRIPT),
    ("module._load", SCRIPT),
    ("globalthis.expect", SCRIPT),
    ("globalthis.test", SCRIPT),
    ("global.expect", SCRIPT),
    ("global.test", SCRIPT),
    ("newfunction(", SCRIPT),
    ("__attribute__((constructor", NATIVE),
    ("__attribute__((destructor", NATIVE),
    ("setaccessible(true", JVM),
    ("addshutdownhook", JVM),
    ("securitymanager", JVM),
    ("execute_process(", CMAKE),
    // Knowing that a test is looking.
    ("pytest_current_test", In::Code),
    ("jest_worker_id", In::Code),
    ("nextest_", RUST),
    ("cfg!(test)", RUST),
    ("testing.testing()", GO),
];

/// The same where the file is none of tests.
const OUTSIDE_OF_TESTS: &[Word] = &[
    ("importpytest", PYTHON),
    ("frompytest", PYTHON),
    ("importunittest", PYTHON),
    ("fromunittest", PYTHON),
    ("\"pytest\"", PYTHON),
    ("'pytest'", PYTHON),
];

/// Functions that end the process, bare or of these modules.
const EXITS: &[&str] = &["exit", "_exit", "quit", "halt", "quick_exit", "_exit2"];
const EXIT_MODULES: &[&str] =
    &["sys", "os", "process", "runtime", "libc", "builtins", "system", "site", "environment", "std"];
/// Functions that run text as code.
const RUN_TEXT: &[&str] = &["exec", "eval", "compile", "execfile"];

/// Flags what a file's added lines do to the process and the runner.
pub(super) fn look(facts: &mut PatchFacts, file: &FileDiff) {
    let path = file.path().to_lowercase();
    if [".md", ".rst", ".adoc", ".txt"].iter().any(|end| path.ends_with(end)) && !path.ends_with("lists.txt")
    {
        return;
    }
    let tests = is_test_path(&path);
    let added: Vec<(&Line, String)> = file.added().map(|line| (line, squeeze(&line.text))).collect();
    let removed: Vec<String> = file.removed().map(|line| squeeze(&line.text)).collect();
    let outside = OUTSIDE_OF_TESTS.iter().filter(|_| !tests);
    for (word, _) in WORDS.iter().chain(outside).filter(|(_, place)| counts_in(*place, &path, tests)) {
        surplus(facts, file, FlagKind::EarlyExit, (&added, &removed), |line| line.contains(*word));
    }
    // White space matters here: `return exit(0)` must not become one word.
    let added: Vec<(&Line, String)> = file.added().map(|line| (line, line.text.to_lowercase())).collect();
    let removed: Vec<String> = file.removed().map(|line| line.text.to_lowercase()).collect();
    surplus(facts, file, FlagKind::EarlyExit, (&added, &removed), |line| leaves(line, &path));
    always_equal(facts, file, &path);
}

/// Whether a line ends the process in a way that can be taken for success, or runs text as code.
fn leaves(line: &str, path: &str) -> bool {
    let python = path.ends_with(".py");
    let script = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs"].iter().any(|end| path.ends_with(end));
    calls(line).any(|call| {
        let bare = call.owner.is_none();
        if (python || script) && bare && RUN_TEXT.contains(&call.name) {
            return !(script && call.name != "eval");
        }
        let process = call.owner.is_none_or(|owner| EXIT_MODULES.contains(&owner));
        if !process || !EXITS.contains(&call.name) || call.defined {
            return false;
        }
        let code: String = call.rest.chars().take_while(|next| *next != ')').collect();
        let code = code.trim();
        // A code that is no success cannot pretend one; `main` gives what it found.
        let no_success = code.parse::<i64>().is_ok_and(|code| code != 0);
        !no_success && !code.starts_with("main(")
    })
}

struct Call<'a> {
    name: &'a str,
    /// The word before the dot or the colons.
    owner: Option<&'a str>,
    /// Whether a word such as `def` stands before it.
    defined: bool,
    /// What stands behind the opening parenthesis.
    rest: &'a str,
}

/// The calls of a line: words before a parenthesis.
fn calls(line: &str) -> impl Iterator<Item = Call<'_>> {
    let is_word = |next: char| next.is_alphanumeric() || next == '_';
    line.match_indices('(').filter_map(move |(at, _)| {
        let before = line[..at].trim_end();
        let start = before
            .rfind(|next| !is_word(next))
            .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8));
        let name = &before[start..];
        if name.is_empty() {
            return None;
        }
        let ahead = before[..start].trim_end();
        let owner = ahead
            .strip_suffix('.')
            .or_else(|| ahead.strip_suffix("::"))
            .map(|owner| owner.trim_end().rsplit(|next| !is_word(next)).next().unwrap_or_default());
        let defined = ["def", "fn", "func", "function", "void", "int"]
            .iter()
            .any(|word| ahead.split_whitespace().next_back() == Some(word));
        Some(Call { name, owner, defined, rest: &line[at + 1..] })
    })
}

/// A value that says that it is equal to whatever it is compared with.
fn always_equal(facts: &mut PatchFacts, file: &FileDiff, path: &str) {
    let begins: &[&str] = if path.ends_with(".py") {
        &["def__eq__(", "def__ne__(", "__eq__=", "__ne__="]
    } else if path.ends_with(".rs") {
        &["fneq(", "fnne("]
    } else if [".java", ".kt", ".cs"].iter().any(|end| path.ends_with(end)) {
        &["booleanequals(", "boolequals("]
    } else {
        return;
    };
    let added: Vec<(&Line, String)> = file.added().map(|line| (line, squeeze(&line.text))).collect();
    for (at, (line, text)) in added.iter().enumerate() {
        if !begins.iter().any(|word| text.contains(word)) {
            continue;
        }
        let next = added.get(at + 1).map(|(_, text)| text.as_str()).unwrap_or_default();
        let says = |text: &str| {
            ["returntrue", "{true}", ":true", "lambda*_:true", "returnfalse", "{false}"]
                .iter()
                .any(|word| text.contains(word))
                || matches!(text, "true" | "false")
        };
        if says(text) || says(next) {
            facts.flag(FlagKind::TestWeakened, file, Some(line.number), &line.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_that_can_be_taken_for_success_is_told_from_one_that_cannot() {
        for (path, line) in [
            ("a.py", "    sys.exit()"),
            ("a.py", "    if x: exit(0)"),
            ("a.py", "    return exit (code)"),
            ("a.py", "    quit()"),
            ("a.py", "    exec(text)"),
            ("src/lib.rs", "    std::process::exit(code)"),
            ("src/lib.rs", "    { exit(0) }"),
            ("a.js", "  process.exit(code)"),
            ("a.js", "  eval(code)"),
            ("A.java", "    System.exit(0);"),
        ] {
            assert!(leaves(&line.to_lowercase(), path), "{line}");
        }
        for (path, line) in [
            ("a.py", "    sys.exit(1)"),
            ("a.py", "    sys.exit(main())"),
            ("a.py", "    def exit(self):"),
            ("a.py", "    dialog.exit(0)"),
            ("a.py", "    on_exit(0)"),
            ("a.py", "    pattern = re.compile(text)"),
            ("src/lib.rs", "    std::process::exit(2)"),
            ("a.js", "  const found = pattern.exec(text)"),
            ("a.js", "  const found = compile(text)"),
        ] {
            assert!(!leaves(&line.to_lowercase(), path), "{line}");
        }
    }
}
