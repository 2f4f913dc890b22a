//! Where cargo's indexes keep their crates: each index says so in its `config.json`.
//!
//! This host asks, before the window opens and outside of any container, only the indexes that the
//! operator's own cargo would ask. A repository has no say in it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::InstallStep;
use crate::egress::{EgressPolicy, HostPort};
use crate::toolchains::{Family, Toolchains};

/// A `config.json` is a few hundred bytes.
const MAX_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct IndexConfig {
    dl: String,
}

/// The download hosts of the indexes that cargo may ask in this run.
pub(super) async fn of(
    toolchains: &Toolchains,
    policy: &EgressPolicy,
    steps: &[InstallStep],
) -> BTreeSet<HostPort> {
    let mut hosts = BTreeSet::new();
    if !steps.iter().any(|step| step.family == Family::Rust) {
        return hosts;
    }
    for index in &toolchains.clients.cargo_indexes {
        match ask(index, policy).await {
            Ok(host) => {
                hosts.insert(host);
            }
            // Cargo is refused the download then, and the step names the host that was asked for.
            Err(error) => tracing::warn!(%error, "cannot learn where a cargo index keeps its crates"),
        }
    }
    hosts
}

async fn ask(index: &str, policy: &EgressPolicy) -> Result<HostPort, String> {
    let base = index.strip_prefix("sparse+").unwrap_or(index).trim_end_matches('/');
    let client = client(policy).map_err(|error| error.to_string())?;
    let answer = client.get(format!("{base}/config.json")).send().await;
    let mut answer = answer
        .and_then(reqwest::Response::error_for_status)
        .map_err(|error| error.without_url().to_string())?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| error.without_url().to_string())? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return Err("the index's config.json is too large".to_owned());
        }
    }
    host_in(&body)
}

/// The host of the `dl` template.
fn host_in(config: &[u8]) -> Result<HostPort, String> {
    let config: IndexConfig = serde_json::from_slice(config).map_err(|error| error.to_string())?;
    let url = url::Url::parse(&config.dl).map_err(|error| error.to_string())?;
    let host = url.host_str().filter(|_| url.scheme() == "https").ok_or("it is not reached by https")?;
    format!("{host}:{}", url.port().unwrap_or(443)).parse().map_err(|_| "its host is no DNS name".to_owned())
}

fn client(policy: &EgressPolicy) -> reqwest::Result<reqwest::Client> {
    // Another part of the process may have chosen the provider already; then that one is used.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .redirect(reqwest::redirect::Policy::none());
    if let Some(proxy) = &policy.upstream {
        builder = builder.proxy(reqwest::Proxy::https(format!("http://{}:{}", proxy.host, proxy.port))?);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::host_in;

    #[test]
    fn the_download_host_is_that_of_the_template() {
        let config =
            br#"{"dl":"https://files.example/crates/{crate}/{version}","api":"https://api.example"}"#;
        assert_eq!(host_in(config).unwrap().to_string(), "files.example:443");
        assert!(host_in(br#"{"dl":"http://files.example/"}"#).is_err());
        assert!(host_in(br#"{"dl":"https://127.0.0.1/"}"#).is_err());
        assert!(host_in(b"<html>").is_err());
    }
}
