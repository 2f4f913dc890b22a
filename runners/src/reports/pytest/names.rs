//! pytest's node ids from what XML keeps of them.

use std::collections::BTreeSet;

use super::super::junit::Case;

/// `file::Class::name` of a test case.
///
/// XML keeps the path with dots and the classes after it. The file's own attribute (family `xunit1`) or a
/// path that the console names tells where the path ends; else classes are the trailing names that begin
/// with a capital letter, as Python's style has it.
pub(super) fn node_id(case: &Case, files: &BTreeSet<String>) -> String {
    if case.class.is_empty() {
        let path = case.name.replace('.', "/");
        return match case.name.ends_with(".py") || case.name.contains('/') {
            true => case.name.clone(),
            false => format!("{path}.py"),
        };
    }
    let (file, classes) = split_class(case, files);
    let mut id = file;
    for class in classes.split('.').filter(|class| !class.is_empty()) {
        id.push_str("::");
        id.push_str(class);
    }
    id.push_str("::");
    id.push_str(&case.name);
    id
}

fn split_class<'c>(case: &'c Case, files: &BTreeSet<String>) -> (String, &'c str) {
    if let Some(file) = &case.file {
        let module = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
        if let Some(rest) = case.class.strip_prefix(&module) {
            return (file.clone(), rest);
        }
    }
    // The longest prefix that is a known file.
    let mut end = case.class.len();
    loop {
        let path = format!("{}.py", case.class[..end].replace('.', "/"));
        if files.contains(&path) {
            return (path, &case.class[end..]);
        }
        match case.class[..end].rfind('.') {
            Some(dot) => end = dot,
            None => break,
        }
    }
    let mut end = case.class.len();
    while let Some(dot) = case.class[..end].rfind('.') {
        let last = &case.class[dot + 1..end];
        if !last.starts_with(|first: char| first.is_uppercase()) {
            break;
        }
        end = dot;
    }
    (format!("{}.py", case.class[..end].replace('.', "/")), &case.class[end..])
}
