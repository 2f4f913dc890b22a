use std::time::Duration;

use super::*;
use crate::navigate::budget::Stop;
use crate::navigate::{Known, gather};
use crate::workspace::{Entry, Mode, Tree, TreePath};

fn tags(files: &[(&str, &str)]) -> TreeTags {
    let entries = files.iter().map(|(path, content)| {
        (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, content.as_bytes()))
    });
    let tree = Tree::new(entries.collect(), None).unwrap();
    gather(&tree, &Known::default(), Stop::in_time(Duration::from_secs(600))).tags
}

/// The names of all definitions, the best first.
fn order(tags: &TreeTags, focus: &Focus) -> Vec<String> {
    let ranking = Ranking::of(tags, focus);
    let mut order: Vec<usize> = (0..ranking.scores.len()).collect();
    order.sort_by(|left, right| {
        ranking.scores[*right].total_cmp(&ranking.scores[*left]).then(left.cmp(right))
    });
    order.into_iter().map(|place| ranking.definitions[place].name.to_owned()).collect()
}

const FILES: [(&str, &str); 5] = [
    ("app.py", "from core import engine\ndef main(): engine()\n"),
    ("core.py", "def engine(): return piston()\ndef piston(): pass\ndef unused(): pass\n"),
    ("paint.py", "def color(): return shade()\ndef shade(): pass\n"),
    ("other.py", "from core import engine\ndef third(): engine()\n"),
    ("tests/test_paint.py", "from paint import color\ndef test_color(): color()\n"),
];

#[test]
fn what_many_refer_to_comes_first_where_nothing_failed() {
    assert_eq!(order(&tags(&FILES), &Focus::default())[0], "engine");
}

#[test]
fn the_failing_file_and_what_it_refers_to_come_first() {
    let mut focus = Focus::default();
    focus.add_file("/workspace/tests/test_paint.py", Some(2));
    assert_eq!(order(&tags(&FILES), &focus)[..3], ["test_color", "color", "shade"]);
}

#[test]
fn a_name_that_a_failure_speaks_of_comes_first() {
    let mut focus = Focus::default();
    focus.add_name("unused");
    focus.add_name("not_in_the_tree");
    assert_eq!(order(&tags(&FILES), &focus)[0], "unused");
}

#[test]
fn shares_are_neither_lost_nor_made() {
    let tags = tags(&FILES);
    for focus in [Focus::default(), {
        let mut focus = Focus::default();
        focus.add_file("core.py", None);
        focus
    }] {
        let graph = Graph::of(&tags, &focus);
        let back = graph.way_back(&tags, &focus);
        let (files, names) = graph.walk(&back);
        for whole in [back.iter().sum::<f64>(), files.iter().sum()] {
            assert!((whole - 1.0).abs() < 1e-9, "{whole}");
        }
        assert!(names.iter().sum::<f64>() <= 1.0 + 1e-9);
    }
}

#[test]
fn a_tree_without_definitions_has_no_ranking() {
    for files in [&[][..], &[("a.py", "print(1)\n")][..]] {
        assert!(Ranking::of(&tags(files), &Focus::default()).scores.is_empty());
    }
}
