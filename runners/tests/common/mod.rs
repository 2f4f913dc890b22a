//! A sandbox for tests, or a plain word why there is none.
#![allow(dead_code, reason = "no test target uses all of it")]

use std::path::PathBuf;
use std::time::Duration;

use runners::sandbox::{
    Bind, Command, Container, ContainerLimits, ContainerSpec, Embedded, Exit, Sandbox as _, SandboxError,
};

/// The embedded sandbox. Where the kernel forbids it the test is skipped, but never where CI promised it.
pub fn sandbox() -> Option<Embedded> {
    match Embedded::with_launcher(launcher()) {
        Ok(sandbox) => Some(sandbox),
        Err(SandboxError::CannotSeal(why)) if !namespaces() => {
            assert!(std::env::var_os("WHIPSTITCH_CI").is_none(), "CI must have user namespaces: {why}");
            eprintln!("skipped: no user namespaces: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether the kernel lets another program have what a container is made of: else a fault of ours would
/// look like a reason to skip.
fn namespaces() -> bool {
    let tried = std::process::Command::new("unshare").args(["--user", "--mount", "--net", "true"]).status();
    tried.is_ok_and(|status| status.success())
}

/// The launcher, where another user of this host can reach it as well.
pub fn launcher() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_sandbox-init"));
    std::env::var_os("WHIPSTITCH_TEST_LAUNCHER").map_or_else(built, PathBuf::from)
}

/// A container on fresh folders with the host's system programs.
pub struct Fresh {
    pub container: Box<dyn Container>,
    pub folder: tempfile::TempDir,
}

pub async fn fresh(sandbox: &Embedded) -> Fresh {
    fresh_with(sandbox, |_| {}).await
}

pub async fn fresh_with(sandbox: &Embedded, change: impl FnOnce(&mut ContainerSpec)) -> Fresh {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = ContainerSpec {
        run: jobs::id::RunId::fresh(1),
        workspace: folder.path().join("workspace"),
        home: folder.path().join("home"),
        read_only: system(),
        environment: [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into(),
        limits: ContainerLimits {
            memory_bytes: 512 << 20,
            processes: 64,
            file_bytes: 64 << 20,
            open_files: 256,
            scratch_bytes: 16 << 20,
            ..ContainerLimits::default()
        },
        egress: None,
    };
    change(&mut spec);
    let container = sandbox.create(spec).await.unwrap();
    Fresh { container, folder }
}

/// The system's folders at their own places.
pub fn system() -> Vec<Bind> {
    ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"]
        .map(PathBuf::from)
        .into_iter()
        .filter(|path| path.exists())
        .map(Bind::same)
        .collect()
}

impl Fresh {
    pub async fn run(&mut self, argv: &[&str]) -> Exit {
        self.container.exec(Command { timeout: Duration::from_secs(30), ..Command::new(argv) }).await.unwrap()
    }

    /// What a Python program prints.
    pub async fn python(&mut self, program: &str) -> String {
        let exit = self.run(&["/usr/bin/python3", "-c", program]).await;
        let (out, err) = (String::from_utf8_lossy(&exit.stdout), String::from_utf8_lossy(&exit.stderr));
        assert!(err.is_empty(), "{:?}: {err}", exit.cause);
        out.trim().to_owned()
    }
}
