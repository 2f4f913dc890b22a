//! What an agent may look at: one tree, its tags, what failed on it, and the workspace's own index.

use std::sync::Arc;

use super::budget::Stop;
use super::cache::Known;
use super::focus::Focus;
use super::gather::{TreeTags, gather};
use super::retrieve::Workspace;
use super::survey::survey;
use crate::workspace::Tree;

/// One tree to look at. Cheap to clone.
#[derive(Clone)]
pub struct RepoView {
    inner: Arc<Inner>,
}

struct Inner {
    tree: Tree,
    tags: TreeTags,
    omitted: Vec<String>,
    focus: Focus,
    workspace: Workspace,
}

impl RepoView {
    /// A view of a tree with its tags, for a workspace whose index is asked through `workspace` alone.
    pub fn new(tree: Tree, tags: TreeTags, focus: Focus, workspace: Workspace) -> Self {
        let omitted = survey(&tree).omitted;
        Self { inner: Arc::new(Inner { tree, tags, omitted, focus, workspace }) }
    }

    /// The view after an edit: only what changed is read anew. Keeps a thread busy.
    pub fn after(&self, tree: Tree, stop: Stop<'_>) -> Self {
        let mut known = Known::default();
        for file in &self.inner.tags.files {
            known.learn(file.key, super::cache::Learnt::Tags(Arc::clone(&file.tags)));
        }
        let tags = gather(&tree, &known, stop).tags;
        Self::new(tree, tags, self.inner.focus.clone(), self.inner.workspace.clone())
    }

    /// The same tree with other failures.
    pub fn focused(&self, focus: Focus) -> Self {
        let Inner { tree, tags, omitted, workspace, .. } = &*self.inner;
        let (tree, tags, omitted) = (tree.clone(), tags.clone(), omitted.clone());
        Self { inner: Arc::new(Inner { tree, tags, omitted, focus, workspace: workspace.clone() }) }
    }

    pub fn tree(&self) -> &Tree {
        &self.inner.tree
    }

    pub fn tags(&self) -> &TreeTags {
        &self.inner.tags
    }

    /// Endings of files in no language that is read.
    pub fn omitted(&self) -> &[String] {
        &self.inner.omitted
    }

    pub fn focus(&self) -> &Focus {
        &self.inner.focus
    }

    pub(super) fn workspace(&self) -> &Workspace {
        &self.inner.workspace
    }
}
