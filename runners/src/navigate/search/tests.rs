use super::*;
use crate::workspace::{Entry, Mode};

fn tree(files: &[(&str, &[u8])]) -> Tree {
    let entries = files
        .iter()
        .map(|(path, content)| (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, *content)));
    Tree::new(entries.collect(), None).unwrap()
}

fn ask(pattern: &str, globs: &[&str]) -> SearchAsk {
    let globs = globs.iter().map(|&glob| glob.to_owned()).collect();
    SearchAsk { pattern: pattern.to_owned(), globs, ..SearchAsk::default() }
}

fn places(found: &SearchFound) -> Vec<String> {
    found.found.iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
}

#[test]
fn lines_are_found_by_pattern_case_and_plain_text() {
    let tree = tree(&[("a.py", b"x = 1\ndef work(a):\n    work(b)\n"), ("b/c.py", b"Work(.)\n")]);
    assert_eq!(places(&search(&tree, &ask(r"work\(\w", &[])).unwrap()), ["a.py:2", "a.py:3"]);
    let either = SearchAsk { ignore_case: true, ..ask("WORK", &[]) };
    assert_eq!(places(&search(&tree, &either).unwrap()), ["a.py:2", "a.py:3", "b/c.py:1"]);
    let plain = SearchAsk { literal: true, ..ask("(.)", &[]) };
    assert_eq!(search(&tree, &plain).unwrap().text(), "b/c.py:1: Work(.)\n");
    assert_eq!(search(&tree, &ask("nothing", &[])).unwrap().text(), "no match in 2 files\n");
}

#[test]
fn globs_choose_and_leave_out_files_and_folders() {
    let tree = tree(&[("src/a.py", b"x"), ("src/b.rs", b"x"), ("tests/a.py", b"x"), ("a.md", b"x")]);
    let with = |globs: &[&str]| places(&search(&tree, &ask("x", globs)).unwrap()).join(" ");
    assert_eq!(with(&["*.py"]), "src/a.py:1 tests/a.py:1");
    assert_eq!(with(&["src"]), "src/a.py:1 src/b.rs:1");
    assert_eq!(with(&["src/**", "!*.rs"]), "src/a.py:1");
    assert_eq!(with(&["!tests/"]), "a.md:1 src/a.py:1 src/b.rs:1");
    assert_eq!(with(&["/*.md"]), "a.md:1");
}

#[test]
fn no_link_and_no_name_leads_out() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("secret.txt");
    std::fs::write(&outside, "a secret word\n").unwrap();
    let target = outside.to_str().unwrap().as_bytes();
    let entries = [
        (TreePath::parse("link.txt").unwrap(), Entry::new(Mode::Symlink, target)),
        (TreePath::parse("plain.txt").unwrap(), Entry::new(Mode::Regular, &b"a plain word\n"[..])),
    ];
    let tree = Tree::new(entries.into(), None).unwrap();
    assert_eq!(places(&search(&tree, &ask("word|secret", &[])).unwrap()), ["plain.txt:1"]);
    let glob = format!("{}/**", folder.path().display());
    assert_eq!(places(&search(&tree, &ask("word", &[&glob, "../**"])).unwrap()), [] as [String; 0]);
}

#[test]
fn an_answer_is_bounded_in_matches_lines_and_bytes() {
    let many = "word\n".repeat(1_000);
    let long = format!("word {}\n", "x".repeat(100_000));
    let files: Vec<(String, &[u8])> = (0..50).map(|at| (format!("f{at:02}"), many.as_bytes())).collect();
    let mut files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    files.insert(0, ("a", long.as_bytes()));
    let found = search(&tree(&files), &ask("word", &[])).unwrap();
    assert_eq!(found.found.len(), MATCHES);
    assert_eq!(found.found[0].text.len(), MAX_LINE);
    assert_eq!(found.found.iter().filter(|found| found.path.as_bytes() == b"f00").count(), MAX_IN_FILE);
    assert_eq!(found.cut, ["a file has more than 30 matches", "there may be more matches"]);
    let wide = format!("{}\n", "word ".repeat(60)).repeat(30);
    let files: Vec<(String, &[u8])> = (0..50).map(|at| (format!("f{at:02}"), wide.as_bytes())).collect();
    let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let all = SearchAsk { matches: Some(usize::MAX), ..ask("word", &[]) };
    assert!(search(&tree(&files), &all).unwrap().text().len() < MAX_ANSWER + 1_000);
}

#[test]
fn lines_are_counted_over_the_pieces_of_a_file() {
    let line = "0123456789abcde\n";
    let content = format!("{}needle\n{}needle\n", line.repeat(20_000), line.repeat(20_000));
    let found = search(&tree(&[("big.txt", content.as_bytes())]), &ask("needle", &[])).unwrap();
    assert_eq!(places(&found), ["big.txt:20001", "big.txt:40002"]);
}

#[test]
fn what_is_no_text_or_too_large_is_not_searched() {
    let large = vec![b'x'; MAX_FILE + 1];
    let found = search(&tree(&[("a.bin", b"x\0x"), ("b.txt", &large)]), &ask("x", &[])).unwrap();
    assert_eq!((found.found.len(), found.cut.as_slice()), (0, &["a file over 4 MiB was not searched"][..]));
}

#[test]
fn a_hostile_pattern_is_refused_or_ends() {
    let tree = tree(&[("a.txt", "a".repeat(100_000).as_bytes())]);
    for pattern in ["", "(", &"a".repeat(2_000), "(?:a{1000}){1000}", &"(".repeat(400)] {
        assert!(matches!(search(&tree, &ask(pattern, &[])), Err(ToolError::Refused(_))), "{pattern:.40}");
    }
    assert!(search(&tree, &ask("(a+)+b", &[])).unwrap().found.is_empty());
    assert!(search(&tree, &ask("x", &["["])).is_err());
}

#[test]
fn a_search_ends_when_its_time_is_spent() {
    let found =
        search_until(&tree(&[("a.txt", b"x")]), &ask("x", &[]), Stop::in_time(Duration::ZERO)).unwrap();
    assert_eq!((found.found.len(), found.cut.as_slice()), (0, &["the time of a search was spent"][..]));
}
