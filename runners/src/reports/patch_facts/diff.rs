//! The files, hunks and lines of a patch, read forgivingly: facts are wanted, not an application.

/// Files and lines read from one patch.
const FILES: usize = 10_000;
const LINES: usize = 500_000;

/// One file of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileDiff {
    pub old_path: Option<String>,
    pub new_path: Option<String>,
    pub lines: Vec<Line>,
    pub binary: bool,
    pub deleted: bool,
    pub mode_changed: bool,
    /// A link after the patch.
    pub becomes_link: bool,
    /// A program after the patch.
    pub executable: bool,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub side: Side,
    /// In the changed file; for a removed line, where it would have stood.
    pub number: u32,
    pub text: String,
}

/// Which side of a patch a line is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Context,
    Added,
    Removed,
    /// The words behind a hunk's header: the function or section that it lies in.
    Header,
}

impl FileDiff {
    pub fn path(&self) -> &str {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }

    pub fn renamed(&self) -> bool {
        matches!((&self.old_path, &self.new_path), (Some(old), Some(new)) if old != new)
    }

    pub fn added(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.side == Side::Added)
    }

    pub fn removed(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.side == Side::Removed)
    }
}

/// Reads every file of a patch; tells as well whether the patch was too long to be read to its end.
pub(super) fn parse(patch: &[u8]) -> (Vec<FileDiff>, bool) {
    let text = String::from_utf8_lossy(patch);
    let mut parser = Parser::default();
    let mut lines = text.lines();
    for line in lines.by_ref().take(LINES) {
        parser.line(line);
    }
    let cut = lines.next().is_some() || parser.files.len() >= FILES;
    (parser.finish(), cut)
}

#[derive(Default)]
struct Parser {
    files: Vec<FileDiff>,
    current: Option<FileDiff>,
    /// Old and new lines that the hunk still has by its header.
    left: (u64, u64),
    number: u32,
}

impl Parser {
    fn line(&mut self, line: &str) {
        if self.left != (0, 0) && self.hunk_line(line) {
            return;
        }
        if let Some(rest) = line.strip_prefix("diff --git ") {
            self.next_file();
            let (old, new) = git_paths(rest);
            self.current = Some(FileDiff { old_path: old, new_path: new, ..FileDiff::default() });
        } else if let Some(rest) = line.strip_prefix("--- ") {
            let unnamed = self.current.as_ref().is_none_or(|file| !file.lines.is_empty());
            if unnamed {
                self.next_file();
                self.current = Some(FileDiff::default());
            }
            if let Some(file) = &mut self.current {
                file.old_path = header_path(rest, "a/");
            }
        } else if let Some(rest) = line.strip_prefix("+++ ") {
            let file = self.current.get_or_insert_default();
            file.new_path = header_path(rest, "b/");
            file.deleted |= file.new_path.is_none();
        } else if let Some(rest) = line.strip_prefix("@@ ") {
            self.hunk(rest);
        } else if let Some(file) = &mut self.current {
            if let Some(path) = line.strip_prefix("rename from ").or_else(|| line.strip_prefix("copy from "))
            {
                file.old_path = Some(unquote(path));
            } else if let Some(path) =
                line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to "))
            {
                file.new_path = Some(unquote(path));
            } else if line.starts_with("deleted file mode") {
                file.deleted = true;
            } else if let Some(mode) = line.strip_prefix("new file mode ") {
                file.old_path = None;
                file.becomes_link |= mode.starts_with("120");
                file.executable |= mode.starts_with("100755");
            } else if line.starts_with("index ") && line.ends_with(" 120000") {
                file.becomes_link = true;
            } else if let Some(mode) = line.strip_prefix("new mode ") {
                file.becomes_link |= mode.starts_with("120");
                file.executable |= mode.starts_with("100755");
            } else if line.starts_with("old mode") {
                file.mode_changed = true;
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                file.binary = true;
            }
        }
    }

    /// `-1,3 +1,4 @@ words`.
    fn hunk(&mut self, rest: &str) {
        let (ranges, words) = rest.split_once("@@").unwrap_or((rest, ""));
        let mut parts = ranges.split_whitespace();
        let old = parts.next().and_then(|part| range(part.strip_prefix('-')?)).unwrap_or((0, 0));
        let new = parts.next().and_then(|part| range(part.strip_prefix('+')?)).unwrap_or((0, 0));
        self.left = (old.1, new.1);
        self.number = u32::try_from(new.0).unwrap_or(u32::MAX);
        if let Some(file) = &mut self.current {
            file.lines.push(Line { side: Side::Header, number: self.number, text: words.trim().to_owned() });
        }
    }

    /// Takes a line into the open hunk; false when it cannot belong to it.
    fn hunk_line(&mut self, line: &str) -> bool {
        let (side, text) = match line.as_bytes().first() {
            Some(b' ') => (Side::Context, &line[1..]),
            Some(b'+') => (Side::Added, &line[1..]),
            Some(b'-') => (Side::Removed, &line[1..]),
            None => (Side::Context, ""),
            Some(b'\\') => return true,
            Some(_) => {
                self.left = (0, 0);
                return false;
            }
        };
        let number = self.number;
        match side {
            Side::Context => {
                self.left = (self.left.0.saturating_sub(1), self.left.1.saturating_sub(1));
                self.number = self.number.saturating_add(1);
            }
            Side::Added => {
                self.left.1 = self.left.1.saturating_sub(1);
                self.number = self.number.saturating_add(1);
            }
            Side::Removed => self.left.0 = self.left.0.saturating_sub(1),
            Side::Header => {}
        }
        if let Some(file) = &mut self.current {
            file.lines.push(Line { side, number, text: text.trim_end_matches('\r').to_owned() });
        }
        true
    }

    fn next_file(&mut self) {
        self.left = (0, 0);
        if let Some(file) = self.current.take()
            && self.files.len() < FILES
        {
            self.files.push(file);
        }
    }

    fn finish(mut self) -> Vec<FileDiff> {
        self.next_file();
        self.files
    }
}

fn range(text: &str) -> Option<(u64, u64)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// The path of a `---` or `+++` line; `None` for `/dev/null`.
fn header_path(rest: &str, prefix: &str) -> Option<String> {
    let path = unquote(rest.split('\t').next().unwrap_or(rest));
    if path == "/dev/null" {
        return None;
    }
    Some(path.strip_prefix(prefix).map(str::to_owned).unwrap_or(path))
}

/// Both paths of a `diff --git` line, when they are the same or quoted.
fn git_paths(rest: &str) -> (Option<String>, Option<String>) {
    if let Some(end) = rest.strip_prefix('"').and_then(|quoted| quoted.find("\" ")) {
        let (old, new) = rest.split_at(end + 2);
        return (Some(strip(&unquote(old), "a/")), Some(strip(&unquote(new.trim_start()), "b/")));
    }
    // `a/path b/path`: with one path twice, the middle is where both halves are alike.
    let half = rest.len() / 2;
    if rest.len() % 2 == 1 && rest.is_char_boundary(half) && rest.as_bytes().get(half) == Some(&b' ') {
        let (old, new) = (strip(&rest[..half], "a/"), strip(&rest[half + 1..], "b/"));
        if old == new {
            return (Some(old), Some(new));
        }
    }
    match rest.split_once(" b/") {
        Some((old, new)) => (Some(strip(old, "a/")), Some(unquote(new))),
        None => (None, None),
    }
}

fn strip(path: &str, prefix: &str) -> String {
    path.strip_prefix(prefix).unwrap_or(path).to_owned()
}

/// Undoes git's quoting of a path.
fn unquote(path: &str) -> String {
    let Some(inner) = path.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return path.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(next) = rest.next() {
        if next != b'\\' {
            bytes.push(next);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(&more @ b'0'..=b'7') = rest.peek() else { break };
                    value = value * 8 + u32::from(more - b'0');
                    rest.next();
                }
                bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
