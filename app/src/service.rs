//! The service: everything that `serve` and `demo` run, wired from one configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use jobs::artifacts::Artifacts;
use jobs::clock::{Clock, SystemClock};
use jobs::forge::{ForgeKind, Repository};
use jobs::job::AgentSpec;
use jobs::source::{Claim, CloneAccess, Source, SourceError};
use jobs::store::{Db, Ingest};
use receipts::Signer;
use runners::executor::Engine;
use runners::progress::Progress;
use secrecy::SecretString;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use webhooks::forge::{Forge, Forges, Inbound};
use webhooks::github::{GitHub, GitHubConfig};
use webhooks::local::LocalForge;
use webhooks::receive::Door;
use webhooks::report::Mask;
use webhooks::{admission, report};

use crate::config::{self, Config};
use crate::{engine, http, keys};

/// The parts that commands share, opened from one configuration.
pub struct Service {
    pub config: Config,
    pub db: Db,
    pub artifacts: Artifacts,
    pub signer: Arc<Signer>,
    /// What verifies whatever it has signed.
    pub trust: keys::Trust,
    pub forges: Forges,
    pub local: Option<LocalForge>,
    github: Option<GitHub>,
    /// The page that sets an app up, where that is offered.
    pub setup: Option<Arc<http::setup::Setup>>,
    pub clock: Arc<dyn Clock>,
    /// How people reach the pages.
    pub public_url: url::Url,
    inbound: Vec<(ForgeKind, Arc<dyn Inbound>)>,
    source: Arc<dyn Source>,
    secrets: Vec<SecretString>,
    read_token: Option<SecretString>,
    /// Held, so that the key is not rotated while this process signs with it.
    _key_file: Option<std::fs::File>,
}

impl Service {
    /// Opens what is there and makes what is missing: folder, database, signing key.
    pub async fn open(config: Config) -> anyhow::Result<Self> {
        let folder = &config.server.data_folder;
        make_private(folder).with_context(|| format!("cannot make the data folder {}", folder.display()))?;
        let db = Db::open(&config.database()).await?;
        let artifacts = Artifacts::open(config.artifacts_folder())?;
        let signer = Arc::new(keys::read_or_make(&config.key_file())?);
        let _key_file = keys::hold(&config.key_file())?;
        let trust = keys::Trust::of(&config.key_file(), &signer)?;
        write_public_key(folder, &signer)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut service = Self {
            public_url: config.public_url(),
            db,
            artifacts,
            signer,
            forges: Forges::default(),
            local: None,
            github: None,
            setup: None,
            clock,
            inbound: Vec::new(),
            source: Arc::new(Sources::default()),
            secrets: Vec::new(),
            read_token: None,
            _key_file,
            trust,
            config,
        };
        service.connect()?;
        Ok(service)
    }

    /// Connects the configured forges.
    fn connect(&mut self) -> anyhow::Result<()> {
        let mut forges: Vec<Arc<dyn Forge>> = Vec::new();
        let mut sources = Sources::default();
        if let Some(local) = &self.config.local {
            let secret = read(
                "local.webhook_secret_file",
                local.webhook_secret_file.as_deref(),
                config::LOCAL_SECRET,
            )?;
            self.secrets.push(secret.clone());
            let forge = LocalForge::open(&local.folder, secret)?;
            self.inbound.push((ForgeKind::Local, Arc::new(forge.clone())));
            sources.local = Some(Arc::new(forge.clone()));
            forges.push(Arc::new(forge.clone()));
            self.local = Some(forge);
        }
        if let (Some(section), Some(forge)) = (&self.config.github, github(&self.config)?) {
            self.secrets.push(webhook_secret(section)?);
            self.inbound.push((ForgeKind::Github, Arc::new(forge.clone())));
            sources.github = Some(Arc::new(forge.clone()));
            self.github = Some(forge.clone());
            forges.push(Arc::new(forge));
        }
        let read_token = self.config.read_token(|name| std::env::var(name).ok());
        self.read_token = read_token.map_err(|fault| anyhow::anyhow!("{fault}"))?;
        self.secrets.extend(self.read_token.clone());
        self.forges = Forges::new(forges);
        self.source = Arc::new(sources);
        Ok(())
    }

    /// The token with which CI reads about repositories whose pages are not open.
    pub fn read_token(&self) -> Option<&SecretString> {
        self.read_token.as_ref()
    }

    /// Offers the set-up page, where no app of GitHub is configured.
    pub fn offer_setup(&mut self) -> anyhow::Result<Option<Arc<http::setup::Setup>>> {
        if self.config.github.is_none() {
            let folder = self.config.server.data_folder.clone();
            self.setup = Some(Arc::new(http::setup::Setup::new(folder, self.public_url.clone())?));
        }
        Ok(self.setup.clone())
    }

    /// What reporting needs.
    pub fn reporting(&self) -> report::Context {
        report::Context {
            db: self.db.clone(),
            forges: self.forges.clone(),
            artifacts: self.artifacts.clone(),
            bundles: self.bundles(),
            signer: Arc::clone(&self.signer),
            clock: Arc::clone(&self.clock),
            node: node(),
            public_url: Some(self.public_url.clone()),
            mask: self.mask(),
        }
    }

    /// What no report or page may show.
    pub fn mask(&self) -> Mask {
        Mask::new(self.secrets.clone())
    }

    /// Serves until it is cancelled, and returns when everything is at rest. `agent` takes the place of
    /// every policy's.
    pub async fn serve(
        self: Arc<Self>,
        listener: tokio::net::TcpListener,
        agent: Option<AgentSpec>,
        progress: broadcast::Sender<Progress>,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        let engine = engine::of(&self, Arc::clone(&self.source), progress)?;
        self.serve_beside(Some(engine), listener, agent, cancel).await
    }

    /// Serves as a node that runs nothing of any repository: it needs no container.
    pub async fn serve_web(
        self: Arc<Self>,
        listener: tokio::net::TcpListener,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        self.serve_beside(None, listener, None, cancel).await
    }

    /// Drives runs and does nothing else, until it is cancelled and everything is at rest.
    pub async fn drive(
        self: Arc<Self>,
        progress: broadcast::Sender<Progress>,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        engine::of(&self, Arc::clone(&self.source), progress)?.work(cancel).await;
        Ok(())
    }

    async fn serve_beside(
        self: Arc<Self>,
        engine: Option<Arc<Engine>>,
        listener: tokio::net::TcpListener,
        agent: Option<AgentSpec>,
        cancel: CancellationToken,
    ) -> anyhow::Result<()> {
        let (ingest, ingesting) = Ingest::start(self.db.clone());
        let door = Door::new(self.inbound.clone(), ingest.clone(), Arc::clone(&self.clock));
        let router = http::router(Arc::clone(&self), door);
        let mut admitting =
            admission::Context::new(self.db.clone(), self.forges.clone(), Arc::clone(&self.clock), &node());
        admitting.agent = agent;
        admitting.public_url = Some(self.public_url.clone());
        let reporting = self.reporting();
        let serving = http::serve(listener, router, cancel.clone());
        let stop_all = |result: anyhow::Result<()>| {
            cancel.cancel();
            result
        };
        let sweep = async {
            // What GitHub could not deliver while this service was down; the ingest ends with the last clone.
            if let Some(github) = &self.github {
                github.sweep_work(&self.db, &ingest, &cancel).await;
            }
            drop(ingest);
        };
        let driving = async {
            if let Some(engine) = engine {
                engine.work(cancel.clone()).await;
            }
        };
        let (served, (), (), (), ()) = tokio::join!(
            async { stop_all(serving.await) },
            admission::work(&admitting, &cancel),
            report::work(&reporting, &cancel),
            driving,
            sweep,
        );
        served?;
        ingesting.await.context("the ingest task failed")
    }

    /// The folder of a run's bundle.
    pub fn bundle(&self, run: &jobs::id::RunId) -> PathBuf {
        self.bundles().join(run.as_str())
    }

    fn bundles(&self) -> PathBuf {
        self.config.server.data_folder.join("bundles")
    }
}

/// The connection to GitHub, where an app is configured. Must be called within a tokio runtime.
pub fn github(config: &Config) -> anyhow::Result<Option<GitHub>> {
    let Some(github) = &config.github else { return Ok(None) };
    let key = read("github.private_key_file", github.private_key_file.as_deref(), config::GITHUB_KEY)?;
    let connection = GitHubConfig {
        api: github.api_url.clone(),
        web: GitHubConfig::web_of(&github.api_url),
        app_id: github.app_id,
        private_key: key,
        webhook_secret: webhook_secret(github)?,
    };
    Ok(Some(GitHub::new(connection, Arc::new(SystemClock))?))
}

fn webhook_secret(github: &config::GitHub) -> anyhow::Result<SecretString> {
    read("github.webhook_secret_file", github.webhook_secret_file.as_deref(), config::GITHUB_SECRET)
}

/// A secret of the configuration, from its variable or file.
fn read(place: &str, file: Option<&Path>, name: &str) -> anyhow::Result<SecretString> {
    let variable = |name: &str| std::env::var(name).ok();
    config::secret(place, file, variable, name).map_err(|fault| anyhow::anyhow!("{fault}"))
}

/// Makes a folder that its owner alone may enter, unless it is there.
fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// This process, as rows name it.
pub fn node() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}/{}", host.trim(), std::process::id())
}

/// Puts the public key where people find it: `key.pub`, 64 hex digits.
fn write_public_key(folder: &Path, signer: &Signer) -> anyhow::Result<()> {
    let file = folder.join("key.pub");
    std::fs::write(&file, format!("{}\n", hex::encode(signer.public_key())))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The database of a service that has run before.
pub async fn open_existing_database(config: &Config) -> anyhow::Result<Db> {
    let url = config.database();
    if let Some(file) = url.strip_prefix("sqlite://")
        && !Path::new(file).exists()
    {
        return Err(crate::commands::Usage(format!(
            "there is no database at {file}; name the service's --config, or a demo's --dir"
        ))
        .into());
    }
    Ok(Db::open(&url).await?)
}

/// Clone access by the kind of forge.
#[derive(Default)]
struct Sources {
    local: Option<Arc<LocalForge>>,
    github: Option<Arc<GitHub>>,
}

#[async_trait]
impl Source for Sources {
    async fn clone_access(&self, claim: &Claim, repository: &Repository) -> Result<CloneAccess, SourceError> {
        let source: Option<&dyn Source> = match repository.forge {
            ForgeKind::Local => self.local.as_deref().map(|source| source as &dyn Source),
            ForgeKind::Github => self.github.as_deref().map(|source| source as &dyn Source),
        };
        match source {
            Some(source) => source.clone_access(claim, repository).await,
            None => Err(SourceError::Refused {
                repository: repository.to_string(),
                why: format!("this service is not connected to {}", repository.forge.name()),
            }),
        }
    }
}
