//! Ruff's safe fixes: the admitted command once more, with `--fix` put behind its subcommand.

use std::collections::BTreeSet;

use crate::workspace::{Tree, TreeError, TreePath};

/// The admitted command as one that fixes; `None` where it does not show plainly that it is `ruff check`.
pub(super) fn fixing(argv: &[String]) -> Option<Vec<String>> {
    let ruff = argv.iter().position(|word| word.rsplit('/').next() == Some("ruff"))?;
    let launchers_only = argv[..ruff].iter().all(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        name.starts_with("python")
            || matches!(name, "-m" | "uv" | "uvx" | "run" | "poetry" | "pipenv" | "env")
    });
    if !launchers_only || argv.get(ruff + 1).map(String::as_str) != Some("check") {
        return None;
    }
    let mut fixing: Vec<String> = argv[..ruff + 2].to_vec();
    // A repository's configuration may switch unsafe fixes on; this flag is stronger.
    fixing.extend(["--fix", "--no-unsafe-fixes", "--quiet"].map(str::to_owned));
    let own = ["--fix", "--no-fix", "--fix-only", "--unsafe-fixes", "--no-unsafe-fixes", "--diff", "--watch"];
    fixing.extend(argv[ruff + 2..].iter().filter(|word| !own.contains(&word.as_str())).cloned());
    Some(fixing)
}

/// `base` with what `after` changed in `files`, and in nothing else.
pub(super) fn only(base: &Tree, after: &Tree, files: &BTreeSet<TreePath>) -> Result<Tree, TreeError> {
    let mut entries = base.entries().clone();
    for path in files {
        match (base.entry(path), after.entry(path)) {
            (Some(before), Some(now)) if before.mode == now.mode => {
                entries.insert(path.clone(), now.clone());
            }
            _ => {}
        }
    }
    Tree::new(entries, base.objects().cloned())
}

#[cfg(test)]
mod tests {
    use super::fixing;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_admitted_command_is_extended_where_it_is_plainly_ruff() {
        for (admitted, expected) in [
            ("ruff check .", "ruff check --fix --no-unsafe-fixes --quiet ."),
            ("python3 -m ruff check src", "python3 -m ruff check --fix --no-unsafe-fixes --quiet src"),
            ("ruff check --unsafe-fixes --no-fix a", "ruff check --fix --no-unsafe-fixes --quiet a"),
            ("uv run ruff check", "uv run ruff check --fix --no-unsafe-fixes --quiet"),
        ] {
            assert_eq!(fixing(&words(admitted)).unwrap().join(" "), expected);
        }
        for other in ["ruff format .", "ruff", "make lint", "sh -c ruff check", "echo ruff check"] {
            assert!(fixing(&words(other)).is_none(), "{other}");
        }
    }
}
