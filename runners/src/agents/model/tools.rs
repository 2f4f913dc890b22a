//! The tools of a model: reading and searching the tree, edits that apply whole or not at all, and the
//! admitted checks by name.
//!
//! All of it works on trees in memory; nothing that a model names is a path of this machine or a command.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jobs::check::Check;
use jobs::verdict::CheckResult;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::conversation::{Answer, Call, CallResult, ToolSpec};
use super::data::{Marker, bounded};
use super::prompt;
use crate::edit::changeset::Side;
use crate::edit::overlay::Overlay;
use crate::edit::{self, Occurrence, Replacement};
use crate::executor::whole;
use crate::navigate::{MapAsk, ReadAsk, RepoView, SearchAsk, Stop, ToolError, tools};
use crate::workspace::{Mode, Tree, TreePath};

/// Bytes of one answer.
const MAX_ANSWER: usize = 32 << 10;
/// How long what changed is read anew for the map.
const REREAD: Duration = Duration::from_secs(10);
/// Bytes of a file that a model makes or changes.
const MAX_FILE: usize = 1 << 20;

/// Runs one admitted check on a tree, sealed, or says why it could not.
pub type RunCheck<'a> = dyn Fn(Check, Tree) -> BoxFuture<'a, Result<CheckResult, String>> + Send + Sync + 'a;

/// What the tools work on.
pub struct Hands<'a> {
    /// The tree with all edits so far, and what may be asked of it.
    pub tree: Tree,
    pub view: RepoView,
    pub checks: &'a [Check],
    pub run_check: &'a RunCheck<'a>,
    pub marker: Marker,
}

impl Hands<'_> {
    /// Does what one call asks for.
    pub async fn answer(&mut self, call: &Call) -> Answer {
        let done = match &call.input {
            Ok(input) => self.call(&call.name, input).await,
            Err(why) => Err(why.clone()),
        };
        let (content, result) = match done {
            Ok(content) => (content, CallResult::Done),
            Err(why) => (format!("refused, nothing changed: {why}"), CallResult::Refused),
        };
        Answer { call: call.id.clone(), content: bounded(&content, MAX_ANSWER), result }
    }

    async fn call(&mut self, name: &str, input: &Value) -> Result<String, String> {
        match name {
            "repo_map" => {
                let ask: MapAsk = read(input)?;
                self.look("repository map", move |view| Ok(tools::repo_map(view, &ask).text)).await
            }
            "search" => {
                let ask: SearchAsk = read(input)?;
                self.look("search", move |view| tools::search(view, &ask).map(|found| found.text())).await
            }
            "read_file" => {
                let ask: ReadAsk = read(input)?;
                self.look("file", move |view| tools::read_file(view, &ask).map(|file| file.text())).await
            }
            "retrieve" => {
                let found = tools::retrieve(&self.view, &read(input)?).await;
                let text = found.map_err(|error| error.to_string())?.text();
                Ok(self.marker.mark("passages", &bounded(&text, MAX_ANSWER - 512)))
            }
            "str_replace" => self.str_replace(&read(input)?).await,
            "apply_diff" => self.apply_diff(&read(input)?).await,
            "create_file" => self.create_file(read(input)?).await,
            "run_check" => self.check(&read(input)?).await,
            other => {
                let names: Vec<&str> = specs().iter().map(|tool| tool.name).collect();
                Err(format!("there is no tool {other:?}; the tools are {}", names.join(", ")))
            }
        }
    }

    /// Asks the view on a thread for blocking work, and marks what it answers.
    async fn look(
        &self,
        source: &str,
        ask: impl FnOnce(&RepoView) -> Result<String, ToolError> + Send + 'static,
    ) -> Result<String, String> {
        let view = self.view.clone();
        let answer = tokio::task::spawn_blocking(move || ask(&view)).await;
        let answer = answer.map_err(|error| format!("the tool ended by a fault of its own: {error}"))?;
        let text = answer.map_err(|error| error.to_string())?;
        Ok(self.marker.mark(source, &bounded(&text, MAX_ANSWER - 512)))
    }

    /// The edits so far, with a view that shows them.
    async fn edited(&mut self, tree: Tree) -> Result<(), String> {
        let (view, shown) = (self.view.clone(), tree.clone());
        let after = tokio::task::spawn_blocking(move || view.after(shown, Stop::in_time(REREAD))).await;
        self.view = after.map_err(|error| format!("the edit cannot be shown: {error}"))?;
        self.tree = tree;
        Ok(())
    }

    async fn str_replace(&mut self, input: &StrReplace) -> Result<String, String> {
        let path = path(&input.path)?;
        let content = self.file(&path)?;
        let occurrence = match input.line {
            Some(line) => Occurrence::AtLine(line),
            None => Occurrence::Only,
        };
        let replacement = Replacement { old: input.old.as_bytes(), new: input.new.as_bytes(), occurrence };
        let replaced =
            edit::str_replace(&content, &replacement).map_err(|error| format!("{path}: {error}"))?;
        self.write(&path, replaced.content).await?;
        let note = replaced.note.map_or(String::new(), |note| format!("; {note}"));
        Ok(format!("{path} is changed at one place{note}"))
    }

    async fn apply_diff(&mut self, input: &ApplyDiff) -> Result<String, String> {
        let applied =
            edit::apply_proposal(input.diff.as_bytes(), &self.tree).map_err(|error| whole(&error))?;
        let files: Vec<String> =
            applied.changeset.changes.iter().map(|change| change.path.to_string()).collect();
        self.edited(applied.tree).await?;
        let mut text = format!("changed: {}", files.join(", "));
        for note in &applied.notes {
            text.push_str(&format!("\nnote: {note}"));
        }
        Ok(text)
    }

    async fn create_file(&mut self, input: CreateFile) -> Result<String, String> {
        let path = path(&input.path)?;
        if self.tree.entry(&path).is_some() {
            return Err(format!("{path} is there already; use str_replace or apply_diff"));
        }
        self.write(&path, input.content.into_bytes()).await?;
        Ok(format!("{path} is made"))
    }

    async fn check(&self, input: &RunCheckInput) -> Result<String, String> {
        let found = self.checks.iter().find(|check| check.name == input.name);
        let check = found.ok_or_else(|| {
            let names: Vec<&str> = self.checks.iter().map(|check| check.name.as_str()).collect();
            format!("there is no check {:?}; the checks are {}", input.name, names.join(", "))
        })?;
        let result = (self.run_check)(check.clone(), self.tree.clone()).await?;
        let text = bounded(&prompt::result(&result), MAX_ANSWER - 512);
        Ok(self.marker.mark(&format!("check {}", check.name), &text))
    }

    fn file(&self, path: &TreePath) -> Result<std::sync::Arc<[u8]>, String> {
        match self.tree.entry(path).map(|entry| entry.mode) {
            Some(mode) if mode.is_file() => self.tree.read(path).map_err(|error| whole(&error)),
            Some(_) => Err(format!("{path} is no plain file")),
            None => Err(format!("{path} is not in the repository; paths are written from its root")),
        }
    }

    async fn write(&mut self, path: &TreePath, content: Vec<u8>) -> Result<(), String> {
        if content.len() > MAX_FILE {
            return Err(format!("{path} would have {} bytes and may have {MAX_FILE}", content.len()));
        }
        let through = path.parents().find(|parent| self.tree.entry(parent).is_some());
        if let Some(parent) = through {
            return Err(format!("{parent} is a file, so {path} cannot be below it"));
        }
        let mode = self.tree.entry(path).map_or(Mode::Regular, |entry| entry.mode);
        let mut overlay = Overlay::new(&self.tree);
        overlay.write(path.clone(), Side { mode, content: content.into() });
        let tree = overlay.finish().map_err(|error| whole(&error))?;
        self.edited(tree).await
    }
}

fn read<T: DeserializeOwned>(input: &Value) -> Result<T, String> {
    T::deserialize(input).map_err(|error| format!("the arguments do not fit: {error}"))
}

fn path(text: &str) -> Result<TreePath, String> {
    TreePath::parse(text.strip_prefix("./").unwrap_or(text)).map_err(|refused| refused.to_string())
}

#[derive(Deserialize)]
struct StrReplace {
    path: String,
    old: String,
    new: String,
    line: Option<usize>,
}

#[derive(Deserialize)]
struct ApplyDiff {
    diff: String,
}

#[derive(Deserialize)]
struct CreateFile {
    path: String,
    content: String,
}

#[derive(Deserialize)]
struct RunCheckInput {
    name: String,
}

/// The tools as a model is told of them.
pub fn specs() -> Vec<ToolSpec> {
    let tool = |name, description, properties: Value, required: &[&str]| ToolSpec {
        name,
        description,
        parameters: json!({ "type": "object", "properties": properties, "required": required }),
    };
    let path = json!({ "type": "string", "description": "from the root of the repository" });
    vec![
        tool(
            "repo_map",
            "The definitions that matter most for what is red, by file. Name files or names to begin there.",
            json!({
                "files": { "type": "array", "items": { "type": "string" } },
                "names": { "type": "array", "items": { "type": "string" } },
                "tokens": { "type": "integer", "minimum": 100, "description": "4000 when not given" },
            }),
            &[],
        ),
        tool(
            "search",
            "Lines that match a regular expression, as ripgrep finds them.",
            json!({
                "pattern": { "type": "string" },
                "literal": { "type": "boolean", "description": "the pattern is plain text" },
                "ignore_case": { "type": "boolean" },
                "globs": { "type": "array", "items": { "type": "string" } },
                "matches": { "type": "integer", "minimum": 1, "description": "100 when not given" },
            }),
            &["pattern"],
        ),
        tool(
            "read_file",
            "Reads lines of a text file, each with its number.",
            json!({
                "path": path,
                "line": { "type": "integer", "minimum": 1, "description": "the first line" },
                "lines": { "type": "integer", "minimum": 1, "description": "300 when not given" },
            }),
            &["path"],
        ),
        tool(
            "retrieve",
            "Passages of the repository that speak of words, names or a sentence, the best first.",
            json!({
                "query": { "type": "string" },
                "passages": { "type": "integer", "minimum": 1, "description": "8 when not given" },
            }),
            &["query"],
        ),
        tool(
            "str_replace",
            "Replaces a text that stands exactly once in a file. Give enough of its surroundings, or the line \
             that it begins in.",
            json!({
                "path": path,
                "old": { "type": "string", "description": "exactly as it stands in the file" },
                "new": { "type": "string" },
                "line": { "type": "integer", "minimum": 1, "description": "only where the text stands more than once" },
            }),
            &["path", "old", "new"],
        ),
        tool(
            "apply_diff",
            "Applies a unified diff to one or more files, all of it or nothing. Also deletes and renames, as git \
             writes it.",
            json!({ "diff": { "type": "string" } }),
            &["diff"],
        ),
        tool(
            "create_file",
            "Makes a new file.",
            json!({ "path": path, "content": { "type": "string" } }),
            &["path", "content"],
        ),
        tool(
            "run_check",
            "Runs one of the repository's checks, by its name, on the tree with your edits, and gives its report.",
            json!({ "name": { "type": "string" } }),
            &["name"],
        ),
    ]
}
