//! The service's configuration: one TOML file, then `WHIPSTITCH_*` variables, which win.
//!
//! A secret is named by the file that holds it, or given in a variable; it is never in the TOML file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use runners::agents::Models;
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use crate::github_app::StoredApp;
use crate::models::{self, ModelTable};

/// Where the configuration file is looked for when none is named.
pub const DEFAULT_FILE: &str = "whipstitch.toml";

/// Everything that `serve` needs to know, with its defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub server: Server,
    pub github: Option<GitHub>,
    pub local: Option<Local>,
    pub signing: Signing,
    pub egress: Egress,
    pub sandbox: Sandbox,
    /// Models that policies may name, by name.
    pub models: BTreeMap<String, ModelTable>,
}

/// Where the service listens and keeps its things.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address and port; keep it on loopback behind a proxy that speaks TLS.
    pub listen: std::net::SocketAddr,
    /// How people and the forge reach the service.
    pub public_url: Option<Url>,
    pub data_folder: PathBuf,
    /// `sqlite://…` or `postgres://…`; without one an SQLite file in the data folder.
    pub database: Option<String>,
    /// Patches and outputs by digest: one folder for all nodes; `artifacts` in the data folder without it.
    pub artifacts_folder: Option<PathBuf>,
    /// Runs at a time on this node.
    pub concurrency: usize,
    /// Runs of one repository at a time, over all nodes; any number without it.
    pub repository_concurrency: Option<u32>,
    /// How long runs under way may go on once the service is told to end, in seconds; what is not at its
    /// end then is handed to another node.
    pub drain_seconds: u64,
    /// Whether all who reach the service may read the pages and bundles of GitHub's repositories,
    /// which may be private. Those of the local forge are always open.
    pub open_pages: bool,
    /// File of the token with which CI reads `/api/v1` about repositories whose pages are not open;
    /// or the variable `WHIPSTITCH_READ_TOKEN`. Without one, nobody does.
    pub read_token_file: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 8080).into(),
            public_url: None,
            data_folder: PathBuf::from("whipstitch-data"),
            database: None,
            artifacts_folder: None,
            concurrency: 1,
            repository_concurrency: None,
            drain_seconds: 0,
            open_pages: false,
            read_token_file: None,
        }
    }
}

/// The GitHub App.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitHub {
    pub app_id: i64,
    /// PEM file of the app's private key; or the variable `WHIPSTITCH_GITHUB_PRIVATE_KEY`.
    pub private_key_file: Option<PathBuf>,
    /// File of the webhook secret; or the variable `WHIPSTITCH_GITHUB_WEBHOOK_SECRET`.
    pub webhook_secret_file: Option<PathBuf>,
    #[serde(default = "github_api")]
    pub api_url: Url,
}

fn github_api() -> Url {
    Url::parse("https://api.github.com").expect("the address is well formed")
}

/// The forge in a folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    pub folder: PathBuf,
    /// File of the webhook secret; or the variable `WHIPSTITCH_LOCAL_WEBHOOK_SECRET`.
    pub webhook_secret_file: Option<PathBuf>,
}

/// The key that signs receipts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Signing {
    /// A file that `whipstitch keys new` made; without one, `signing.key` in the data folder. A key in the
    /// variable `WHIPSTITCH_SIGNING_KEY` wins over both.
    pub key_file: Option<PathBuf>,
}

/// What the egress window lets through beside the registries of the package clients.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Egress {
    /// Further `host:port` pairs.
    pub hosts: Vec<String>,
    /// Networks, such as `10.2.0.0/16`, whose addresses are taken though they are not public.
    pub trusted_networks: Vec<String>,
}

/// What the operator asks of containers beyond the seal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Limits (`memory`, `processes`, `processors`, `disk`) that the kernel must hold: on a machine on which
    /// one of them is best effort, the service does not start.
    pub require: Vec<runners::sandbox::Limit>,
}

/// One thing wrong with the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The key, such as `server.listen`, or the file and position.
    pub place: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl Config {
    /// Reads `file` (or the default file when it exists) and the variables that `variable` gives.
    ///
    /// Relative paths in the file are relative to the file's folder.
    pub fn load(file: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Fault>> {
        let path = file.unwrap_or_else(|| Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(vec![fault(&path.display().to_string(), format!("cannot read it: {error}"))]);
            }
        };
        let mut config = Self::parse(&text).map_err(|found| vec![fault_in(path, &found)])?;
        config.resolve(path.parent().unwrap_or(Path::new("")));
        let mut faults = config.take_variables(&variable);
        faults.extend(config.take_stored_app().err());
        faults.extend(config.faults(&variable));
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// The `[models]` sections of a file (or of the default file when it exists), and nothing else of it.
    pub fn models_of(file: Option<&Path>) -> anyhow::Result<BTreeMap<String, ModelTable>> {
        let path = file.unwrap_or_else(|| Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let mut config = Self::parse(&text).map_err(|found| anyhow::anyhow!("{}", fault_in(path, &found)))?;
        config.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(config.models)
    }

    /// The configuration of a demo, whose things all lie in one folder.
    pub fn of_folder(folder: &Path) -> Self {
        let mut config = Self::default();
        config.server.data_folder = folder.to_owned();
        config.local = Some(Local {
            folder: folder.join("forge"),
            webhook_secret_file: Some(folder.join("webhook.secret")),
        });
        config
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = &text[..text.floor_char_boundary(at)];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            fault(&format!("{line}:{column}"), error.message().replace('\n', " "))
        })
    }

    fn resolve(&mut self, folder: &Path) {
        let mut paths = vec![&mut self.server.data_folder];
        paths.extend(self.server.artifacts_folder.as_mut());
        paths.extend(self.server.read_token_file.as_mut());
        paths.extend(self.signing.key_file.as_mut());
        if let Some(github) = &mut self.github {
            paths.extend(github.private_key_file.as_mut());
            paths.extend(github.webhook_secret_file.as_mut());
        }
        if let Some(local) = &mut self.local {
            paths.push(&mut local.folder);
            paths.extend(local.webhook_secret_file.as_mut());
        }
        paths.extend(self.models.values_mut().filter_map(|model| model.key_file.as_mut()));
        for path in paths {
            *path = folder.join(&path);
        }
    }

    fn take_variables(&mut self, variable: &impl Fn(&str) -> Option<String>) -> Vec<Fault> {
        let mut faults = Vec::new();
        if let Some(text) = variable("WHIPSTITCH_LISTEN") {
            match text.parse() {
                Ok(address) => self.server.listen = address,
                Err(_) => faults.push(fault(
                    "WHIPSTITCH_LISTEN",
                    format!("{text:?} is no address and port such as 127.0.0.1:8080"),
                )),
            }
        }
        if let Some(text) = variable("WHIPSTITCH_PUBLIC_URL") {
            match text.parse() {
                Ok(url) => self.server.public_url = Some(url),
                Err(error) => {
                    faults.push(fault("WHIPSTITCH_PUBLIC_URL", format!("{text:?} is no URL: {error}")))
                }
            }
        }
        if let Some(folder) = variable("WHIPSTITCH_DATA_FOLDER") {
            self.server.data_folder = folder.into();
        }
        if let Some(url) = variable("WHIPSTITCH_DATABASE") {
            self.server.database = Some(url);
        }
        faults
    }

    /// Takes the app that the set-up page has made, where the file names none.
    fn take_stored_app(&mut self) -> Result<(), Fault> {
        if self.github.is_some() {
            return Ok(());
        }
        let folder = &self.server.data_folder;
        let stored = StoredApp::read(folder).map_err(|error| fault("github", format!("{error:#}")))?;
        if let Some(stored) = stored {
            self.github = Some(stored.section(folder));
            self.server.public_url.get_or_insert(stored.public_url);
        }
        Ok(())
    }

    /// Everything that is wrong, without touching the network.
    fn faults(&self, variable: &impl Fn(&str) -> Option<String>) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.server.concurrency == 0 {
            faults.push(fault(
                "server.concurrency",
                "0 runs at a time would repair nothing; use 1 or more".to_owned(),
            ));
        }
        if self.server.repository_concurrency == Some(0) {
            faults.push(fault(
                "server.repository_concurrency",
                "0 runs of a repository at a time would repair nothing; leave it out or use 1 or more"
                    .to_owned(),
            ));
        }
        if let Some(url) = &self.server.public_url
            && !matches!(url.scheme(), "http" | "https")
        {
            faults.push(fault("server.public_url", format!("{url} is no http or https address")));
        }
        if let Some(url) = &self.server.database
            && !["sqlite:", "postgres:", "postgresql:"].iter().any(|scheme| url.starts_with(scheme))
        {
            faults
                .push(fault("server.database", "use sqlite://FILE or postgres://USER@HOST/NAME".to_owned()));
        }
        faults.extend(self.read_token(variable).err());
        if let Some(github) = &self.github {
            if github.app_id <= 0 {
                faults.push(fault("github.app_id", "use the number on the app's settings page".to_owned()));
            }
            let key =
                secret("github.private_key_file", github.private_key_file.as_deref(), variable, GITHUB_KEY);
            let hook = secret(
                "github.webhook_secret_file",
                github.webhook_secret_file.as_deref(),
                variable,
                GITHUB_SECRET,
            );
            faults.extend([key.err(), hook.err()].into_iter().flatten());
        }
        if let Some(local) = &self.local {
            let hook = secret(
                "local.webhook_secret_file",
                local.webhook_secret_file.as_deref(),
                variable,
                LOCAL_SECRET,
            );
            faults.extend(hook.err());
        }
        if let Err(error) = crate::keys::of_variable(variable) {
            faults.push(fault(crate::keys::VARIABLE, error.root_cause().to_string()));
        }
        faults.extend(
            self.models.iter().filter_map(|(name, table)| models::profile(name, table, variable).err()),
        );
        for host in &self.egress.hosts {
            if let Err(error) = host.parse::<runners::egress::HostPort>() {
                faults.push(fault("egress.hosts", error.to_string()));
            }
        }
        for network in &self.egress.trusted_networks {
            if let Err(error) = network.parse::<runners::egress::Network>() {
                faults.push(fault("egress.trusted_networks", error.to_string()));
            }
        }
        faults
    }

    /// The token with which CI reads, where there is one; refuses an empty one.
    pub fn read_token(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SecretString>, Fault> {
        let file = self.server.read_token_file.as_deref();
        if file.is_none() && variable(READ_TOKEN).is_none() {
            return Ok(None);
        }
        secret("server.read_token_file", file, variable, READ_TOKEN).map(Some)
    }

    /// Where patches and outputs lie.
    pub fn artifacts_folder(&self) -> PathBuf {
        let folder = self.server.artifacts_folder.clone();
        folder.unwrap_or_else(|| self.server.data_folder.join("artifacts"))
    }

    /// The models with their keys.
    pub fn models(&self, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Models> {
        models::profiles(&self.models, variable).map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    /// The database's URL.
    pub fn database(&self) -> String {
        match &self.server.database {
            Some(url) => url.clone(),
            None => format!("sqlite://{}", self.server.data_folder.join("whipstitch.db").display()),
        }
    }

    /// The signing key's file.
    pub fn key_file(&self) -> PathBuf {
        self.signing.key_file.clone().unwrap_or_else(|| self.server.data_folder.join("signing.key"))
    }

    /// Where people reach the service; its listen address when no other is set.
    pub fn public_url(&self) -> Url {
        self.server.public_url.clone().unwrap_or_else(|| {
            Url::parse(&format!("http://{}/", self.server.listen)).expect("an address makes a URL")
        })
    }
}

/// The variable of the token with which CI reads.
pub const READ_TOKEN: &str = "WHIPSTITCH_READ_TOKEN";
/// The variable of the GitHub App's private key.
pub const GITHUB_KEY: &str = "WHIPSTITCH_GITHUB_PRIVATE_KEY";
/// The variable of the GitHub App's webhook secret.
pub const GITHUB_SECRET: &str = "WHIPSTITCH_GITHUB_WEBHOOK_SECRET";
/// The variable of the local forge's webhook secret.
pub const LOCAL_SECRET: &str = "WHIPSTITCH_LOCAL_WEBHOOK_SECRET";

/// A secret, from its variable or else from its file; refuses an empty one.
pub fn secret(
    place: &str,
    file: Option<&Path>,
    variable: impl Fn(&str) -> Option<String>,
    name: &str,
) -> Result<SecretString, Fault> {
    let (from, text) = match (variable(name), file) {
        (Some(text), _) => (name.to_owned(), text),
        (None, Some(file)) => {
            let read =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
            (file.display().to_string(), read.map_err(|error| fault(place, format!("{error:#}")))?)
        }
        (None, None) => return Err(fault(place, format!("no secret: name its file here, or set {name}"))),
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(fault(place, format!("the secret in {from} is empty")));
    }
    Ok(SecretString::from(text))
}

fn fault(place: &str, message: String) -> Fault {
    Fault { place: place.to_owned(), message }
}

fn fault_in(path: &Path, found: &Fault) -> Fault {
    fault(&format!("{}:{}", path.display(), found.place), found.message.clone())
}

#[cfg(test)]
mod tests;
