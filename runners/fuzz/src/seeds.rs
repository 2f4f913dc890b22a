//! Writes the corpus's real outputs as the first inputs of each reader's target, and some patches and
//! replacements as those of the appliers. `runners/fuzz/run` compiles it by itself.
#![allow(clippy::unwrap_used, reason = "a tool that stops at what it cannot read")]

use std::fs;
use std::path::{Path, PathBuf};

const SEPARATOR: &[u8] = &[0x1e];
/// Longer parts are cut: a short input is mutated faster.
const PART: usize = 16 << 10;

/// Targets whose folder in the corpus has another name.
const RENAMED: [(&str, &str); 2] = [("nextest", "cargo-nextest"), ("cargo-clippy", "clippy")];
/// Targets without outputs of their own, and the folder whose report files suit them.
const BORROWED: [(&str, &str); 1] = [("junit", "surefire")];

const TAP: &[&str] = &[
    "TAP version 13\n1..3\nok 1 - one\nnot ok 2 - two\n  ---\n  message: 'x'\n  at: a.js:3:4\n  ...\nok 3 # SKIP later\n",
    "ok 1\nnot ok 2 # TODO why\nBail out! no\n1..2\n",
];
const SARIF: &[&str] = &[
    r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x","rules":[{"id":"R","defaultConfiguration":{"level":"error"}}]}},"results":[{"ruleId":"R","message":{"text":"m"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.c"},"region":{"startLine":1,"startColumn":2}}}]}]}]}"#,
];
const PATCHES: &[&str] = &[
    "one\ntwo\nthree\n\u{1e}\u{1e}\u{1e}a.txt\u{1e}--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    "one\u{1e}x\u{1e}y\u{1e}a.txt\u{1e}diff --git a/a.txt b/new.txt\nold mode 100644\nnew mode 100755\nsimilarity index 50%\nrename from a.txt\nrename to new.txt\n--- a/a.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n",
    "a\r\nb\r\n\u{1e}x\n\u{1e}y\u{1e}a.txt\u{1e}```diff\ndiff --git a/src/b c.rs b/src/b c.rs\ndeleted file mode 100755\n--- \"a/src/b c.rs\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- a.txt\n+++ a.txt\n@@ -1,9 @@\n a\n-b\n+c\n```\n",
    "\u{1e}\u{1e}\u{1e}\u{1e}diff --git a/n b/n\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..2e65efe2a145dda7ee51d1741299f848e5bf752e\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n",
];
const REPLACEMENTS: &[&str] = &["\u{0}a b a\n\u{1e}b\u{1e}c\u{1e}a", "\u{3}a\r\nb\r\n\u{1e}a\nb\u{1e}x\ny\u{1e}a"];

fn main() {
    let into = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "corpus".to_owned()));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    for tool in folders(&corpus) {
        let folder = tool.file_name().unwrap().to_str().unwrap().to_owned();
        let renamed = RENAMED.iter().find(|(from, _)| *from == folder).map(|(_, to)| (*to).to_owned());
        let borrowed = BORROWED.iter().filter(|(_, from)| *from == folder).map(|(to, _)| (*to).to_owned());
        for target in [renamed.unwrap_or_else(|| folder.clone())].into_iter().chain(borrowed) {
            for case in folders(&tool) {
                let name = case.file_name().unwrap().to_str().unwrap();
                write(&into, &target, name, &seed(&case));
            }
        }
    }
    for (target, head, texts) in
        [("tap", "\0", TAP), ("sarif", "\0", SARIF), ("apply_patch", "", PATCHES), ("str_replace", "", REPLACEMENTS)]
    {
        for (number, text) in texts.iter().enumerate() {
            write(&into, target, &number.to_string(), format!("{head}{text}").as_bytes());
        }
    }
}

fn folders(root: &Path) -> Vec<PathBuf> {
    fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

fn seed(case: &Path) -> Vec<u8> {
    let part = |path: PathBuf| {
        let mut bytes = fs::read(path).unwrap_or_default();
        bytes.truncate(PART);
        bytes.retain(|byte| !SEPARATOR.contains(byte));
        bytes
    };
    let code: i32 = String::from_utf8(fs::read(case.join("exit_code")).unwrap()).unwrap().trim().parse().unwrap_or(0);
    let head = match code {
        0..=5 => u8::try_from(code).unwrap(),
        8 => 6,
        100 => 7,
        101 => 8,
        _ => 1,
    };
    let file = first_file(&case.join("files")).map(part).unwrap_or_default();
    let parts = [part(case.join("stdout")), part(case.join("stderr")), file];
    [vec![head], parts.join(SEPARATOR)].concat()
}

fn first_file(folder: &Path) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.into_iter().find_map(|path| if path.is_dir() { first_file(&path) } else { Some(path) })
}

fn write(into: &Path, target: &str, name: &str, bytes: &[u8]) {
    let folder = into.join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("seed-{name}")), bytes).unwrap();
}
