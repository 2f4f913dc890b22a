//! Navigation: what an agent may know of a tree without reading all of it.
//!
//! - [`survey`] counts the files by language; what no language claims is listed, never guessed.
//! - [`tags`](TreeTags) are the names that files define and refer to, read by tree-sitter and kept by blob.
//! - [`RepoView`] is one tree with its tags, its failures and its own index; [`tools`] are the four
//!   questions that an agent may ask of it: `repo_map`, `search`, `read_file`, `retrieve`.
//!
//! All input is a stranger's. Nothing here opens a path: files come from a [`Tree`](crate::workspace::Tree),
//! so no link is followed and no name leads out of the root. Every answer is bounded in bytes and in work.

mod budget;
mod cache;
mod encoding;
mod extract;
mod focus;
mod gather;
mod language;
mod map;
mod rank;
mod read;
pub mod retrieve;
mod rules;
mod search;
mod survey;
pub mod tools;
mod view;

pub use budget::{Stop, tokens_of};
pub use cache::{CacheKey, Known};
pub use encoding::{DefinitionTag, FileTags, Kind, ReferenceTag};
pub use focus::Focus;
pub use gather::{Gathered, Skipped, TaggedFile, TreeTags, gather, keys_of};
pub use language::Language;
pub use map::{MapAsk, RepoMap};
pub use read::{FileText, ReadAsk};
pub use search::{Found, SearchAsk, SearchFound};
pub use survey::{Survey, survey};
pub use tools::ToolError;
pub use view::RepoView;
