//! Reads the tags of one file with its language's grammar, under bounds that count work and not time, so
//! that one content gives one result on any machine.

use std::collections::HashMap;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree as SyntaxTree, TreeCursor};

use super::encoding::{DefinitionTag, FileTags, ReferenceTag, Writer};
use super::language::Language;
use super::rules::{Action, Compiled};

/// A larger file is not read.
const MAX_BYTES: usize = 1 << 20;
/// A file whose lines are longer than this, on average, was written by a program for a program.
const MAX_MEAN_LINE: usize = 400;
/// Files below this size may have long lines.
const FEW_BYTES: usize = 8 << 10;
/// Checks of the parser (one each hundred of its operations) that any file has.
const FREE_CHECKS: usize = 2_000;
/// One more check for each so many bytes. An ordinary file takes one each 60 or more.
const BYTES_A_CHECK: usize = 8;
/// Nodes that lie deeper are passed over.
const MAX_DEPTH: usize = 200;
const MAX_NODES: usize = 2 << 20;
const MAX_DEFINITIONS: usize = 4_000;
const MAX_NAMES: usize = 4_000;
const MAX_NAME: usize = 100;
/// Bytes that are kept of a source line.
const MAX_TEXT: usize = 120;
/// Fields that are followed from a definition to its name.
const MAX_LEADS: usize = 8;

/// Why a file has no tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotRead {
    TooLarge,
    Generated,
    NoText,
    TooMuchWork,
}

impl NotRead {
    /// The reason, for people.
    pub const fn why(self) -> &'static str {
        match self {
            NotRead::TooLarge => "is larger than 1 MiB",
            NotRead::Generated => "has lines that only programs write",
            NotRead::NoText => "is no text",
            NotRead::TooMuchWork => "takes too much work to parse",
        }
    }

    /// The same reason as kept tags tell it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            NotRead::TooLarge => "!too-large",
            NotRead::Generated => "!generated",
            NotRead::NoText => "!no-text",
            NotRead::TooMuchWork => "!too-much-work",
        }
    }

    pub(super) fn of_word(word: &str) -> Option<Self> {
        [NotRead::TooLarge, NotRead::Generated, NotRead::NoText, NotRead::TooMuchWork]
            .into_iter()
            .find(|reason| reason.word() == word)
    }
}

/// Reads files, one after the other; keeps the parser between two of a language.
pub(super) struct Reader {
    parser: Parser,
    language: Option<Language>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { parser: Parser::new(), language: None }
    }

    /// The tags of a file of this language.
    pub(super) fn read(&mut self, language: Language, source: &[u8]) -> Result<FileTags, NotRead> {
        refuse(source)?;
        let tree = self.parse(language, source)?;
        Ok(Extraction::new(language.rules(), source).walk(&tree))
    }

    fn parse(&mut self, language: Language, source: &[u8]) -> Result<SyntaxTree, NotRead> {
        if self.language != Some(language) {
            // A grammar of another version than the library's would be refused here, and a test reads all.
            self.parser.set_language(language.grammar()).map_err(|_| NotRead::TooMuchWork)?;
            self.language = Some(language);
        }
        let mut left = FREE_CHECKS + source.len() / BYTES_A_CHECK;
        let mut go_on = |_: &tree_sitter::ParseState| {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut go_on);
        let mut chunk = |at: usize, _| source.get(at..).unwrap_or_default();
        let parsed = self.parser.parse_with_options(&mut chunk, None, Some(options));
        if parsed.is_none() {
            // An interrupted parse would otherwise be gone on with at the next file.
            self.parser.reset();
        }
        parsed.ok_or(NotRead::TooMuchWork)
    }
}

fn refuse(source: &[u8]) -> Result<(), NotRead> {
    if source.len() > MAX_BYTES {
        return Err(NotRead::TooLarge);
    }
    if source.iter().take(8 << 10).any(|&byte| byte == 0) {
        return Err(NotRead::NoText);
    }
    let lines = 1 + source.iter().filter(|&&byte| byte == b'\n').count();
    if source.len() > FEW_BYTES && source.len() / lines > MAX_MEAN_LINE {
        return Err(NotRead::Generated);
    }
    Ok(())
}

/// What is open around a node.
#[derive(Clone, Copy)]
struct Around {
    action: Action,
    /// The innermost definition.
    definition: Option<u32>,
    in_function: bool,
}

struct Extraction<'a> {
    rules: &'a Compiled,
    source: &'a [u8],
    writer: Writer,
    definitions: u32,
    references: HashMap<&'a str, u32>,
    /// Where the names of definitions begin that the walk has still to pass.
    defining: Vec<usize>,
}

impl<'a> Extraction<'a> {
    fn new(rules: &'a Compiled, source: &'a [u8]) -> Self {
        let (writer, references, defining) = (Writer::default(), HashMap::new(), Vec::new());
        Self { rules, source, writer, definitions: 0, references, defining }
    }

    fn walk(mut self, tree: &SyntaxTree) -> FileTags {
        let mut cursor = tree.walk();
        let mut around = vec![Around { action: Action::default(), definition: None, in_function: false }];
        let mut nodes = 0;
        loop {
            nodes += 1;
            let holder = around[around.len() - 1];
            let (action, definition) = self.node(&cursor, holder);
            if nodes < MAX_NODES && around.len() < MAX_DEPTH && !action.is_name && cursor.goto_first_child() {
                let in_function = holder.in_function || action.is_function;
                around.push(Around { action, definition: definition.or(holder.definition), in_function });
                continue;
            }
            while !cursor.goto_next_sibling() {
                around.pop();
                if around.is_empty() || !cursor.goto_parent() {
                    return self.finish();
                }
            }
            if nodes >= MAX_NODES {
                return self.finish();
            }
        }
    }

    /// Takes what one node tells; gives its action, and its place if it is a definition.
    fn node(&mut self, cursor: &TreeCursor<'_>, holder: Around) -> (Action, Option<u32>) {
        let node = cursor.node();
        let action = self.rules.action(node.kind_id());
        if action.is_name {
            let refers = action.is_type || self.rules.refers(holder.action, || cursor.field_id());
            if refers && !self.is_defining(node.start_byte()) {
                self.refer(node);
            }
            return (action, None);
        }
        (action, self.define(node, action, holder))
    }

    fn define(&mut self, node: Node<'_>, action: Action, holder: Around) -> Option<u32> {
        let rule = self.rules.definition(action)?;
        if rule.outside_functions && holder.in_function
            || rule.needs.is_some_and(|field| node.child_by_field_id(field).is_none())
            || self.definitions as usize >= MAX_DEFINITIONS
        {
            return None;
        }
        let held = self.name_in(node.child_by_field_id(rule.name)?)?;
        let name = self.text_of(held)?;
        let line = u32::try_from(held.start_position().row).ok()?.checked_add(1)?;
        let text = line_at(self.source, held.start_byte());
        self.defining.push(held.start_byte());
        self.writer.definition(DefinitionTag {
            kind: rule.kind,
            line,
            parent: holder.definition,
            name,
            text: &text,
        });
        self.definitions += 1;
        Some(self.definitions - 1)
    }

    /// The leaf that a definition's field leads to.
    fn name_in<'tree>(&self, mut node: Node<'tree>) -> Option<Node<'tree>> {
        for _ in 0..MAX_LEADS {
            if self.rules.action(node.kind_id()).is_name {
                return Some(node);
            }
            node = self.rules.leads_to_name.iter().find_map(|field| node.child_by_field_id(*field))?;
        }
        None
    }

    fn refer(&mut self, node: Node<'_>) {
        let Some(name) = self.text_of(node) else { return };
        if let Some(count) = self.references.get_mut(name) {
            *count = count.saturating_add(1);
        } else if self.references.len() < MAX_NAMES {
            self.references.insert(name, 1);
        }
    }

    fn is_defining(&mut self, at: usize) -> bool {
        let recent = self.defining.len().saturating_sub(MAX_LEADS);
        match self.defining[recent..].iter().position(|&begins| begins == at) {
            Some(place) => {
                self.defining.swap_remove(recent + place);
                true
            }
            None => false,
        }
    }

    /// A name as text; a single letter names nothing that is worth finding.
    fn text_of(&self, node: Node<'_>) -> Option<&'a str> {
        let bytes = self.source.get(node.byte_range())?;
        if !(2..=MAX_NAME).contains(&bytes.len()) {
            return None;
        }
        std::str::from_utf8(bytes).ok().filter(|name| !name.chars().any(|next| next.is_control()))
    }

    fn finish(mut self) -> FileTags {
        let mut references: Vec<_> = self.references.into_iter().collect();
        references.sort_unstable();
        for (name, count) in references {
            self.writer.reference(ReferenceTag { count, name });
        }
        self.writer.finish()
    }
}

/// The source line around a byte, without the space around it, cut.
fn line_at(source: &[u8], at: usize) -> std::borrow::Cow<'_, str> {
    let at = at.min(source.len());
    let begin = source[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |before| before + 1);
    // Of a line that is very long before the name, what stands next to the name is kept.
    let begin = begin.max(at.saturating_sub(MAX_TEXT / 2));
    let length = source[begin..].iter().take(MAX_TEXT).position(|&byte| byte == b'\n');
    let end = source.len().min(begin + length.unwrap_or(MAX_TEXT));
    match String::from_utf8_lossy(&source[begin..end]) {
        std::borrow::Cow::Borrowed(text) => text.trim().into(),
        std::borrow::Cow::Owned(text) => text.trim().to_owned().into(),
    }
}

#[cfg(test)]
mod tests;
