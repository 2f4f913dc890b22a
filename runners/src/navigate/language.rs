//! The languages whose files are read, how a file's name tells its language, and each one's grammar.

use std::sync::OnceLock;

use tree_sitter::Language as Grammar;

use super::rules::{Compiled, Rules};

/// Raised when the same grammar gives other tags: what was kept by an earlier version is read anew.
const READER: u32 = 1;

/// A language whose definitions and references are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Language {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Tsx,
    Go,
    Java,
    CSharp,
    C,
    Cpp,
}

impl Language {
    /// Every language that is read.
    pub const ALL: [Language; 10] = [
        Language::Rust,
        Language::Python,
        Language::JavaScript,
        Language::TypeScript,
        Language::Tsx,
        Language::Go,
        Language::Java,
        Language::CSharp,
        Language::C,
        Language::Cpp,
    ];

    /// The name on pages and in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Python => "Python",
            Language::JavaScript => "JavaScript",
            Language::TypeScript => "TypeScript",
            Language::Tsx => "TSX",
            Language::Go => "Go",
            Language::Java => "Java",
            Language::CSharp => "C#",
            Language::C => "C",
            Language::Cpp => "C++",
        }
    }

    /// The language of a file of this name, where it is one of those that are read.
    pub fn of_name(name: &str) -> Option<Self> {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        Some(match ending.as_deref()? {
            "rs" => Language::Rust,
            "py" | "pyi" => Language::Python,
            "js" | "mjs" | "cjs" | "jsx" => Language::JavaScript,
            "ts" | "mts" | "cts" => Language::TypeScript,
            "tsx" => Language::Tsx,
            "go" => Language::Go,
            "java" => Language::Java,
            "cs" => Language::CSharp,
            "c" | "h" => Language::C,
            "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" => Language::Cpp,
            _ => return None,
        })
    }

    /// Grammar and reader, as the kept tags name them: another text means that tags may differ.
    pub fn version(self) -> &'static str {
        &self.loaded().version
    }

    pub(super) fn grammar(self) -> &'static Grammar {
        &self.loaded().grammar
    }

    pub(super) fn rules(self) -> &'static Compiled {
        &self.loaded().rules
    }

    fn loaded(self) -> &'static Loaded {
        static LOADED: [OnceLock<Loaded>; 10] = [const { OnceLock::new() }; 10];
        LOADED[self as usize].get_or_init(|| Loaded::of(self))
    }

    fn source(self) -> tree_sitter_language::LanguageFn {
        match self {
            Language::Rust => tree_sitter_rust::LANGUAGE,
            Language::Python => tree_sitter_python::LANGUAGE,
            Language::JavaScript => tree_sitter_javascript::LANGUAGE,
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            Language::Go => tree_sitter_go::LANGUAGE,
            Language::Java => tree_sitter_java::LANGUAGE,
            Language::CSharp => tree_sitter_c_sharp::LANGUAGE,
            Language::C => tree_sitter_c::LANGUAGE,
            Language::Cpp => tree_sitter_cpp::LANGUAGE,
        }
    }
}

/// A grammar with the rules compiled for it.
struct Loaded {
    grammar: Grammar,
    rules: Compiled,
    version: String,
}

impl Loaded {
    fn of(language: Language) -> Self {
        let grammar = Grammar::new(language.source());
        let rules = Compiled::new(&Rules::of(language), &grammar);
        // Not every grammar tells its own version; the sizes of its tables change with every change that
        // matters here.
        let version = format!(
            "{}/{READER}.{}.{}.{}",
            language.name(),
            grammar.node_kind_count(),
            grammar.parse_state_count(),
            grammar.field_count(),
        );
        Self { grammar, rules, version }
    }
}
