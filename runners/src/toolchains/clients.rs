//! What the operator has set for the clients of package registries: which registry, which certificates.
//!
//! No registry is named in this code. Each client's own settings on this host are read, and where there
//! are none, the client's own default from its own files. So a mirror works without being told of twice,
//! and a host that nothing here names is one that the operator has to admit. Credentials are never taken
//! over: a URL loses its user part, and only the settings that are listed here are read at all.

mod cargo;
mod go;
mod npm;
mod pip;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use url::Url;

use super::host::Host;
use crate::egress::HostPort;

/// A file that a client's settings stand in is not read beyond this.
const MAX_SETTINGS: u64 = 1 << 20;

/// What clients within the egress window are told, and whom they may reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientSettings {
    pub hosts: BTreeSet<HostPort>,
    /// Cargo's indexes; each names its download host in a file of its own.
    pub cargo_indexes: Vec<String>,
    /// The certificates that this host trusts, as one file, by its real path.
    pub certificates: Option<PathBuf>,
    /// Set only while the window is open.
    pub environment: BTreeMap<String, String>,
    /// Files that are made in the container's home.
    pub files: Vec<Generated>,
    /// What was seen and not taken over, in sentences for the operator.
    pub notes: Vec<String>,
}

/// A settings file made for a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generated {
    /// Relative to the home.
    pub path: PathBuf,
    pub content: String,
}

/// Reads the settings of every client.
pub(super) fn settings(host: &Host) -> ClientSettings {
    let mut settings = ClientSettings { certificates: certificates(host), ..ClientSettings::default() };
    cargo::read(host, &mut settings);
    pip::read(host, &mut settings);
    npm::read(host, &mut settings);
    go::read(host, &mut settings);
    settings
}

impl ClientSettings {
    /// Admits the host of a registry's URL and gives the URL without a user part; `None`, with a note,
    /// where the broker could not reach it.
    fn admit(&mut self, client: &str, url: &str) -> Option<String> {
        match reachable(url) {
            Ok((host, clean)) => {
                self.hosts.insert(host);
                Some(clean)
            }
            Err(why) => {
                self.notes.push(format!("a registry of {client} is not used: {why}"));
                None
            }
        }
    }
}

/// The host of a registry that is reached by TLS, and its URL without a user part.
fn reachable(text: &str) -> Result<(HostPort, String), &'static str> {
    let (prefix, plain) = match text.strip_prefix("sparse+") {
        Some(plain) => ("sparse+", plain),
        None => ("", text),
    };
    let mut url = Url::parse(plain.trim()).map_err(|_| "its address is no URL")?;
    if url.scheme() != "https" {
        return Err("only https is let through the egress window");
    }
    let host = url.host_str().ok_or("its URL has no host")?;
    let host = format!("{host}:{}", url.port().unwrap_or(443));
    let host = host.parse().map_err(|_| "its host is no DNS name")?;
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return Err("its user part cannot be taken off");
    }
    Ok((host, format!("{prefix}{url}")))
}

/// The certificates that this host's clients are told of, else the distribution's bundle.
fn certificates(host: &Host) -> Option<PathBuf> {
    let told = ["SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "PIP_CERT", "REQUESTS_CA_BUNDLE"]
        .into_iter()
        .filter_map(|name| host.variable(name))
        .map(PathBuf::from);
    let usual = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    ];
    told.chain(usual.map(PathBuf::from))
        .find_map(|path| path.canonicalize().ok().filter(|real| real.is_file()))
}

/// A settings file's text; `None` where there is none that can be read.
fn text_of(path: &Path) -> Option<String> {
    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    if size > MAX_SETTINGS { None } else { std::fs::read_to_string(path).ok() }
}

#[cfg(test)]
mod tests;
