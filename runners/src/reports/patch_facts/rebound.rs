//! Tests whose words stay while what they say changes: a condition around an assertion, a name that means
//! something else now, an import from elsewhere.
//!
//! New tests are free. These rules are about the lines that a patch adds to a test that was there, or beside
//! it, and need the whole file around the change.

use std::collections::BTreeSet;

use super::diff::{FileDiff, Line, Side};
use super::{FlagKind, PatchFacts};

/// Words that begin a statement which decides whether another one runs.
const DECIDES: &[&str] = &[
    "if", "else", "elif", "match", "while", "for", "loop", "return", "try", "except", "finally", "with",
    "break", "continue", "switch", "case", "unless", "goto", "catch", "raise", "throw", "yield",
];

/// Flags what the added lines do to the tests that were there. `lines` are those of tests.
pub(super) fn look(facts: &mut PatchFacts, file: &FileDiff, lines: &[&Line]) {
    if file.old_path.is_none() || file.deleted || lines.is_empty() {
        return;
    }
    let known: BTreeSet<&str> =
        lines.iter().filter(|line| line.side != Side::Added).flat_map(|line| words(&line.text)).collect();
    let used: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line.side != Side::Removed && import_of(line.text.trim()).is_none())
        .flat_map(|line| words(&line.text))
        .collect();
    let now: Vec<&Line> = lines.iter().copied().filter(|line| line.side != Side::Removed).collect();
    for (at, line) in now.iter().enumerate().filter(|(_, line)| line.side == Side::Added) {
        let text = line.text.trim();
        if text.is_empty() || is_comment(text) {
            continue;
        }
        let place = enclosing(&now, at);
        if place == Place::NewFunction {
            continue;
        }
        let first = text
            .trim_start_matches(['}', ' '])
            .split(|next: char| !next.is_alphanumeric() && next != '_')
            .next();
        let decides =
            first.is_some_and(|word| DECIDES.contains(&word)) || words(text).any(|word| word == "return");
        if place == Place::KnownFunction && decides || bound_names(text).any(|name| known.contains(name)) {
            facts.flag(FlagKind::TestWeakened, file, Some(line.number), &line.text);
        }
    }
    let added: BTreeSet<String> =
        now.iter().filter(|line| line.side == Side::Added).map(|line| plain(&line.text)).collect();
    for line in lines.iter().filter(|line| line.side == Side::Removed) {
        let Some(import) = import_of(line.text.trim()) else { continue };
        let still_used = import.contains('*') || imported_names(import).any(|name| used.contains(name));
        if still_used && !added.contains(&plain(&line.text)) {
            facts.flag(FlagKind::TestWeakened, file, None, &line.text);
        }
    }
}

/// Where an added line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Beside functions.
    Outside,
    /// In a function that the patch adds.
    NewFunction,
    /// In a function that was there.
    KnownFunction,
}

fn enclosing(lines: &[&Line], at: usize) -> Place {
    let mut least = indent(&lines[at].text);
    if is_header(lines[at].text.trim()) && least == 0 {
        return Place::Outside;
    }
    for line in lines[..at].iter().rev() {
        let text = line.text.trim();
        let depth = indent(&line.text);
        if text.is_empty() || depth >= least {
            continue;
        }
        least = depth;
        if is_header(text) {
            return match line.side {
                Side::Added => Place::NewFunction,
                Side::Context | Side::Removed | Side::Header => Place::KnownFunction,
            };
        }
    }
    Place::Outside
}

fn is_header(text: &str) -> bool {
    const BEGINS: [&str; 10] = [
        "def ",
        "async def ",
        "fn ",
        "async fn ",
        "pub fn ",
        "func ",
        "it(",
        "test(",
        "it.each",
        "test.each",
    ];
    const HOLDS: [&str; 3] = [" void ", "function ", "TEST"];
    BEGINS.iter().any(|word| text.starts_with(word)) || HOLDS.iter().any(|word| text.contains(word))
}

fn indent(text: &str) -> usize {
    text.chars().take_while(|next| next.is_whitespace()).map(|next| if next == '\t' { 4 } else { 1 }).sum()
}

fn is_comment(text: &str) -> bool {
    ["//", "#!", "# ", "* ", "/*"].iter().any(|start| text.starts_with(start))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|next: char| !next.is_alphanumeric() && next != '_')
        .filter(|word| word.starts_with(|next: char| next.is_alphabetic() || next == '_'))
}

/// The names that a line gives a meaning to.
fn bound_names(text: &str) -> impl Iterator<Item = &str> {
    let after = ["let mut ", "let ", "const ", "var ", "def ", "class ", "fn ", "function ", "static "]
        .iter()
        .find_map(|word| text.strip_prefix(word));
    let assigned = text.split_once('=').filter(|(left, right)| {
        !right.starts_with('=')
            && !left.ends_with(['!', '<', '>', '=', '+', '-', '*', '/', '|', '&', '^', '%', ':'])
            && left.trim().chars().all(|next| next.is_alphanumeric() || matches!(next, '_' | '.'))
    });
    let defined = after.and_then(|rest| words(rest).next());
    let macro_name = text.strip_prefix("macro_rules!").and_then(|rest| words(rest).next());
    let assigned = assigned.and_then(|(left, _)| words(left).last());
    let imported =
        import_of(text).map(|import| imported_names(import).collect::<Vec<_>>()).unwrap_or_default();
    defined.into_iter().chain(macro_name).chain(assigned).chain(imported)
}

/// What an import names, without its first word.
fn import_of(text: &str) -> Option<&str> {
    ["import ", "from ", "use ", "pub use ", "using ", "#include "]
        .iter()
        .find_map(|word| text.strip_prefix(word))
}

/// The names that an import brings in: those behind `import` in Python, the last ones of a path elsewhere.
fn imported_names(import: &str) -> impl Iterator<Item = &str> {
    let brought = match import.split_once(" import ") {
        Some((_, names)) => names,
        None => match import.split_once('{') {
            Some((_, names)) => names,
            None => import.rsplit("::").next().unwrap_or(import),
        },
    };
    brought.split(',').filter_map(|name| words(name).last())
}

fn plain(text: &str) -> String {
    text.chars().filter(|next| !next.is_whitespace()).collect()
}
