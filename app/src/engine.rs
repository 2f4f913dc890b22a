//! The runner of this node, from the service's configuration.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jobs::source::Source;
use runners::egress::{HostPort, Network};
use runners::executor::{EgressSettings, Engine};
use runners::progress::Progress;
use runners::sandbox::{Embedded, Limit, Sandbox};
use runners::toolchains::{self, Host, Toolchains};
use tokio::sync::broadcast;

use crate::commands::Usage;
use crate::service::{Service, node};

/// The engine; refuses where this machine cannot seal a container.
pub fn of(
    service: &Service,
    source: Arc<dyn Source>,
    progress: broadcast::Sender<Progress>,
) -> anyhow::Result<Arc<Engine>> {
    let egress = &service.config.egress;
    Ok(Arc::new(Engine {
        db: service.db.clone(),
        artifacts: service.artifacts.clone(),
        source,
        sandbox: requiring(&service.config.sandbox.require)?,
        toolchains: detected(),
        egress: settings(&egress.hosts, &egress.trusted_networks)?,
        models: service.config.models(|name| std::env::var(name).ok())?,
        signer: Arc::clone(&service.signer),
        clock: Arc::clone(&service.clock),
        data_dir: service.config.server.data_folder.clone(),
        node: node(),
        progress,
        concurrency: service.config.server.concurrency,
        repository_concurrency: service.config.server.repository_concurrency,
        drain: std::time::Duration::from_secs(service.config.server.drain_seconds),
    }))
}

/// The sandbox of this machine.
pub fn sandbox() -> anyhow::Result<Arc<dyn Sandbox>> {
    Ok(Arc::new(Embedded::new()?))
}

/// The sandbox of this machine, if the kernel holds each of these limits.
fn requiring(limits: &[Limit]) -> anyhow::Result<Arc<dyn Sandbox>> {
    let sandbox = sandbox()?;
    let capabilities = sandbox.probe();
    if let Some(weak) = limits.iter().find_map(|&limit| capabilities.weak(limit)) {
        let text = format!(
            "sandbox.require asks for what is best effort here: {}: {}; {}",
            weak.name, weak.found, weak.advice
        );
        return Err(Usage(text).into());
    }
    Ok(sandbox)
}

/// The toolchains of this machine.
pub fn detected() -> Toolchains {
    toolchains::detect(&Host::from_env())
}

/// What an operator lets through the egress window.
pub fn settings(hosts: &[String], networks: &[String]) -> anyhow::Result<EgressSettings> {
    let hosts = hosts.iter().map(|host| host.parse::<HostPort>().map_err(|error| Usage(error.to_string())));
    let networks =
        networks.iter().map(|network| network.parse::<Network>().map_err(|error| Usage(error.to_string())));
    Ok(EgressSettings {
        hosts: hosts.collect::<Result<BTreeSet<_>, _>>()?,
        trusted_networks: networks.collect::<Result<_, _>>()?,
        upstream: None,
    })
}

/// The launcher that probes use: this executable.
pub const LAUNCHER: &str = "/proc/self/exe";

/// What this machine can and cannot do, whether or not it can seal.
pub fn probed() -> Embedded {
    Embedded::unchecked(Path::new(LAUNCHER))
}
