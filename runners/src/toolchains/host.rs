//! What this host says of itself: the service's own `PATH`, home and settings, read once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::sandbox::{HOME, WORKSPACE};

/// The host as the service's environment describes it.
#[derive(Clone, Debug)]
pub struct Host {
    pub path: OsString,
    pub home: PathBuf,
    /// Variables that steer toolchains and clients, by name. Never those of anything else.
    pub variables: BTreeMap<String, String>,
}

/// The variables that are read. Anything else of the service's environment stays its own.
const VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "VIRTUAL_ENV",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_USERCONFIG",
    "GOROOT",
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GOENV",
    "JAVA_HOME",
    "MAVEN_HOME",
    "DOTNET_ROOT",
];

impl Host {
    /// The host of this process.
    pub fn from_env() -> Self {
        let variables = VARIABLES
            .iter()
            .filter_map(|&name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        Self {
            path: std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin")),
            home: home.map_or_else(|| PathBuf::from("/"), PathBuf::from),
            variables,
        }
    }

    /// One of the variables.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The folder that a variable names, else one below the home.
    pub fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        self.variable(variable).map_or_else(|| self.home.join(below_home), PathBuf::from)
    }

    /// Every program of this name on the `PATH`, in its order, links as they are.
    pub fn programs<'a>(&'a self, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        std::env::split_paths(&self.path)
            .filter(|folder| folder.is_absolute())
            .map(move |folder| folder.join(name))
            .filter(|program| is_program(program))
    }

    /// The first of them.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs(name).next()
    }
}

/// Whether this is a file that may be executed, perhaps behind links.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether a real path is in every container.
pub fn in_base(real: &Path) -> bool {
    real.starts_with("/usr") || real.starts_with("/bin") || real.starts_with("/lib")
}

/// Whether a container has something of its own at this place, under which a bind would vanish.
pub fn hidden(place: &Path) -> bool {
    let own = ["/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run", WORKSPACE, HOME];
    own.iter().any(|folder| place.starts_with(folder))
}

/// Whether a folder would show a container more than a toolchain: a root, a home, or a place above one.
pub fn too_wide(folder: &Path) -> bool {
    const SHARED: &[&str] =
        &["home", "root", "etc", "var", "tmp", "run", "srv", "mnt", "media", "opt", "data"];
    let names: Vec<&OsStr> = folder.iter().skip(1).collect();
    match names.as_slice() {
        [] => true,
        [one] => SHARED.iter().any(|shared| one == shared),
        [first, _] => *first == "home",
        _ => false,
    }
}

/// The folder above the folder of a program: `/x/toolchain` of `/x/toolchain/bin/tool`.
pub fn above_bin(program: &Path) -> PathBuf {
    program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned()
}
