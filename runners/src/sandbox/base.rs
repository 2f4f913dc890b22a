//! What every container has besides the spec's binds: the host's `/usr`, and an `/etc` of a few files.
//!
//! Nothing of `/etc` appears that could hold a secret or the operator's settings of a client.

use std::fs;
use std::path::{Path, PathBuf};

use super::init::plan::{INSIDE_ID, Mount};
use super::{Bind, ContainerSpec, HOME, SandboxError, WORKSPACE};

/// Folders of programs and libraries; a link on the host is the same link inside.
const PROGRAMS: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/// What programs look up in `/etc` to start at all: the loader's cache, which alternative is chosen, public
/// certificates, names of time zones and ports.
const SETTINGS: [&str; 15] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates",
    "/etc/localtime",
    "/etc/os-release",
    "/etc/services",
    "/etc/protocols",
    "/etc/mime.types",
    "/etc/magic",
];

/// The root's content: mounts in an order in which each finds its place, links and small files.
pub struct Root {
    pub mounts: Vec<Mount>,
    pub links: Vec<(PathBuf, PathBuf)>,
    pub files: Vec<(PathBuf, String)>,
}

impl Root {
    /// Everything of the spec but the egress window's folder. Fails for a host path that is not there.
    pub fn of(spec: &ContainerSpec) -> Result<Self, SandboxError> {
        let mut root = Self::system();
        for bind in &spec.read_only {
            root.add(bind)?;
        }
        root.mounts.push(writable(&spec.workspace, WORKSPACE)?);
        root.mounts.push(writable(&spec.home, HOME)?);
        // A mount below another must come after it; a stable sort keeps the rest as it was.
        root.mounts.sort_by_key(|mount| mount.inside.components().count());
        Ok(root)
    }

    /// The base alone.
    pub fn system() -> Self {
        let mut root = Self { mounts: Vec::new(), links: Vec::new(), files: files() };
        root.links.push(("/var/tmp".into(), "/tmp".into()));
        root.links.push(("/var/run".into(), "/run".into()));
        for path in PROGRAMS.iter().map(Path::new) {
            match fs::read_link(path) {
                Ok(target) => root.links.push((path.to_owned(), target)),
                Err(_) => root.add_if_there(path),
            }
        }
        for path in SETTINGS.iter().map(Path::new) {
            root.add_if_there(path);
        }
        root.add_java_settings();
        root
    }

    fn add_if_there(&mut self, path: &Path) {
        if let Ok(host) = path.canonicalize() {
            self.mounts.push(Mount { host, inside: path.to_owned(), writable: false });
        }
    }

    /// Distributions keep a Java runtime's own settings, without which it does not start, in `/etc`.
    fn add_java_settings(&mut self) {
        let Ok(entries) = fs::read_dir("/etc") else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with("java-") {
                self.add_if_there(&entry.path());
            }
        }
    }

    fn add(&mut self, bind: &Bind) -> Result<(), SandboxError> {
        let host = canonical(&bind.host)?;
        let inside = bind.inside.clone();
        if !inside.is_absolute() || inside.components().any(|part| part.as_os_str() == "..") {
            let source = std::io::Error::from(std::io::ErrorKind::InvalidInput);
            return Err(SandboxError::Create {
                what: format!("{} is no absolute place", inside.display()),
                source,
            });
        }
        if !self.shows(&host, &inside) {
            self.mounts.push(Mount { host, inside, writable: false });
        }
        Ok(())
    }

    /// Whether a mount or a link of the base already shows this very host path there.
    fn shows(&self, host: &Path, inside: &Path) -> bool {
        let linked = self.links.iter().find_map(|(at, target)| {
            let rest = inside.strip_prefix(at).ok()?;
            Some(Path::new("/").join(target).join(rest))
        });
        let inside = linked.as_deref().unwrap_or(inside);
        self.mounts.iter().any(|mount| {
            inside.strip_prefix(&mount.inside).is_ok_and(|rest| joined(&mount.host, rest) == host)
        })
    }
}

/// `join` of an empty rest would add a slash, and with it a file would become a folder.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

fn writable(host: &Path, inside: &str) -> Result<Mount, SandboxError> {
    Ok(Mount { host: canonical(host)?, inside: inside.into(), writable: true })
}

/// The path without links.
pub fn canonical(path: &Path) -> Result<PathBuf, SandboxError> {
    path.canonicalize()
        .map_err(|source| SandboxError::Create { what: format!("cannot find {}", path.display()), source })
}

fn files() -> Vec<(PathBuf, String)> {
    let passwd = format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\nwhipstitch:x:{INSIDE_ID}:{INSIDE_ID}::{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let group = format!("root:x:0:\nwhipstitch:x:{INSIDE_ID}:\nnogroup:x:65534:\n");
    let hosts = "127.0.0.1 localhost whipstitch\n::1 localhost\n".to_owned();
    // No resolver exists, so a name that is in no file is refused at once and not after a timeout.
    let lookup = "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n".to_owned();
    vec![
        ("/etc/passwd".into(), passwd),
        ("/etc/group".into(), group),
        ("/etc/hosts".into(), hosts),
        ("/etc/nsswitch.conf".into(), lookup),
        ("/etc/hostname".into(), "whipstitch\n".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(binds: Vec<Bind>) -> ContainerSpec {
        ContainerSpec {
            run: jobs::id::RunId::fresh(0),
            workspace: "/tmp".into(),
            home: "/tmp".into(),
            read_only: binds,
            environment: Default::default(),
            limits: crate::sandbox::ContainerLimits {
                memory_bytes: 1 << 30,
                processes: 64,
                file_bytes: 1 << 30,
                open_files: 256,
                scratch_bytes: 64 << 20,
                ..crate::sandbox::ContainerLimits::default()
            },
            egress: None,
        }
    }

    #[test]
    fn what_the_base_shows_is_not_mounted_twice() {
        let base = Root::of(&spec(Vec::new())).unwrap().mounts.len();
        let same = Root::of(&spec(vec![Bind::same("/usr/bin"), Bind::same("/usr")])).unwrap().mounts.len();
        assert_eq!(base, same);
    }

    #[test]
    fn a_place_outside_the_root_is_refused() {
        let bind = Bind { host: "/usr".into(), inside: "/a/../../b".into() };
        assert!(matches!(Root::of(&spec(vec![bind])), Err(SandboxError::Create { .. })));
    }

    #[test]
    fn a_missing_toolchain_is_an_error_and_no_gap() {
        assert!(matches!(Root::of(&spec(vec![Bind::same("/no/such")])), Err(SandboxError::Create { .. })));
    }
}
