//! The commands that a comment may hold.
//!
//! A command is a whole line of plain text in a paragraph at the top level of the comment. Quotes,
//! lists, headings, tables, code, HTML, links and emphasis never command, because there people cite,
//! and templates and logs are pasted. Either every command of a comment is understood, or none runs.

use std::fmt;

use jobs::id::RunId;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What every command line begins with.
pub const PREFIX: &str = "/whipstitch";
/// More commands in one comment are taken for a mistake.
pub const MOST_COMMANDS: usize = 3;
/// A longer comment is not read; the forge's own limit is lower.
const MOST_BYTES: usize = 256 << 10;

/// What a person asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Repair what is red; the patch waits for a yes.
    Fix,
    /// Only say what is red.
    Verify,
    /// Repair and report, as a rehearsal: the patch cannot be applied.
    Try,
    /// Push the verified patch, named by the first digits of its seal where there may be several.
    Apply {
        receipt: Option<String>,
    },
    /// Decline the verified patch.
    Reject,
    Cancel {
        run: Option<RunId>,
    },
    Resume {
        run: Option<RunId>,
    },
    Status,
    Help,
}

impl Command {
    /// The verb.
    pub const fn verb(&self) -> &'static str {
        match self {
            Command::Fix => "fix",
            Command::Verify => "verify",
            Command::Try => "try",
            Command::Apply { .. } => "apply",
            Command::Reject => "reject",
            Command::Cancel { .. } => "cancel",
            Command::Resume { .. } => "resume",
            Command::Status => "status",
            Command::Help => "help",
        }
    }
}

/// Why none of a comment's commands runs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("no verb was given")]
    NoVerb,
    #[error("there is no verb `{0}`")]
    UnknownVerb(Quoted),
    #[error("`{verb}` does not take `{argument}`")]
    BadArgument { verb: &'static str, argument: Quoted },
    #[error("`{verb}` takes at most one argument")]
    DoubledArgument { verb: &'static str },
    #[error("one comment may hold {MOST_COMMANDS} commands at most")]
    TooMany,
    #[error("the comment is too long to be searched for commands")]
    TooLong,
}

/// A word of somebody else, fit to be shown inside back-ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quoted(String);

impl Quoted {
    /// Keeps at most 40 characters, and of these only what cannot end a code span or a line.
    pub fn new(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_graphic() && !matches!(c, '`' | '<' | '@') { c } else { '?' };
        Self(text.chars().take(40).map(plain).collect())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The commands of a comment in their order, each once.
pub fn parse(markdown: &str) -> Result<Vec<Command>, Fault> {
    if markdown.len() > MOST_BYTES {
        let mentioned = markdown.to_ascii_lowercase().contains(PREFIX);
        return if mentioned { Err(Fault::TooLong) } else { Ok(Vec::new()) };
    }
    let mut commands = Vec::new();
    for line in plain_lines(markdown) {
        let Some(words) = words_of_command(line) else { continue };
        let command = read(&words)?;
        if !commands.contains(&command) {
            commands.push(command);
        }
        if commands.len() > MOST_COMMANDS {
            return Err(Fault::TooMany);
        }
    }
    Ok(commands)
}

/// The source text of each line that stands in a top-level paragraph.
///
/// A line that holds more than plain text is still given, so that a command with a decorated
/// argument is answered instead of silently ignored; its first words must be plain.
fn plain_lines(markdown: &str) -> Vec<&str> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM
        | Options::ENABLE_MATH;
    let mut lines = Vec::new();
    let (mut depth, mut paragraph) = (0_usize, Option::<Paragraph>::None);
    for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph) if depth == 0 => {
                paragraph = Some(Paragraph { end: range.end, line: None, at_start: true });
                depth += 1;
            }
            Event::End(TagEnd::Paragraph) if depth == 1 => {
                if let Some(Paragraph { end, line: Some(start), .. }) = paragraph.take() {
                    lines.push(&markdown[start..end]);
                }
                depth -= 1;
            }
            Event::Start(_) => {
                depth += 1;
                if let Some(paragraph) = &mut paragraph {
                    paragraph.at_start = false;
                }
            }
            Event::End(_) => depth -= 1,
            Event::SoftBreak | Event::HardBreak if depth == 1 => {
                if let Some(paragraph) = &mut paragraph {
                    lines.extend(paragraph.line.take().map(|start| &markdown[start..range.start]));
                    paragraph.at_start = true;
                }
            }
            Event::Text(_) if depth == 1 => {
                if let Some(paragraph) = &mut paragraph
                    && std::mem::take(&mut paragraph.at_start)
                    && !is_escaped(markdown, range.start)
                {
                    paragraph.line = Some(range.start);
                }
            }
            Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_) => {
                if let Some(paragraph) = &mut paragraph {
                    paragraph.at_start = false;
                }
            }
        }
    }
    lines
}

/// A top-level paragraph while it is read.
struct Paragraph {
    end: usize,
    /// Where the present line begins, when it begins with plain text.
    line: Option<usize>,
    /// Whether nothing of the present line was seen yet.
    at_start: bool,
}

/// Whether the author put a backslash before this character, to be shown and not to be meant.
fn is_escaped(markdown: &str, start: usize) -> bool {
    start > 0 && markdown.as_bytes()[start - 1] == b'\\'
}

/// The words after the prefix, when the line begins with it.
fn words_of_command(line: &str) -> Option<Vec<&str>> {
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|first| first.eq_ignore_ascii_case(PREFIX))?;
    Some(words.collect())
}

fn read(words: &[&str]) -> Result<Command, Fault> {
    let (verb, arguments) = words.split_first().ok_or(Fault::NoVerb)?;
    let argument = |verb| match arguments {
        [] => Ok(None),
        [argument] => Ok(Some(*argument)),
        [_, _, ..] => Err(Fault::DoubledArgument { verb }),
    };
    let plain = |verb, command| match arguments {
        [] => Ok(command),
        [argument, ..] => Err(Fault::BadArgument { verb, argument: Quoted::new(argument) }),
    };
    let run = |verb| argument(verb)?.map(|text| run_id(verb, text)).transpose();
    match verb.to_ascii_lowercase().as_str() {
        "fix" => plain("fix", Command::Fix),
        "verify" => plain("verify", Command::Verify),
        "try" => plain("try", Command::Try),
        "apply" => {
            let receipt = argument("apply")?.map(receipt_prefix).transpose()?;
            Ok(Command::Apply { receipt })
        }
        "reject" => plain("reject", Command::Reject),
        "cancel" => Ok(Command::Cancel { run: run("cancel")? }),
        "resume" => Ok(Command::Resume { run: run("resume")? }),
        "status" => plain("status", Command::Status),
        "help" => plain("help", Command::Help),
        _ => Err(Fault::UnknownVerb(Quoted::new(verb))),
    }
}

fn run_id(verb: &'static str, text: &str) -> Result<RunId, Fault> {
    text.parse().map_err(|_| Fault::BadArgument { verb, argument: Quoted::new(text) })
}

/// At least six of the seal's hex digits, so that a slip of the finger names nothing.
fn receipt_prefix(text: &str) -> Result<String, Fault> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    let valid = (6..=64).contains(&hex.len()) && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if valid {
        Ok(hex.to_owned())
    } else {
        Err(Fault::BadArgument { verb: "apply", argument: Quoted::new(text) })
    }
}

#[cfg(test)]
mod tests;
