//! A container over a fresh workspace, as every test needs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::common::sandbox;
use runners::sandbox::{
    Bind, Command, Container, ContainerLimits, ContainerSpec, Embedded, Exit, Sandbox as _,
};

/// The folders of one container, removed at the end.
pub struct Fixture {
    pub sandbox: Embedded,
    pub folder: tempfile::TempDir,
    pub spec: ContainerSpec,
}

pub fn limits() -> ContainerLimits {
    ContainerLimits {
        memory_bytes: 256 << 20,
        processes: 48,
        file_bytes: 64 << 20,
        open_files: 256,
        scratch_bytes: 32 << 20,
        ..ContainerLimits::default()
    }
}

pub fn fixture() -> Option<Fixture> {
    let sandbox = sandbox()?;
    let folder = tempfile::tempdir().unwrap();
    for name in ["workspace", "home"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let environment =
        [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/whipstitch"), ("LANG", "C.UTF-8")];
    let spec = ContainerSpec {
        run: jobs::id::RunId::fresh(1),
        workspace: folder.path().join("workspace"),
        home: folder.path().join("home"),
        read_only: python_binds(),
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        limits: limits(),
        egress: None,
    };
    Some(Fixture { sandbox, folder, spec })
}

impl Fixture {
    pub async fn container(&self) -> Box<dyn Container> {
        self.sandbox.create(self.spec.clone()).await.unwrap()
    }

    pub async fn run(&self, argv: &[&str]) -> Exit {
        self.exec(command(argv)).await
    }

    pub async fn exec(&self, command: Command) -> Exit {
        let mut container = self.container().await;
        let exit = container.exec(command).await.unwrap();
        container.destroy().await.unwrap();
        exit
    }

    /// Runs a Python program with the helpers below, and gives its lines.
    pub async fn python(&self, program: &str) -> String {
        let exit = self.exec(python(program)).await;
        assert!(exit.stderr.is_empty(), "{}", String::from_utf8_lossy(&exit.stderr));
        String::from_utf8(exit.stdout).unwrap()
    }
}

pub fn command(argv: &[&str]) -> Command {
    Command { timeout: Duration::from_secs(60), ..Command::new(argv) }
}

pub fn python(program: &str) -> Command {
    let program = format!("{HELPERS}\n{program}");
    command(&[&python_program().to_string_lossy(), "-I", "-c", &program])
}

/// `call(number, ...)` makes a raw system call and gives its error's name, or `ok`; `tried(f)` calls.
const HELPERS: &str = r#"
import ctypes, errno, os, socket, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return 'ok' if result >= 0 else errno.errorcode[ctypes.get_errno()]
def tried(act):
    try:
        act()
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]
"#;

/// The interpreter that is no wrapper, with its library.
pub fn python_program() -> PathBuf {
    let candidates = ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from);
    if let Some(system) = candidates.into_iter().find(|path| path.exists()) {
        return system;
    }
    let asked = std::process::Command::new("python3")
        .args(["-c", "import os, sys; print(os.path.realpath(sys.executable))"])
        .output()
        .expect("the tests need python3");
    PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim())
}

fn python_binds() -> Vec<Bind> {
    let program = python_program();
    if program.starts_with("/usr") {
        return Vec::new();
    }
    let prefix = program.parent().and_then(Path::parent).unwrap();
    vec![Bind::same(prefix)]
}

pub fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}
