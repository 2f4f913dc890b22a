//! Random trees, random changes of them, and damage to patches; the same for the same seed.

use std::collections::BTreeMap;

use runners::workspace::{Entry, Mode, Tree, TreePath};

/// A small generator of numbers (SplitMix64), so that a seed names a case for good.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Whether something happens that happens once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// Names that git writes plain and quoted, at the root and deep.
const NAMES: [&str; 14] = [
    "a.txt",
    "b c.txt",
    "d/e.rs",
    "d/f/g \"q\".md",
    "d/f/h.rs",
    "\u{fc}n\u{ef}.txt",
    "i.bin",
    "z/last",
    "tab\there",
    "back\\slash",
    "-dash",
    "new\nline.txt",
    "d/ends with space ",
    "1",
];

const LINES: [&str; 12] = [
    "one\n",
    "two\n",
    "three\r\n",
    "\n",
    "  four\n",
    "gr\u{f6}\u{df}e\n",
    "-- \n",
    "@@ -1 +1 @@\n",
    "--- a/a.txt\n",
    "+++ b/a.txt\n",
    "\\ No newline at end of file\n",
    "fn main() {}\n",
];

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn text(random: &mut Random) -> Vec<u8> {
    let count = random.pick(&[0, 1, 1, 2, 3, 5, 8, 13, 30]);
    let mut bytes = Vec::new();
    // Few different lines, so that one hunk fits at several places.
    let kinds = 1 + random.below(LINES.len());
    for number in 0..count {
        if random.once_in(3) {
            bytes.extend_from_slice(format!("line {number}\n").as_bytes());
        } else {
            bytes.extend_from_slice(LINES[random.below(kinds)].as_bytes());
        }
    }
    match random.below(6) {
        0 => drop(bytes.pop()),
        1 => {
            bytes = String::from_utf8(bytes).unwrap().replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
        }
        _ => {}
    }
    bytes
}

fn bytes(random: &mut Random) -> Vec<u8> {
    let count = random.pick(&[1, 10, 100, 3000]);
    let mut content: Vec<u8> = (0..count).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    content.push(0);
    content
}

fn entry(random: &mut Random) -> Entry {
    match random.below(12) {
        0 => {
            let targets = ["a.txt", "d", "nowhere", "d/../a.txt", "/outside"];
            // Links that lead out are never laid out, so the other kinds are what can be compared.
            Entry::new(Mode::Symlink, targets[random.below(3)].as_bytes())
        }
        1 => Entry::new(Mode::Regular, bytes(random)),
        2 | 3 => Entry::new(Mode::Executable, text(random)),
        _ => Entry::new(Mode::Regular, text(random)),
    }
}

/// A tree of a few files.
pub fn tree(random: &mut Random) -> Tree {
    let count = random.below(7);
    let entries: BTreeMap<TreePath, Entry> =
        (0..count).map(|_| (path(random.pick(&NAMES)), entry(random))).collect();
    Tree::new(entries, None).unwrap()
}

/// The tree with some files changed, added, removed, renamed, copied or of another mode.
pub fn changed(random: &mut Random, base: &Tree) -> Tree {
    let mut entries = base.entries().clone();
    for _ in 0..1 + random.below(4) {
        let name = path(random.pick(&NAMES));
        let there: Vec<TreePath> = entries.keys().cloned().collect();
        if there.is_empty() || random.once_in(4) {
            entries.insert(name, entry(random));
            continue;
        }
        let known = random.pick(&there);
        let old = entries[&known].clone();
        let content = base.content(&known, &old).unwrap_or_default();
        match random.below(8) {
            0 => drop(entries.remove(&known)),
            1 => {
                entries.remove(&known);
                entries.insert(name, edited(random, &old, &content));
            }
            2 => drop(entries.insert(name, edited(random, &old, &content))),
            3 if old.mode.is_file() => {
                let mode = if old.mode == Mode::Executable { Mode::Regular } else { Mode::Executable };
                entries.insert(known, Entry::new(mode, content));
            }
            _ => drop(entries.insert(known, edited(random, &old, &content))),
        }
    }
    Tree::new(entries, None).unwrap()
}

/// The entry as it is, or with some of its lines or bytes changed.
fn edited(random: &mut Random, old: &Entry, content: &[u8]) -> Entry {
    if !old.mode.is_file() || random.once_in(3) {
        return Entry::new(old.mode, content);
    }
    let mut lines: Vec<Vec<u8>> = content.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(lines.len() + 1);
        match random.below(3) {
            0 if at < lines.len() => drop(lines.remove(at)),
            1 if at < lines.len() => lines[at] = random.pick(&LINES).as_bytes().to_vec(),
            _ => lines.insert(at, random.pick(&LINES).as_bytes().to_vec()),
        }
    }
    Entry::new(old.mode, lines.concat())
}

/// The patch with one or two kinds of damage, and their names.
pub fn damaged(random: &mut Random, patch: &[u8]) -> (Vec<u8>, String) {
    let mut names = Vec::new();
    let mut patch = patch.to_vec();
    for _ in 0..1 + random.below(2) {
        let (next, name) = damaged_once(random, &patch);
        patch = next;
        names.push(name);
    }
    (patch, names.join(" and "))
}

fn damaged_once(random: &mut Random, patch: &[u8]) -> (Vec<u8>, &'static str) {
    let mut lines: Vec<Vec<u8>> = patch.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return (b"--- a/a.txt\n".to_vec(), "made up");
    }
    let at = random.below(lines.len());
    let header = lines.iter().position(|line| line.starts_with(b"@@"));
    let name = match random.below(20) {
        0 => {
            let byte = random.below(lines[at].len());
            lines[at][byte] = u8::try_from(random.below(256)).unwrap();
            "a byte changed"
        }
        1 => {
            lines.remove(at);
            "a line removed"
        }
        2 => {
            let line = lines[at].clone();
            lines.insert(at, line);
            "a line doubled"
        }
        3 => {
            let other = random.below(lines.len());
            lines.swap(at, other);
            "two lines swapped"
        }
        4 => {
            let line = random.pick(&LINES).as_bytes().to_vec();
            let mark = random.pick(b" +-\\x\n");
            lines.insert(at, [vec![mark], line].concat());
            "a line put in"
        }
        5 => {
            lines.truncate(at);
            "cut between lines"
        }
        6 => return (patch[..random.below(patch.len())].to_vec(), "cut anywhere"),
        7 => {
            for line in &mut lines {
                if line.ends_with(b"\n") && !line.ends_with(b"\r\n") {
                    line.insert(line.len() - 1, b'\r');
                }
            }
            "CRLF line ends"
        }
        8 => {
            for line in &mut lines {
                let end =
                    line.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
                line.truncate(end);
                line.push(b'\n');
            }
            "blanks at line ends removed"
        }
        9..=11 => match header {
            Some(at) => {
                lines[at] = numbers_changed(random, &lines[at]);
                "a number of a hunk's header changed"
            }
            None => "nothing",
        },
        12 => {
            lines.retain(|line| !line.starts_with(b"index "));
            "index lines removed"
        }
        13 => {
            lines.retain(|line| !line.starts_with(b"diff --git ") && !line.starts_with(b"index "));
            "git headers removed"
        }
        14 => {
            lines.retain(|line| !line.starts_with(b"\\ "));
            "markers of a missing line end removed"
        }
        15 => {
            let copy = lines.clone();
            lines.extend(copy);
            "the patch doubled"
        }
        16 => {
            lines.retain(|line| !line.starts_with(b"--- ") || random.below(2) == 0);
            "lines of names removed"
        }
        17 => {
            let name = random.pick(&NAMES).as_bytes().to_vec();
            for line in &mut lines {
                if line.starts_with(b"--- a/") || line.starts_with(b"+++ b/") || line.starts_with(b"rename ")
                {
                    let keep = line.iter().position(|&b| b == b'/' || b == b'r').map_or(0, |slash| slash + 1);
                    *line = [&line[..keep.min(6)], &name, b"\n"].concat();
                    break;
                }
            }
            "another name"
        }
        18 => {
            lines.insert(0, b"From 0123456789 Mon Sep 17 00:00:00 2001\n".to_vec());
            lines.push(b"-- \n".to_vec());
            lines.push(b"2.47.3\n".to_vec());
            "a mail around it"
        }
        _ => {
            for line in &mut lines {
                for (from, to) in [
                    ("100644", "100755"),
                    ("100755", "100644"),
                    ("120000", "100644"),
                    ("new file", "old file"),
                ] {
                    let text = String::from_utf8_lossy(line).into_owned();
                    if text.contains(from) && random.once_in(2) {
                        *line = text.replace(from, to).into_bytes();
                        break;
                    }
                }
            }
            "another mode"
        }
    };
    (lines.concat(), name)
}

/// A hunk's header with one of its numbers a little larger or smaller, or gone.
fn numbers_changed(random: &mut Random, header: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(header).into_owned();
    let mut parts: Vec<String> = Vec::new();
    for c in text.chars() {
        match parts.last_mut() {
            Some(last) if last.ends_with(|l: char| l.is_ascii_digit()) == c.is_ascii_digit() => last.push(c),
            Some(_) | None => parts.push(c.to_string()),
        }
    }
    let numbers: Vec<usize> =
        (0..parts.len()).filter(|&at| parts[at].starts_with(|c: char| c.is_ascii_digit())).collect();
    if let Some(&at) = numbers.get(random.below(numbers.len().max(1))) {
        let number: i64 = parts[at].parse().unwrap_or(1);
        let by = random.pick(&[-3, -2, -1, 1, 1, 2, 7, 2000]);
        parts[at] = (number + by).max(0).to_string();
    }
    parts.concat().into_bytes()
}
