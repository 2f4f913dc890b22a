//! Toolchains of hosts that are made up in a folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// A host below a folder.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn program(&self, path: &str) -> PathBuf {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "\x7fELF").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn host(&self, path: &[&str]) -> Host {
        let folders: Vec<PathBuf> = path.iter().map(|folder| self.at(folder)).collect();
        let path: OsString = std::env::join_paths(folders).unwrap();
        Host { path, home: self.at("home"), variables: BTreeMap::new() }
    }
}

/// What a detection gave, by the host's folder as `~`.
fn paths(part: &[Bind], made: &Made) -> Vec<String> {
    let root = made.at("").to_string_lossy().trim_end_matches('/').to_owned();
    part.iter().map(|bind| bind.host.to_string_lossy().replace(&root, "~")).collect()
}

#[test]
fn the_toolchain_that_rustup_would_choose_is_bound_by_its_real_path() {
    let made = Made::new();
    for program in ["cargo", "rustc", "rustdoc"] {
        made.program(&format!("rustup/toolchains/stable-x/bin/{program}"));
    }
    symlink(made.at("rustup/toolchains/stable-x"), made.at("rustup/toolchains/1.90-x")).unwrap();
    made.file("rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"1.90-x\"\n");
    made.program("bin/rustup");
    symlink("rustup", made.at("bin/cargo")).unwrap();
    let mut host = made.host(&["bin"]);
    host.variables.insert("RUSTUP_HOME".to_owned(), made.at("rustup").to_string_lossy().into_owned());
    let part = rust::detect(&host);
    assert_eq!(paths(&part.binds, &made), ["~/rustup/toolchains/stable-x"]);
    let missing: Vec<&str> = part.missing.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(missing, ["cargo-clippy", "rustfmt"]);
    assert!(part.missing[0].advice.contains("rustup component add clippy"));
}

#[test]
fn a_rustup_without_a_toolchain_is_no_cargo() {
    let made = Made::new();
    made.program("bin/rustup");
    symlink("rustup", made.at("bin/cargo")).unwrap();
    let mut host = made.host(&["bin"]);
    host.variables.insert("RUSTUP_HOME".to_owned(), made.at("rustup").to_string_lossy().into_owned());
    assert_eq!(rust::detect(&host).missing[0].name, "cargo");
}

#[test]
fn a_shim_of_pyenv_stands_for_the_chosen_version() {
    let made = Made::new();
    made.program("pyenv/shims/python3");
    made.program("pyenv/versions/3.11.7/bin/python3");
    made.program("pyenv/versions/3.12.1/bin/python3");
    made.file("pyenv/version", "3.12.1\n");
    let host = made.host(&["pyenv/shims"]);
    assert_eq!(paths(&python::detect(&host).binds, &made), ["~/pyenv/versions/3.12.1"]);
    let mut host = host;
    host.variables.insert("PYENV_VERSION".to_owned(), "3.11.7".to_owned());
    assert_eq!(paths(&python::detect(&host).binds, &made), ["~/pyenv/versions/3.11.7"]);
}

#[test]
fn of_a_virtual_environment_the_interpreter_below_it_is_bound_too() {
    let made = Made::new();
    made.program("python/bin/python3.12");
    made.program("env/bin/pytest");
    symlink(made.at("python/bin/python3.12"), made.at("env/bin/python3")).unwrap();
    let home = made.at("python/bin");
    made.file("env/pyvenv.cfg", &format!("home = {}\nversion = 3.12.1\n", home.display()));
    let part = python::detect(&made.host(&["env/bin"]));
    let mut bound = paths(&part.binds, &made);
    bound.sort();
    assert_eq!(bound, ["~/env", "~/python"]);
    assert!(part.found.iter().any(|tool| tool.name == "pytest"));
    assert_eq!(part.missing.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["ruff"]);
    let python = part.found.iter().find(|tool| tool.name == "python3").unwrap();
    assert!(python.path.ends_with("env/bin/python3"), "{}", python.path.display());
}

#[test]
fn a_single_program_elsewhere_is_bound_alone_and_not_its_folder() {
    let made = Made::new();
    made.program("python/bin/python3");
    made.program("home/bin/ruff");
    let part = python::detect(&made.host(&["python/bin", "home/bin"]));
    let ruff = part.binds.iter().find(|bind| bind.host.ends_with("ruff")).unwrap();
    assert_eq!(ruff.inside, Path::new("/opt/whipstitch/bin/ruff"));
}

#[test]
fn a_home_or_a_shared_folder_is_never_bound_whole() {
    for wide in ["/", "/root", "/home", "/home/somebody", "/opt", "/tmp", "/var"] {
        assert!(host::too_wide(Path::new(wide)), "{wide}");
    }
    for narrow in ["/opt/python", "/root/.rustup/toolchains/stable", "/home/somebody/go", "/nix/store"] {
        assert!(!host::too_wide(Path::new(narrow)), "{narrow}");
    }
}

#[test]
fn what_a_container_would_hide_counts_as_missing() {
    let mut binds = vec![Bind::same("/tmp/env"), Bind::same("/opt/env")];
    let mut path = vec![PathBuf::from("/tmp/env/bin"), PathBuf::from("/opt/env/bin")];
    let tool = |name: &str, path: &str| FoundTool {
        family: Family::Python,
        name: name.to_owned(),
        version: None,
        path: PathBuf::from(path),
    };
    let mut found = vec![tool("ruff", "/tmp/env/bin/ruff"), tool("pytest", "/opt/env/bin/pytest")];
    let mut missing = Vec::new();
    leave_out_hidden(&mut binds, &mut path, &mut found, &mut missing);
    assert_eq!((binds.len(), path.len(), found.len()), (1, 1, 1));
    assert_eq!(missing[0].name, "ruff");
    assert!(missing[0].advice.contains("/tmp/env"), "{}", missing[0].advice);
}

#[test]
fn a_bind_within_another_is_left_out() {
    let inner = Bind::same("/opt/python/lib");
    let moved = Bind { host: PathBuf::from("/opt/python/x"), inside: PathBuf::from("/opt/whipstitch/x") };
    let binds =
        without_nested(vec![inner, Bind::same("/opt/python"), moved.clone(), Bind::same("/opt/python")]);
    assert_eq!(binds, [Bind::same("/opt/python"), moved]);
}
