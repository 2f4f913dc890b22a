use std::time::Duration;

use super::*;
use crate::navigate::budget::{Stop, tokens_of};
use crate::navigate::{Known, gather};
use crate::workspace::{Entry, Mode, Tree, TreePath};

fn tags(files: &[(&str, &str)]) -> TreeTags {
    let entries = files.iter().map(|(path, content)| {
        (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, content.as_bytes()))
    });
    let tree = Tree::new(entries.collect(), None).unwrap();
    gather(&tree, &Known::default(), Stop::in_time(Duration::from_secs(600))).tags
}

#[test]
fn a_map_shows_source_lines_under_their_files_and_says_what_it_leaves_out() {
    let tags = tags(&[
        (
            "shop/order.py",
            "class Order:\n    def total(self, cart):\n        return cart.amount()\n\nLIMIT = 3\n",
        ),
        ("shop/cart.py", "class Cart:\n    def amount(self):\n        return 1\n"),
        ("shop/blob.js", "\0"),
    ]);
    let mut focus = Focus::default();
    focus.add_file("shop/order.py", Some(3));
    let map = draw(&tags, &[".zig".to_owned()], &focus, None);
    insta::assert_snapshot!(map.text, @"
    shop/order.py
        1 class Order:
        2   def total(self, cart):
        5 LIMIT = 3
    shop/cart.py
        1 class Cart:
        2   def amount(self):
    left out: files in no language that is read: .zig
    left out: 1 files of which each is no text
    ");
    assert_eq!((map.files, map.definitions, map.of_definitions), (2, 5, 5));
}

#[test]
fn a_map_is_within_its_budget_and_keeps_the_best() {
    let files: Vec<(String, String)> = (0..300)
        .map(|at| {
            (format!("pkg/module_{at}.py"), format!("class Thing{at}:\n    def work_{at}(self): helper()\n"))
        })
        .chain([("pkg/helper.py".to_owned(), "def helper(): pass\n".to_owned())])
        .collect();
    let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    let tags = tags(&files);
    let mut before = 0;
    for tokens in [0, 100, 300, 1_000, 4_000] {
        let map = draw(&tags, &[], &Focus::default(), Some(tokens));
        assert!(tokens_of(map.text.len()) <= tokens, "{} bytes in {tokens} tokens", map.text.len());
        assert!(map.definitions >= before, "more room never shows less");
        assert!(
            tokens < 300 || map.text.starts_with("pkg/helper.py\n    1 def helper(): pass\n"),
            "{}",
            map.text
        );
        before = map.definitions;
    }
    assert!(before > 50);
}

#[test]
fn a_map_of_nothing_is_empty() {
    let map = draw(&TreeTags::default(), &[], &Focus::default(), None);
    assert_eq!((map.text.as_str(), map.of_definitions), ("", 0));
}
