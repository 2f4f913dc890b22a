//! Which lines of a file belong to tests, where only a part of the file does.
//!
//! A patch with whole files around its changes tells where a module of tests begins and ends. Brackets are
//! counted as a compiler would see them, not those in strings and comments; where the count is lost, more
//! lines belong to tests than should, which errs on the careful side.

use super::diff::{FileDiff, Line, Side};

/// The lines that belong to tests, on either side of the patch.
pub(super) fn lines_of_tests(file: &FileDiff) -> Vec<&Line> {
    let old = inside(file, Side::Added);
    let new = inside(file, Side::Removed);
    let either = old.into_iter().zip(new).map(|(old, new)| old || new);
    file.lines.iter().zip(either).filter(|(_, inside)| *inside).map(|(line, _)| line).collect()
}

/// For each line whether it lies in tests, on the side of the file that has no lines of `other`.
fn inside(file: &FileDiff, other: Side) -> Vec<bool> {
    let python = file.path().ends_with(".py");
    let mut region = Region::Outside;
    let mut scanner = Scanner::default();
    file.lines
        .iter()
        .map(|line| {
            if line.side == Side::Header {
                (region, scanner) = (Region::Outside, Scanner::default());
                return false;
            }
            if line.side == other {
                return false;
            }
            let (within, next) =
                if python { region.python(&line.text) } else { region.brackets(&line.text, &mut scanner) };
            region = next;
            within
        })
        .collect()
}

/// Where in a file a line stands.
#[derive(Clone, Copy)]
enum Region {
    Outside,
    /// After an attribute, before the body that it is for.
    Announced,
    /// In a body, so many brackets deep; or, in Python, indented further than so many spaces.
    Within(usize),
}

impl Region {
    /// Whether the line belongs to tests, and where the next one stands.
    fn brackets(self, text: &str, scanner: &mut Scanner) -> (bool, Self) {
        const MARKS: [&str; 9] = [
            "mod tests",
            "mod test ",
            "#[cfg(test)]",
            "#[cfg(all(test",
            "#[test]",
            "#[tokio::test",
            "#[rstest",
            "#[test_case",
            "proptest!",
        ];
        let depth = match self {
            Region::Outside
                if scanner.is_code() && MARKS.iter().any(|mark| text.trim().starts_with(mark)) =>
            {
                None
            }
            Region::Outside => {
                scanner.line(text, |_| ());
                return (false, Region::Outside);
            }
            Region::Announced => None,
            Region::Within(depth) => Some(depth),
        };
        let (mut depth, mut others, mut ended) = (depth, 0_i64, false);
        scanner.line(text, |next| match next {
            '{' => depth = Some(depth.unwrap_or(0) + 1),
            '}' => {
                depth = depth.map(|depth| depth.saturating_sub(1));
                ended |= depth == Some(0);
            }
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            ';' if depth.is_none() && others == 0 => ended = true,
            _ => {}
        });
        let next = match (ended, depth) {
            (true, _) => Region::Outside,
            (false, None) => Region::Announced,
            (false, Some(depth)) => Region::Within(depth),
        };
        (true, next)
    }

    fn python(self, text: &str) -> (bool, Self) {
        let indent = text.len() - text.trim_start().len();
        if let Region::Within(outer) = self
            && (text.trim().is_empty() || indent > outer)
        {
            return (true, self);
        }
        let begins = ["def test_", "async def test_", "class Test"];
        if begins.iter().any(|word| text.trim_start().starts_with(word)) {
            return (true, Region::Within(indent));
        }
        (false, Region::Outside)
    }
}

/// Tells code from strings and comments, over lines.
#[derive(Clone, Copy, Default)]
struct Scanner {
    within: Within,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Within {
    #[default]
    Code,
    Text,
    /// A raw string that so many hashes end.
    Raw(usize),
    Comment(usize),
}

impl Scanner {
    fn is_code(&self) -> bool {
        self.within == Within::Code
    }

    /// Gives each character of code.
    fn line(&mut self, text: &str, mut code: impl FnMut(char)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.within {
                Within::Code => match rest {
                    [b'/', b'/', ..] => return,
                    [b'/', b'*', ..] => self.enter(Within::Comment(1), 2),
                    [b'r', b'"' | b'#', ..] if !after_word(bytes, at) => self.raw(rest),
                    [b'"', ..] => self.enter(Within::Text, 1),
                    [b'\'', b'\\', _, b'\'', ..] => 4,
                    [b'\'', _, b'\'', ..] => 3,
                    [next, ..] => {
                        code(char::from(*next));
                        1
                    }
                    [] => return,
                },
                Within::Text => match rest {
                    [b'\\', ..] => 2,
                    [b'"', ..] => self.enter(Within::Code, 1),
                    _ => 1,
                },
                Within::Raw(hashes) => {
                    let ends = rest[0] == b'"'
                        && rest[1..].iter().take(hashes).filter(|next| **next == b'#').count() == hashes;
                    if ends { self.enter(Within::Code, 1 + hashes) } else { 1 }
                }
                Within::Comment(depth) => match rest {
                    [b'*', b'/', ..] if depth == 1 => self.enter(Within::Code, 2),
                    [b'*', b'/', ..] => self.enter(Within::Comment(depth - 1), 2),
                    [b'/', b'*', ..] => self.enter(Within::Comment(depth + 1), 2),
                    _ => 1,
                },
            };
        }
    }

    fn enter(&mut self, within: Within, length: usize) -> usize {
        self.within = within;
        length
    }

    /// `r"` or `r#"`; a raw name such as `r#type` is code.
    fn raw(&mut self, rest: &[u8]) -> usize {
        let hashes = rest[1..].iter().take_while(|next| **next == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            return self.enter(Within::Raw(hashes), 2 + hashes);
        }
        1
    }
}

fn after_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        let lines: Vec<Line> = text
            .lines()
            .zip(1..)
            .map(|(text, number)| Line { side: Side::Context, number, text: text.to_owned() })
            .collect();
        let file = FileDiff { new_path: Some(path.to_owned()), lines, ..FileDiff::default() };
        lines_of_tests(&file).into_iter().map(|line| line.text.trim().to_owned()).collect()
    }

    #[test]
    fn a_test_ends_where_its_body_does() {
        let source = "#[cfg(test)]\nuse a::b;\n\nfn code() {\n    x();\n}\n\n#[test]\nfn t(\n) {\n    let a = ['}', '\\''];\n    let b = \"}\"; // }\n    let c = r#\"}\"}\"#;\n    /* } */\n    assert!(d);\n}\n\nfn more() {}\n";
        let found = told("src/lib.rs", source);
        assert_eq!(found[..2], ["#[cfg(test)]", "use a::b;"]);
        assert_eq!(found[2], "#[test]");
        assert_eq!(found.last().unwrap(), "}");
        assert!(found.contains(&"assert!(d);".to_owned()));
        assert!(!found.iter().any(|line| line.contains("x()") || line.contains("more")), "{found:?}");
    }

    #[test]
    fn a_module_of_tests_is_one_to_its_end() {
        let source = "mod tests {\n    fn helper() -> u32 {\n        5\n    }\n}\nfn code() {}\n";
        assert_eq!(told("src/lib.rs", source), ["mod tests {", "fn helper() -> u32 {", "5", "}", "}"]);
    }

    #[test]
    fn a_test_of_python_ends_with_its_indentation() {
        let source = "def test_a():\n    x = 1\n\n    assert x\n\ndef code():\n    return 1\n";
        assert_eq!(told("a.py", source), ["def test_a():", "x = 1", "", "assert x", ""]);
    }
}
