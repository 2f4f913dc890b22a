//! Which definitions matter: personalised PageRank over files and the names that they share.
//!
//! A walker stands on a file, follows a name that the file refers to, and comes to a file that defines the
//! name. So there is one edge for each name in a file and one for each definition, and never one for each
//! pair of files: the cost grows with the tags and not with their product. Now and then the walker goes back
//! to where the failures are.

use std::collections::HashMap;

use super::encoding::DefinitionTag;
use super::focus::Focus;
use super::gather::TreeTags;

const ROUNDS: usize = 16;
/// How often the walker goes on, and does not go back.
const GO_ON: f64 = 0.85;
/// How often the walker that goes back goes to a place of the failures, where there are some.
const TO_FOCUS: f64 = 0.9;
/// How much rather a name that the failures speak of is followed.
const FOCUS_NAME: f64 = 8.0;
/// How much less a name is followed that the file defines itself: it is at hand there already, and tells
/// nothing of other files. What is not followed goes back.
const OWN_NAME: f64 = 0.1;
/// How much less a private or very short name is followed.
const MINOR_NAME: f64 = 0.3;
const SHORT_NAME: usize = 4;

/// Every definition of a tree with its score.
pub(super) struct Ranking<'a> {
    pub definitions: Vec<DefinitionTag<'a>>,
    /// Where the definitions of each file begin, and at the end their number.
    pub begins: Vec<usize>,
    pub scores: Vec<f64>,
}

impl<'a> Ranking<'a> {
    pub(super) fn of(tags: &'a TreeTags, focus: &Focus) -> Self {
        let graph = Graph::of(tags, focus);
        let back = graph.way_back(tags, focus);
        let (files, names) = graph.walk(&back);
        let scores = graph.scores(tags, focus, &files, &names);
        Self { definitions: graph.definitions, begins: graph.begins, scores }
    }

    /// The file that holds a definition.
    pub(super) fn file_of(&self, definition: usize) -> usize {
        self.begins.partition_point(|&begin| begin <= definition) - 1
    }
}

struct Graph<'a> {
    definitions: Vec<DefinitionTag<'a>>,
    begins: Vec<usize>,
    /// The name of each definition.
    name_of: Vec<u32>,
    /// The file of each definition.
    file_of: Vec<u32>,
    /// How many definitions have each name.
    definers: Vec<u32>,
    in_focus: Vec<bool>,
    /// The names that each file refers to; the weights of one file add up to one at most.
    edges: Vec<(u32, f64)>,
    edge_begins: Vec<usize>,
}

impl<'a> Graph<'a> {
    fn of(tags: &'a TreeTags, focus: &Focus) -> Self {
        let mut graph = Graph {
            definitions: Vec::new(),
            begins: vec![0],
            name_of: Vec::new(),
            file_of: Vec::new(),
            definers: Vec::new(),
            in_focus: Vec::new(),
            edges: Vec::new(),
            edge_begins: vec![0],
        };
        let mut names: HashMap<&str, u32> = HashMap::new();
        for (file, tagged) in (0..).zip(&tags.files) {
            for definition in tagged.tags.definitions() {
                let fresh = graph.definers.len() as u32;
                let name = *names.entry(definition.name).or_insert(fresh);
                if name == fresh {
                    graph.definers.push(0);
                }
                graph.definers[name as usize] += 1;
                graph.name_of.push(name);
                graph.file_of.push(file);
                graph.definitions.push(definition);
            }
            graph.begins.push(graph.definitions.len());
        }
        graph.in_focus = vec![false; graph.definers.len()];
        for name in focus.names().iter().filter_map(|name| names.get(name.as_str())) {
            graph.in_focus[*name as usize] = true;
        }
        let mut defined_by = vec![None; graph.definers.len()];
        for (file, tagged) in tags.files.iter().enumerate() {
            for name in &graph.name_of[graph.begins[file]..graph.begins[file + 1]] {
                defined_by[*name as usize] = Some(file);
            }
            let (begin, mut whole) = (graph.edges.len(), 0.0);
            for reference in tagged.tags.references() {
                if let Some(&name) = names.get(reference.name) {
                    let weight = graph.weight(name, reference.name, reference.count);
                    whole += weight;
                    let own = if defined_by[name as usize] == Some(file) { OWN_NAME } else { 1.0 };
                    graph.edges.push((name, weight * own));
                }
            }
            for (_, weight) in &mut graph.edges[begin..] {
                *weight /= whole;
            }
            graph.edge_begins.push(graph.edges.len());
        }
        graph
    }

    fn weight(&self, name: u32, text: &str, count: u32) -> f64 {
        // A name that many define tells little of which is meant.
        let mut weight = f64::from(count).sqrt() / f64::from(self.definers[name as usize]).sqrt();
        if text.starts_with('_') || text.len() < SHORT_NAME {
            weight *= MINOR_NAME;
        }
        if self.in_focus[name as usize] {
            weight *= FOCUS_NAME;
        }
        weight
    }

    /// Where the walker goes back to: the files of the failures, those that define their names, and any.
    fn way_back(&self, tags: &TreeTags, focus: &Focus) -> Vec<f64> {
        let mut back = vec![0.0; tags.files.len()];
        for (file, _) in focused(tags, focus) {
            back[file] += 1.0;
        }
        for (definition, &name) in self.name_of.iter().enumerate() {
            if self.in_focus[name as usize] {
                back[self.file_of[definition] as usize] += 0.5 / f64::from(self.definers[name as usize]);
            }
        }
        let whole: f64 = back.iter().sum();
        let to_focus = if whole > 0.0 { TO_FOCUS } else { 0.0 };
        let anywhere = (1.0 - to_focus) / tags.files.len().max(1) as f64;
        for share in &mut back {
            *share = anywhere + if whole > 0.0 { *share / whole * to_focus } else { 0.0 };
        }
        back
    }

    /// How often the walker stands on each file, and follows each name.
    fn walk(&self, back: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut files = back.to_vec();
        let mut names = vec![0.0; self.definers.len()];
        for _ in 0..ROUNDS {
            names.fill(0.0);
            let mut nowhere = 0.0;
            for (file, share) in files.iter().enumerate() {
                let edges = &self.edges[self.edge_begins[file]..self.edge_begins[file + 1]];
                let mut left = 1.0;
                for (name, weight) in edges {
                    names[*name as usize] += share * weight;
                    left -= weight;
                }
                nowhere += share * left;
            }
            for (share, back) in files.iter_mut().zip(back) {
                *share = back * (1.0 - GO_ON + GO_ON * nowhere);
            }
            for (name, file) in self.name_of.iter().zip(&self.file_of) {
                let share = names[*name as usize] / f64::from(self.definers[*name as usize]);
                files[*file as usize] += GO_ON * share;
            }
        }
        (files, names)
    }

    fn scores(&self, tags: &TreeTags, focus: &Focus, files: &[f64], names: &[f64]) -> Vec<f64> {
        let mut scores: Vec<f64> = self
            .name_of
            .iter()
            .zip(&self.file_of)
            .map(|(name, file)| {
                let (name, file) = (*name as usize, *file as usize);
                let here = (self.begins[file + 1] - self.begins[file]) as f64;
                let definers = f64::from(self.definers[name]);
                let spoken_of = if self.in_focus[name] { 1.0 / definers } else { 0.0 };
                names[name] / definers + 0.1 * files[file] / here + spoken_of
            })
            .collect();
        for (file, lines) in focused(tags, focus) {
            let (begin, end) = (self.begins[file], self.begins[file + 1]);
            for line in lines {
                // The definition that begins last before a line is the one, or one within it.
                let before = self.definitions[begin..end].iter().rposition(|found| found.line <= *line);
                if let Some(place) = before {
                    scores[begin + place] += 2.0;
                }
            }
        }
        scores
    }
}

/// The files of the tree that the failures name, with the lines that they name. A tool may name a file from
/// another root than the repository's, so a path counts from its longest end that the tree has.
fn focused<'a>(
    tags: &'a TreeTags,
    focus: &'a Focus,
) -> impl Iterator<Item = (usize, &'a std::collections::BTreeSet<u32>)> {
    focus.files().iter().filter_map(|(path, lines)| {
        let mut end = path.as_str();
        loop {
            if let Ok(file) = tags.files.binary_search_by(|tagged| tagged.path.as_bytes().cmp(end.as_bytes()))
            {
                return Some((file, lines));
            }
            end = end.split_once('/')?.1;
        }
    })
}

#[cfg(test)]
mod tests;
