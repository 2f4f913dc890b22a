//! npm: the registries of its settings, else the one that its own definitions name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{ClientSettings, Generated, text_of};
use crate::toolchains::host::Host;

pub(super) fn read(host: &Host, settings: &mut ClientSettings) {
    let mut registries = BTreeMap::new();
    let user = host.folder("NPM_CONFIG_USERCONFIG", ".npmrc");
    for path in [PathBuf::from("/etc/npmrc"), PathBuf::from("/usr/etc/npmrc"), user] {
        if let Some(text) = text_of(&path) {
            registries.extend(registries_in(&text));
        }
    }
    for name in ["npm_config_registry", "NPM_CONFIG_REGISTRY"] {
        if let Some(url) = host.variable(name) {
            registries.insert("registry".to_owned(), url.to_owned());
        }
    }
    if !registries.contains_key("registry")
        && let Some(url) = own_default(host)
    {
        settings.admit("npm", &url);
    }
    let mut lines = String::new();
    for (key, url) in registries {
        if let Some(clean) = settings.admit("npm", &url) {
            lines.push_str(&format!("{key}={clean}\n"));
        }
    }
    if !lines.is_empty() {
        settings.files.push(Generated { path: PathBuf::from(".npmrc"), content: lines });
    }
}

/// `registry` and `@scope:registry`, and nothing that could be a token.
pub(super) fn registries_in(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.trim().split_once('='));
    lines
        .map(|(key, value)| (key.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        .filter(|(key, _)| key == "registry" || (key.starts_with('@') && key.ends_with(":registry")))
        .collect()
}

/// The registry that npm's definitions give as default.
fn own_default(host: &Host) -> Option<String> {
    let npm = host.program("npm")?.canonicalize().ok()?;
    let root = npm.ancestors().find(|above| above.file_name().is_some_and(|name| name == "npm"))?;
    let definitions = text_of(&root.join("node_modules/@npmcli/config/lib/definitions/definitions.js"))?;
    default_in(&definitions)
}

/// The `default` of the definition that is called `registry`.
pub(super) fn default_in(definitions: &str) -> Option<String> {
    let lines = definitions.lines().map(str::trim);
    let defaults = lines.filter_map(|line| line.strip_prefix("default: '")?.strip_suffix("',"));
    defaults.filter(|value| value.starts_with("https://")).map(str::to_owned).next()
}
