//! Our patches and git's, each applied by the other, and what both say of damaged ones.
//!
//! `WHIPSTITCH_PATCHES` sets how many random patches are held against `git apply`; 10,000 take some minutes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that prints its table"
)]

use std::collections::BTreeMap;

use runners::edit::{ApplyError, apply_patch};
use runners::workspace::{Bounds, Entry, Mode, Tree, TreePath, scan};

#[path = "patches/git.rs"]
mod git;
#[path = "patches/random.rs"]
mod random;

use git::Git;
use random::{Random, changed, damaged, tree};

/// Patches that are tried unless the environment says otherwise.
const PATCHES: u64 = 300;

/// Options of git's diff, as different people set them.
const OPTIONS: [&[&str]; 8] = [
    &["--binary", "-M", "-C", "--find-copies-harder"],
    &["--binary", "-M30%", "-C30%", "--find-copies-harder", "-U1"],
    &["--binary", "--full-index", "-M", "-B"],
    &["--binary", "-U0"],
    &["--binary", "-U9", "-M"],
    &["--full-index", "--no-renames"],
    &["--binary", "-R"],
    &["--binary", "--text", "-M"],
];

fn pair(random: &mut Random) -> (Tree, Tree) {
    let before = tree(random);
    let after = changed(random, &before);
    (before, after)
}

#[test]
fn gits_own_patches_with_renames_copies_modes_and_binaries_give_gits_tree() {
    let Some(git) = Git::new() else { return };
    let (mut renames, mut copies, mut modes, mut deltas) = (0, 0, 0, 0);
    for seed in 0..300 {
        let (before, after) = pair(&mut Random::new(seed));
        let patch = git.diff(&before, &after, &["--binary", "-M30%", "-C30%", "--find-copies-harder"]);
        if patch.is_empty() {
            assert_eq!(before.id(), after.id());
            continue;
        }
        let applied = apply_patch(&patch, &before)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", String::from_utf8_lossy(&patch)));
        assert_eq!(applied.tree.id(), after.id(), "seed {seed}\n{}", String::from_utf8_lossy(&patch));
        let text = String::from_utf8_lossy(&patch);
        let has = |what: &str| usize::from(text.contains(what));
        renames += has("\nrename from ");
        copies += has("\ncopy from ");
        modes += has("\nold mode ");
        deltas += has("\ndelta ");
    }
    for (what, count) in [("renames", renames), ("copies", copies), ("modes", modes), ("deltas", deltas)] {
        assert!(count > 0, "no patch had {what}");
    }
}

#[test]
fn git_applies_our_patches_and_gets_exactly_our_tree() {
    let Some(mut git) = Git::new() else { return };
    for seed in 1_000..1_150 {
        let (before, after) = pair(&mut Random::new(seed));
        let changeset = runners::edit::diff::diff(&before, &after).unwrap();
        let work = git.lay_out(&before);
        assert_eq!(git.tree_of(&work), before.id().to_string(), "seed {seed}");
        if changeset.is_empty() {
            continue;
        }
        let patch = String::from_utf8_lossy(&changeset.patch);
        git.apply(&work, &changeset.patch).unwrap_or_else(|said| panic!("seed {seed}: {said}\n{patch}"));
        assert_eq!(git.tree_of(&work), changeset.tree_after.to_string(), "seed {seed}\n{patch}");
    }
}

#[test]
fn a_workspace_reads_back_as_the_tree_that_git_adds_with_untracked_ignored_and_mode_changes() {
    use std::os::unix::fs::PermissionsExt;
    let Some(mut git) = Git::new() else { return };
    let file = |text: &str| Entry::new(Mode::Regular, text.as_bytes());
    let base: BTreeMap<TreePath, Entry> = [
        (".gitignore", file("*.log\n/out/\n!keep.log\nsecret\n")),
        ("deep/.gitignore", file("*.tmp\n!wanted.tmp\n")),
        ("tracked.log", file("tracked though ignored\n")),
        ("out/tracked.txt", file("tracked in an ignored folder\n")),
        ("run.sh", file("#!/bin/sh\n")),
        ("gone.txt", file("gone\n")),
        ("deep/a.rs", file("fn a() {}\n")),
        ("link", Entry::new(Mode::Symlink, &b"run.sh"[..])),
    ]
    .into_iter()
    .map(|(name, entry)| (TreePath::parse(name).unwrap(), entry))
    .collect();
    let base = Tree::new(base, None).unwrap();
    let work = git.lay_out(&base);
    let write = |name: &str, text: &str| {
        let path = work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    std::fs::set_permissions(work.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::remove_file(work.join("gone.txt")).unwrap();
    std::fs::remove_file(work.join("link")).unwrap();
    std::os::unix::fs::symlink("deep/a.rs", work.join("link")).unwrap();
    write("tracked.log", "changed\r\n");
    write("out/tracked.txt", "changed too\n");
    write("out/untracked.txt", "ignored\n");
    write("new.log", "ignored\n");
    write("keep.log", "not ignored\n");
    write("deep/x.tmp", "ignored\n");
    write("deep/wanted.tmp", "not ignored\n");
    write("deep/er/secret", "ignored\n");
    write("deep/er/new.bin", "\0binary\0");
    let scan = scan(&work, &base, &Bounds::default()).unwrap();
    assert_eq!(
        scan.tree.id().to_string(),
        git.tree_with_untracked(&work, &base),
        "{:#?}",
        scan.tree.entries()
    );
    let changeset = runners::edit::diff::diff(&base, &scan.tree).unwrap();
    let fresh = git.lay_out(&base);
    git.apply(&fresh, &changeset.patch).unwrap();
    assert_eq!(git.tree_of(&fresh), changeset.tree_after.to_string());
}

/// Why we refuse what git takes: the beginning of our words.
const STRICTER: &[&str] = &[
    // Git takes half a rename or copy for a change of the file that its first line names.
    "a `from` line needs its `to` line",
    // Git takes a deletion by its names alone.
    "`+++ /dev/null` needs the line `deleted file mode",
    // Git lets two parts of a patch move one file, and keeps both copies.
    "a file touched twice",
    // Git takes some other orders, and in some reads `/dev/null` as a file's name.
    "the header's last lines must be `---` and `+++`,",
    // Git takes a short id of the old content where the repository can tell which it is.
    "a binary patch needs an index line with",
    // Git needs no `---` line after its own header, and forgets what it named.
    "a hunk needs the `---` and `+++` lines before",
    // Git makes a file of the patch twice, and the last one stands.
    "a file that is there or made already",
    // Git passes over a binary file whose content is not in the patch, when nothing else of it changes.
    "the binary content is not in the patch;",
    // Git takes what follows the promised lines for text between patches.
    "the hunk goes on after as many lines",
    "the index line is damaged",
    // Git takes the line for text.
    "nothing of this file follows its `diff --git` line",
    // Git takes a marker that was cut off, as long as it begins like one.
    "`\\ No newline at end of file` stands in",
    // Git passes over binary data that it cannot read where the header alone is a change, and needs no whole way back.
    "a binary patch needs `literal` or `delta`",
    "a line of binary data is damaged",
    "the binary data has no end",
    "the binary data is cut off",
    "the compressed bytes do not give",
    "the size of the binary data is no number",
    // Git searches the whole file, however far away the header says.
    "the hunk at line of the patch does not match:",
    // Git takes one of two names, and any folder before them.
    "the name ",
    "the names ",
];

/// What is tried: a tree and a patch for it, good or not.
fn attempt(git: &Git, random: &mut Random) -> (Tree, Vec<u8>, String) {
    let (before, after) = pair(random);
    let (patch, mut what) = if random.once_in(3) {
        (runners::edit::diff::diff(&before, &after).unwrap().patch, "ours".to_owned())
    } else {
        let options = random.pick(&OPTIONS);
        (git.diff(&before, &after, options), options.join(" "))
    };
    let before = if random.once_in(4) {
        what.push_str(", on a tree that drifted");
        changed(random, &before)
    } else {
        before
    };
    if random.once_in(4) {
        return (before, patch, what);
    }
    let (patch, damage) = damaged(random, &patch);
    (before, patch, format!("{what}, {damage}"))
}

#[derive(Default)]
struct Tally {
    both_take: usize,
    both_refuse: usize,
    stricter: BTreeMap<String, (usize, String)>,
    wrong: Vec<String>,
}

impl Tally {
    fn add(
        &mut self,
        seed: u64,
        what: &str,
        patch: &[u8],
        ours: Result<String, ApplyError>,
        gits: Result<String, String>,
    ) {
        let show = || format!("seed {seed}, {what}:\n{}", String::from_utf8_lossy(patch));
        match (ours, gits) {
            (Ok(ours), Ok(gits)) if ours == gits => self.both_take += 1,
            (Ok(_), Ok(_)) => self.wrong.push(format!("another tree; {}", show())),
            (Ok(_), Err(said)) => self.wrong.push(format!("git refuses: {said}; {}", show())),
            (Err(_), Err(_)) => self.both_refuse += 1,
            (Err(error), Ok(_)) => {
                let known = self
                    .stricter
                    .entry(reason(&error))
                    .or_insert_with(|| (0, format!("{error}; {}", show())));
                known.0 += 1;
            }
        }
    }
}

/// An error's kind, or the beginning of its words without the names and numbers in it.
fn reason(error: &ApplyError) -> String {
    let words = match error {
        ApplyError::Patch(error) => error.why.clone(),
        ApplyError::Hunk { source, .. } => source.to_string(),
        ApplyError::Binary { source, .. } => source.to_string(),
        ApplyError::Absent { .. } => "a file that is not there".to_owned(),
        ApplyError::Exists { .. } => "a file that is there or made already".to_owned(),
        ApplyError::NotEmptied { .. } => "a deleted file that keeps content".to_owned(),
        ApplyError::Kind { .. } => "a link taken for a file, or a file for a link".to_owned(),
        ApplyError::Twice { .. } => "a file touched twice".to_owned(),
        ApplyError::LinkTarget { .. } => "a link's target".to_owned(),
        ApplyError::BinaryIds { .. } => "ids of a binary patch".to_owned(),
        other => other.to_string(),
    };
    let plain = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    words.split(' ').filter(plain).take(9).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_we_take_git_takes_too_and_gets_the_same_tree() {
    let Some(mut git) = Git::new() else { return };
    let asked = std::env::var("WHIPSTITCH_PATCHES").ok();
    let count = asked.map_or(PATCHES, |count| count.parse().expect("WHIPSTITCH_PATCHES is a number"));
    let mut tally = Tally::default();
    for seed in 0..count {
        let mut random = Random::new(0x1_0000_0000 + seed);
        let (before, patch, what) = attempt(&git, &mut random);
        let ours = apply_patch(&patch, &before).map(|applied| applied.tree.id().to_string());
        let work = git.lay_out(&before);
        let gits = git.apply(&work, &patch).map(|()| git.tree_of(&work));
        // A patch without a change leaves git's tree as it was.
        let ours = match ours {
            Err(ApplyError::Nothing) => Ok(before.id().to_string()),
            ours => ours,
        };
        tally.add(seed, &what, &patch, ours, gits);
    }
    println!("{count} patches: {} both take, {} both refuse", tally.both_take, tally.both_refuse);
    for (reason, (times, example)) in &tally.stricter {
        println!(
            "{times:>6} refused by us alone: {reason}\n       such as: {}",
            example.replace('\n', "\n       ")
        );
    }
    assert!(
        tally.wrong.is_empty(),
        "{} of {count}:\n{}",
        tally.wrong.len(),
        tally.wrong[..tally.wrong.len().min(5)].join("\n\n")
    );
    let unlisted: Vec<&String> = tally
        .stricter
        .keys()
        .filter(|reason| !STRICTER.iter().any(|known| reason.starts_with(known)))
        .collect();
    assert!(unlisted.is_empty(), "refused by us alone and not listed: {unlisted:#?}");
    assert!(
        count < 300 || (tally.both_take > 20 && tally.both_refuse > 20),
        "the patches are too much alike"
    );
}
