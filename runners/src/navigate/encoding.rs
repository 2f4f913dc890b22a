//! The tags of one file, as text that is kept by the file's blob and read without being taken apart first.
//!
//! A line is one tag, its parts set apart by tabs: a definition as its kind's letter, its line, the place of
//! the definition around it (from 1, 0 for none), its name and its source line; a reference as `r`, how often,
//! and its name. Names and source lines hold no control characters.

use std::fmt::Write as _;

/// What a definition defines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Function,
    Type,
    /// A block that adds to a type which is defined elsewhere.
    Part,
    Value,
    Module,
    Macro,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Function, Kind::Type, Kind::Part, Kind::Value, Kind::Module, Kind::Macro];

    const fn letter(self) -> u8 {
        match self {
            Kind::Function => b'f',
            Kind::Type => b't',
            Kind::Part => b'p',
            Kind::Value => b'v',
            Kind::Module => b'm',
            Kind::Macro => b'x',
        }
    }

    fn of_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letter() == letter)
    }
}

/// One definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefinitionTag<'a> {
    pub kind: Kind,
    /// 1-based.
    pub line: u32,
    /// The definition around it: its place among those of the file.
    pub parent: Option<u32>,
    pub name: &'a str,
    /// The source line that holds the name, without the space around it, cut.
    pub text: &'a str,
}

/// One name that a file refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferenceTag<'a> {
    pub count: u32,
    pub name: &'a str,
}

/// The tags of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileTags {
    text: Box<str>,
    /// Where the references begin.
    references: usize,
}

impl FileTags {
    /// Takes kept tags. Lines that are none are passed over when they are read.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let references =
            if text.starts_with("r\t") { 0 } else { text.find("\nr\t").map_or(text.len(), |at| at + 1) };
        Self { text, references }
    }

    /// What is kept.
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// All definitions, in the order of the file.
    pub fn definitions(&self) -> impl Iterator<Item = DefinitionTag<'_>> {
        self.text[..self.references].lines().filter_map(definition)
    }

    /// All names that are referred to, each once.
    pub fn references(&self) -> impl Iterator<Item = ReferenceTag<'_>> {
        self.text[self.references..].lines().filter_map(reference)
    }
}

fn definition(line: &str) -> Option<DefinitionTag<'_>> {
    let mut parts = line.splitn(5, '\t');
    let kind = Kind::of_letter(*parts.next()?.as_bytes().first()?)?;
    let line = parts.next()?.parse().ok()?;
    let parent: u32 = parts.next()?.parse().ok()?;
    Some(DefinitionTag {
        kind,
        line,
        parent: parent.checked_sub(1),
        name: parts.next()?,
        text: parts.next()?,
    })
}

fn reference(line: &str) -> Option<ReferenceTag<'_>> {
    let mut parts = line.strip_prefix("r\t")?.splitn(2, '\t');
    Some(ReferenceTag { count: parts.next()?.parse().ok()?, name: parts.next()? })
}

/// Writes tags: all definitions, then all references.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
}

impl Writer {
    pub(super) fn definition(&mut self, tag: DefinitionTag<'_>) {
        let parent = tag.parent.map_or(0, |parent| parent + 1);
        let kind = char::from(tag.kind.letter());
        // Writing into a string does not fail.
        let _ = write!(self.text, "{kind}\t{}\t{parent}\t{}\t", tag.line, tag.name);
        self.plain(tag.text);
        self.text.push('\n');
    }

    pub(super) fn reference(&mut self, tag: ReferenceTag<'_>) {
        let _ = writeln!(self.text, "r\t{}\t{}", tag.count, tag.name);
    }

    pub(super) fn finish(self) -> FileTags {
        FileTags::from_text(self.text)
    }

    fn plain(&mut self, text: &str) {
        self.text.extend(text.chars().map(|next| if next.is_control() { ' ' } else { next }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_they_were_written() {
        let outer = DefinitionTag { kind: Kind::Type, line: 3, parent: None, name: "A", text: "class A:\tx" };
        let inner =
            DefinitionTag { kind: Kind::Function, line: 4, parent: Some(0), name: "f", text: "def f(self):" };
        let referred = ReferenceTag { count: 7, name: "print" };
        let mut writer = Writer::default();
        writer.definition(outer);
        writer.definition(inner);
        writer.reference(referred);
        let tags = FileTags::from_text(writer.finish().as_text());
        let definitions: Vec<_> = tags.definitions().collect();
        assert_eq!(definitions, [DefinitionTag { text: "class A: x", ..outer }, inner]);
        assert_eq!(tags.references().collect::<Vec<_>>(), [referred]);
    }

    #[test]
    fn lines_that_are_no_tags_are_passed_over() {
        let tags = FileTags::from_text("f\tx\t0\ta\tb\n\nq\t1\t0\ta\tb\nf\t1\nr\tx\ty\nr\t2\tz\n");
        assert_eq!(tags.definitions().count(), 0);
        assert_eq!(tags.references().collect::<Vec<_>>(), [ReferenceTag { count: 2, name: "z" }]);
    }
}
