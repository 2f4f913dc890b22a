//! The models that agents may talk to: from the configuration, or from a provider's usual variables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use runners::agents::Models;
use runners::agents::model::{Profile, Protocol};
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use crate::config::{Fault, secret};

/// One `[models.NAME]` section.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// `anthropic`, `openai-chat` or `openai-responses`.
    pub protocol: String,
    /// The provider's name of the model.
    pub model: String,
    /// Where the protocol's paths begin; the provider's own address without it.
    pub base_url: Option<Url>,
    /// File of the key; or the variable `WHIPSTITCH_MODEL_KEY_NAME`, with the profile's name in capitals.
    pub key_file: Option<PathBuf>,
    /// Further headers; a value of the form `file:PATH` is read from that file.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default = "max_output_tokens")]
    pub max_output_tokens: u64,
    #[serde(default = "context_tokens")]
    pub context_tokens: u64,
}

const fn max_output_tokens() -> u64 {
    8192
}

const fn context_tokens() -> u64 {
    150_000
}

/// The variable of a profile's key.
pub fn key_variable(name: &str) -> String {
    let plain = |next: char| if next.is_ascii_alphanumeric() { next.to_ascii_uppercase() } else { '_' };
    format!("WHIPSTITCH_MODEL_KEY_{}", name.chars().map(plain).collect::<String>())
}

/// A section as a profile, or everything that is wrong with it.
pub fn profile(
    name: &str,
    table: &ModelTable,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Profile, Fault> {
    let fault = |key: &str, message: String| Fault { place: format!("models.{name}.{key}"), message };
    let protocol: Protocol = table.protocol.parse().map_err(|error| fault("protocol", format!("{error}")))?;
    if table.model.trim().is_empty() {
        return Err(fault("model", "name the model as its provider does".to_owned()));
    }
    let base_url = table.base_url.clone().unwrap_or_else(|| provider(protocol));
    if !matches!(base_url.scheme(), "http" | "https") {
        return Err(fault("base_url", format!("{base_url} is no http or https address")));
    }
    let key_name = key_variable(name);
    let key = match (&table.key_file, variable(&key_name)) {
        // A server in one's own network may ask for none.
        (None, None) => None,
        (file, _) => Some(secret(&format!("models.{name}.key_file"), file.as_deref(), &variable, &key_name)?),
    };
    let header = |(header, value): (&String, &String)| -> Result<(String, SecretString), Fault> {
        let text = match value.strip_prefix("file:") {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| fault("headers", format!("cannot read {path}: {error}")))?,
            None => value.clone(),
        };
        Ok((header.clone(), SecretString::from(text.trim())))
    };
    Ok(Profile {
        protocol,
        model: table.model.clone(),
        base_url,
        key,
        headers: table.headers.iter().map(header).collect::<Result<_, _>>()?,
        max_output_tokens: table.max_output_tokens.max(256),
        context_tokens: table.context_tokens.max(8192),
    })
}

/// All sections as profiles.
pub fn profiles(
    tables: &BTreeMap<String, ModelTable>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Models, Fault> {
    tables.iter().map(|(name, table)| Ok((name.clone(), profile(name, table, &variable)?))).collect()
}

/// `PROTOCOL/MODEL` with the provider's usual variables: `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`, or
/// `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
pub fn of_variables(named: &str, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Profile> {
    let (protocol, model) = named.split_once('/').context("write it as PROTOCOL/MODEL")?;
    let protocol: Protocol = protocol.parse()?;
    let (key, base) = match protocol {
        Protocol::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        Protocol::OpenAiChat | Protocol::OpenAiResponses => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    };
    let base_url = match (variable(base), protocol) {
        (None, _) => provider(protocol),
        // By the habit of its own clients this variable stops before the version.
        (Some(text), Protocol::Anthropic) => format!("{}/v1", text.trim_end_matches('/'))
            .parse()
            .with_context(|| format!("{base} is no URL"))?,
        (Some(text), Protocol::OpenAiChat | Protocol::OpenAiResponses) => {
            text.parse().with_context(|| format!("{base} is no URL"))?
        }
    };
    Ok(Profile {
        protocol,
        model: model.to_owned(),
        base_url,
        key: Some(SecretString::from(variable(key).with_context(|| format!("set {key}"))?)),
        headers: BTreeMap::new(),
        max_output_tokens: max_output_tokens(),
        context_tokens: context_tokens(),
    })
}

fn provider(protocol: Protocol) -> Url {
    let address = match protocol {
        Protocol::Anthropic => "https://api.anthropic.com/v1",
        Protocol::OpenAiChat | Protocol::OpenAiResponses => "https://api.openai.com/v1",
    };
    Url::parse(address).expect("the address is well formed")
}
