//! What of a syntax tree is a definition and what a reference, as one table for each language.
//!
//! A table names node kinds and fields of the language's grammar; it is compiled once into arrays that are
//! indexed by the kind's number, so that reading a file costs one look-up a node.

mod tables;

use std::num::NonZeroU16;

use tree_sitter::Language as Grammar;

use super::encoding::Kind;
use super::language::Language;

/// One language's table.
pub(super) struct Rules {
    pub definitions: &'static [Definition],
    /// Kinds of nodes in whose body a value is nobody else's.
    pub functions: &'static [&'static str],
    /// Leaves that are names.
    pub names: &'static [&'static str],
    /// Leaves that refer wherever they do not define.
    pub types: &'static [&'static str],
    /// Where a name refers: the kind that holds it and the field at which; an empty field is any place.
    pub references: &'static [(&'static str, &'static str)],
}

/// A node that defines a name.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    pub node: &'static str,
    /// The field that holds the name, or leads to it.
    pub name: &'static str,
    pub kind: Kind,
    pub when: When,
}

/// When a node defines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Where no function is around it.
    OutsideFunctions,
    /// Where it has this field; without it the node only refers.
    Has(&'static str),
}

/// Fields that lead from a node to the name that it holds, where that is not the node itself.
const LEADS_TO_NAME: [&str; 4] = ["declarator", "name", "property", "type"];

/// A table for one grammar's numbers.
pub(super) struct Compiled {
    actions: Vec<Action>,
    definitions: Vec<CompiledDefinition>,
    references: Vec<Vec<Option<NonZeroU16>>>,
    pub(super) leads_to_name: Vec<u16>,
}

/// What is done at a node of one kind.
#[derive(Clone, Copy, Default)]
pub(super) struct Action {
    definition: Option<NonZeroU16>,
    references: Option<NonZeroU16>,
    pub is_function: bool,
    pub is_name: bool,
    pub is_type: bool,
}

/// A [`Definition`] in the grammar's numbers.
pub(super) struct CompiledDefinition {
    pub name: u16,
    pub kind: Kind,
    pub outside_functions: bool,
    /// A field that must be there.
    pub needs: Option<u16>,
}

impl Compiled {
    pub(super) fn new(rules: &Rules, grammar: &Grammar) -> Self {
        let mut compiled = Self {
            actions: vec![Action::default(); grammar.node_kind_count()],
            definitions: Vec::new(),
            references: Vec::new(),
            leads_to_name: LEADS_TO_NAME.iter().filter_map(|field| field_of(grammar, field)).collect(),
        };
        for definition in rules.definitions {
            let Some(name) = field_of(grammar, definition.name) else { continue };
            let needs = match definition.when {
                When::Has(field) => field_of(grammar, field),
                When::Always | When::OutsideFunctions => None,
            };
            let outside_functions = definition.when == When::OutsideFunctions;
            let kind = definition.kind;
            compiled.definitions.push(CompiledDefinition { name, kind, outside_functions, needs });
            let place = number(compiled.definitions.len());
            compiled.at(grammar, definition.node, |action| action.definition = place);
        }
        for kind in rules.functions {
            compiled.at(grammar, kind, |action| action.is_function = true);
        }
        for kind in rules.names {
            compiled.at(grammar, kind, |action| action.is_name = true);
        }
        for kind in rules.types {
            compiled.at(grammar, kind, |action| (action.is_name, action.is_type) = (true, true));
        }
        for (holder, field) in rules.references {
            let field =
                if field.is_empty() { None } else { field_of(grammar, field).and_then(NonZeroU16::new) };
            let kind = grammar.id_for_node_kind(holder, true);
            match compiled.actions.get(usize::from(kind)).and_then(|action| action.references) {
                Some(place) => compiled.references[usize::from(place.get()) - 1].push(field),
                None => {
                    compiled.references.push(vec![field]);
                    let place = number(compiled.references.len());
                    compiled.at(grammar, holder, |action| action.references = place);
                }
            }
        }
        compiled
    }

    /// What is done at a node of this kind.
    pub(super) fn action(&self, kind: u16) -> Action {
        // The number of an error node lies beyond all others.
        self.actions.get(usize::from(kind)).copied().unwrap_or_default()
    }

    pub(super) fn definition(&self, action: Action) -> Option<&CompiledDefinition> {
        self.definitions.get(usize::from(action.definition?.get()) - 1)
    }

    /// Whether a name at `field` of a node with this action refers.
    pub(super) fn refers(&self, holder: Action, field: impl FnOnce() -> Option<NonZeroU16>) -> bool {
        let Some(place) = holder.references else { return false };
        match self.references[usize::from(place.get()) - 1].as_slice() {
            [None] => true,
            fields => {
                let field = field();
                fields.iter().any(|wanted| wanted.is_none() || *wanted == field)
            }
        }
    }

    fn at(&mut self, grammar: &Grammar, kind: &str, set: impl FnOnce(&mut Action)) {
        if let Some(action) = self.actions.get_mut(usize::from(grammar.id_for_node_kind(kind, true))) {
            set(action);
        }
    }
}

fn field_of(grammar: &Grammar, name: &str) -> Option<u16> {
    grammar.field_id_for_name(name).map(NonZeroU16::get)
}

/// A place in a list, counted from one.
fn number(length: usize) -> Option<NonZeroU16> {
    u16::try_from(length).ok().and_then(NonZeroU16::new)
}

impl Rules {
    /// The table of a language.
    pub(super) fn of(language: Language) -> Self {
        match language {
            Language::Rust => tables::RUST,
            Language::Python => tables::PYTHON,
            Language::JavaScript => tables::JAVASCRIPT,
            Language::TypeScript | Language::Tsx => tables::TYPESCRIPT,
            Language::Go => tables::GO,
            Language::Java => tables::JAVA,
            Language::CSharp => tables::C_SHARP,
            Language::C => tables::C,
            Language::Cpp => tables::CPP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_field_of_a_table_is_one_of_its_grammar() {
        for language in Language::ALL {
            let (rules, grammar) = (Rules::of(language), language.grammar());
            let named = rules.definitions.iter().map(|definition| definition.node);
            let held = rules.references.iter().map(|(holder, _)| *holder);
            let lists = [rules.functions, rules.names, rules.types].concat();
            for kind in named.chain(held).chain(lists) {
                // JSX has no place in plain TypeScript, which shares a table with TSX.
                if language == Language::TypeScript && kind.starts_with("jsx") {
                    continue;
                }
                assert_ne!(grammar.id_for_node_kind(kind, true), 0, "{}: {kind}", language.name());
            }
            let names = rules.definitions.iter().map(|definition| definition.name);
            let needed = rules.definitions.iter().filter_map(|definition| match definition.when {
                When::Has(field) => Some(field),
                When::Always | When::OutsideFunctions => None,
            });
            let fields = rules.references.iter().map(|(_, field)| *field).filter(|field| !field.is_empty());
            for field in names.chain(needed).chain(fields) {
                assert!(field_of(grammar, field).is_some(), "{}: {field}", language.name());
            }
        }
    }
}
