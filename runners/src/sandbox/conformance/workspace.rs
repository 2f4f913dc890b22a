//! The other direction: a workspace in which a build has left things that harm whoever looks at it.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};

use super::{Facts, Outcome, none_open, short};
use crate::sandbox::WORKSPACE;
use crate::workspace::{self, Bounds, Tree};

/// The name of what a trap makes on the host when it is sprung, beside the canary.
const SPRUNG: &str = "sprung";
/// Folders nested in each other; deeper than any path that the kernel takes at once.
const DEPTH: usize = 2_100;

/// Leaves everything in the workspace, inside the container.
pub fn plant(facts: &Facts) -> io::Result<()> {
    std::env::set_current_dir(WORKSPACE)?;
    git_traps(facts)?;
    fs::create_dir("t")?;
    let node =
        |path: &str, kind| rustix::fs::mknodat(CWD, path, kind, Mode::RWXU, 0).map_err(io::Error::from);
    node("t/pipe", FileType::Fifo)?;
    drop(std::os::unix::net::UnixListener::bind("t/socket")?);
    let canary = facts.canary_file.to_string_lossy().into_owned();
    let up = format!("{}{}", "../".repeat(20), canary.trim_start_matches('/'));
    let links = [
        ("t/absolute", canary.as_str()),
        ("t/up", up.as_str()),
        ("t/loop", "loop"),
        ("t/process", "/proc/self/environ"),
        ("t/endless", "/dev/zero"),
        ("t/folder", "/"),
        ("t/gone", "nowhere"),
    ];
    for (at, target) in links {
        symlink(target, at)?;
    }
    for name in ["t/new\nline", "t/\u{1b}[2Jescape", "t/-rf", "t/--output=x", "t/CaseA", "t/casea", "t/git~1"]
    {
        fs::write(name, "x")?;
    }
    use std::os::unix::ffi::OsStrExt as _;
    fs::write(std::ffi::OsStr::from_bytes(b"t/not-\xff\xfe-text"), "x")?;
    // As large as a file may be here, and empty.
    fs::File::create("t/sparse")?.set_len(super::bombs::LIMITS.file_bytes)?;
    fs::write("t/set-user-id", "#!/bin/sh\n")?;
    fs::set_permissions("t/set-user-id", fs::Permissions::from_mode(0o6755))?;
    fs::create_dir("t/closed")?;
    fs::write("t/closed/within", "x")?;
    fs::set_permissions("t/closed", fs::Permissions::from_mode(0o000))?;
    deep()
}

/// A repository whose every hook, filter and helper springs the trap.
fn git_traps(facts: &Facts) -> io::Result<()> {
    let sprung = facts.canary_file.with_file_name(SPRUNG);
    let script = format!("#!/bin/sh\necho sprung >> '{}'\n", sprung.display());
    let executable = |path: &str| {
        fs::write(path, &script)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    for folder in [".git/hooks", ".git/objects", ".git/refs/heads", ".git/info"] {
        fs::create_dir_all(folder)?;
    }
    executable(".git/trap")?;
    for hook in ["pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-commit"] {
        executable(&format!(".git/hooks/{hook}"))?;
    }
    fs::write(".git/HEAD", "ref: refs/heads/main\n")?;
    let trap = format!("{WORKSPACE}/.git/trap");
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {trap}\n\tsshCommand = {trap}\n\tpager = {trap}\n\
         [filter \"x\"]\n\tclean = {trap}\n\tsmudge = {trap}\n[diff]\n\texternal = {trap}\n\
         [diff \"x\"]\n\ttextconv = {trap}\n[credential]\n\thelper = {trap}\n"
    );
    fs::write(".git/config", config)?;
    fs::write(".gitattributes", "*.dat filter=x\n*.txt diff=x\n")?;
    fs::write(".gitmodules", format!("[submodule \"s\"]\n\tpath = s\n\turl = ./s\n\tupdate = !{trap}\n"))?;
    fs::write("a.txt", "x\n")?;
    fs::write("b.dat", "x\n")
}

fn deep() -> io::Result<()> {
    for _ in 0..DEPTH {
        fs::create_dir("d")?;
        std::env::set_current_dir("d")?;
    }
    Ok(())
}

/// Looks at the workspace on the host as the runner does.
pub fn look(folder: &Path, canary_file: &Path, canary: &str) -> Outcome {
    // A workspace in which nothing was planted would prove nothing.
    if fs::symlink_metadata(folder.join("t/pipe")).is_err() || fs::symlink_metadata(folder.join("d")).is_err()
    {
        return Outcome::NotTried("the traps are not there".to_owned());
    }
    let mut open = Vec::new();
    let said = match workspace::scan(folder, &Tree::empty(), &Bounds::default()) {
        Ok(scan) => {
            for (path, entry) in scan.tree.entries() {
                let content = scan.tree.content(path, entry);
                let is_link = !entry.mode.is_file();
                if !is_link && content.is_ok_and(|bytes| contains(&bytes, canary.as_bytes())) {
                    open.push(format!("{path} holds the canary"));
                }
            }
            format!("{} entries taken, {} left out", scan.tree.entries().len(), scan.noted)
        }
        Err(error) => format!("refused: {}", short(&io::Error::other(error))),
    };
    if canary_file.with_file_name(SPRUNG).exists() {
        open.push("a trap was sprung".to_owned());
    }
    none_open(&open, said)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && bytes.windows(wanted.len()).any(|window| window == wanted)
}
