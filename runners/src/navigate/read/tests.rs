use super::*;
use crate::workspace::Entry;

fn tree() -> Tree {
    let lines: String = (1..=2_000).map(|at| format!("line {at}\n")).collect();
    let wide = "é".repeat(5_000);
    let entries = [
        ("a/long.txt", Mode::Regular, lines.as_bytes()),
        ("wide.txt", Mode::Regular, wide.as_bytes()),
        ("empty.txt", Mode::Regular, b""),
        ("no.bin", Mode::Regular, b"\0"),
        ("out", Mode::Symlink, b"/etc/passwd"),
    ];
    let entries =
        entries.map(|(path, mode, content)| (TreePath::parse(path).unwrap(), Entry::new(mode, content)));
    Tree::new(entries.into(), None).unwrap()
}

fn ask(path: &str, line: Option<u32>, lines: Option<u32>) -> Result<FileText, ToolError> {
    read(&tree(), &ReadAsk { path: path.to_owned(), line, lines })
}

#[test]
fn a_part_of_a_file_is_read_with_its_line_numbers() {
    let text = ask("./a/long.txt", Some(1_999), Some(1)).unwrap();
    assert_eq!(text.text(), "  1999\tline 1999\nnot whole: the file goes on at line 2000 of 2000\n");
    let text = ask("a/long.txt", Some(2_000), None).unwrap();
    assert_eq!(text.text(), "  2000\tline 2000\n");
    assert_eq!(ask("empty.txt", None, None).unwrap().text(), "");
}

#[test]
fn what_is_read_is_bounded() {
    assert_eq!(ask("a/long.txt", None, None).unwrap().lines.len(), LINES as usize);
    assert_eq!(ask("a/long.txt", None, Some(u32::MAX)).unwrap().lines.len(), MAX_LINES as usize);
    let wide = ask("wide.txt", None, None).unwrap();
    assert_eq!((wide.lines[0].len(), wide.cut), (MAX_LINE, Some("a line is longer than 2,000 bytes")));
}

#[test]
fn nothing_outside_of_the_tree_is_read() {
    for path in ["/etc/passwd", "../etc/passwd", "a/../../x", ".git/config", "", "a"] {
        assert!(ask(path, None, None).is_err(), "{path}");
    }
    let refused = ask("out", None, None).unwrap_err();
    assert_eq!(refused.to_string(), "out is a link, and links are not followed");
    assert_eq!(ask("none.txt", None, None), Err(ToolError::NoFile("none.txt".to_owned())));
    assert!(ask("no.bin", None, None).is_err());
    assert!(ask("a/long.txt", Some(2_001), None).is_err());
}
