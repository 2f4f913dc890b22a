//! The broker's own HTTP client: no redirects, no proxy but the operator's, no address that was not checked.

use std::sync::Arc;
use std::time::Duration;

use reqwest::ClientBuilder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use url::Url;

use super::address::Network;
use super::dial::{self, DIAL_TIME, UpstreamProxy};

/// For registries: what a name resolves to must be public or of a trusted network.
pub fn for_registries(
    trusted: &[Network],
    upstream: Option<&UpstreamProxy>,
    silence: Duration,
) -> reqwest::Result<reqwest::Client> {
    let builder = plain(silence);
    match upstream {
        // That proxy resolves the names and has the last word.
        Some(proxy) => through(builder, proxy)?.build(),
        None => builder.dns_resolver(Arc::new(Checked { trusted: trusted.to_owned() })).build(),
    }
}

/// For one model: its upstream is the operator's word, wherever it lies.
pub fn for_model(
    model: &Url,
    upstream: Option<&UpstreamProxy>,
    silence: Duration,
) -> reqwest::Result<reqwest::Client> {
    match upstream {
        Some(proxy) if model.scheme() == "https" => through(plain(silence), proxy)?.build(),
        _ => plain(silence).build(),
    }
}

fn plain(silence: Duration) -> ClientBuilder {
    // Another part of the process may have chosen the provider already; then that one is used.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(DIAL_TIME)
        .read_timeout(silence)
        .user_agent(concat!("whipstitch/", env!("CARGO_PKG_VERSION")))
}

fn through(builder: ClientBuilder, proxy: &UpstreamProxy) -> reqwest::Result<ClientBuilder> {
    Ok(builder.proxy(reqwest::Proxy::all(format!("http://{}:{}", proxy.host, proxy.port))?))
}

/// Resolves to addresses that may be dialled, which are then the ones that are dialled.
struct Checked {
    trusted: Vec<Network>,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let trusted = self.trusted.clone();
        Box::pin(async move {
            // The port of the URL takes the place of this one.
            let found = dial::resolve(name.as_str(), 0, &trusted).await.map_err(|refusal| refusal.why)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// An error with its causes, without the address that it happened at.
pub fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut said = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(next) = source {
        said = format!("{said}: {next}");
        source = next.source();
    }
    said
}
