//! Cargo: source replacement and registries of the operator's `config.toml`.

use std::path::PathBuf;

use toml::{Table, Value};

use super::{ClientSettings, Generated, text_of};
use crate::toolchains::host::Host;

/// The name of the registry that crates come from unless something replaces it.
const DEFAULT: &str = "crates-io";

pub(super) fn read(host: &Host, settings: &mut ClientSettings) {
    let home = host.folder("CARGO_HOME", ".cargo");
    let text = ["config.toml", "config"].iter().find_map(|name| text_of(&home.join(name)));
    let config: Table = match text.as_deref().map(str::parse) {
        Some(Ok(config)) => config,
        Some(Err(_)) => {
            settings
                .notes
                .push("cargo's config.toml cannot be read; cargo itself would say where".to_owned());
            Table::new()
        }
        None => Table::new(),
    };
    let sources = sources(&config, settings);
    let registries = registries(&config, settings);
    let default_is_replaced = sources.get(DEFAULT).is_some_and(|source| source.get("replace-with").is_some());
    if !default_is_replaced && let Some(index) = default_index(host) {
        admit(&index, settings);
    }
    write(sources, registries, settings);
}

/// `[source.NAME]` with a registry or a replacement; folders of this host are not in a container.
fn sources(config: &Table, settings: &mut ClientSettings) -> Table {
    let mut kept = Table::new();
    for (name, source) in tables(config, "source") {
        let mut own = Table::new();
        if let Some(index) = source.get("registry").and_then(Value::as_str)
            && let Some(clean) = admit(index, settings)
        {
            own.insert("registry".to_owned(), Value::String(clean));
        }
        if let Some(with) = source.get("replace-with") {
            own.insert("replace-with".to_owned(), with.clone());
        }
        if source.contains_key("directory") || source.contains_key("local-registry") {
            settings
                .notes
                .push(format!("cargo's source {name} is a folder of this host, which no container has"));
        }
        if !own.is_empty() {
            kept.insert(name.clone(), Value::Table(own));
        }
    }
    kept
}

fn registries(config: &Table, settings: &mut ClientSettings) -> Table {
    let mut kept = Table::new();
    for (name, registry) in tables(config, "registries") {
        if let Some(index) = registry.get("index").and_then(Value::as_str)
            && let Some(clean) = admit(index, settings)
        {
            let own = Table::from_iter([("index".to_owned(), Value::String(clean))]);
            kept.insert(name.clone(), Value::Table(own));
        }
    }
    kept
}

fn tables<'a>(config: &'a Table, name: &str) -> impl Iterator<Item = (&'a String, &'a Table)> {
    let named = config.get(name).and_then(Value::as_table).into_iter().flatten();
    named.filter_map(|(name, value)| Some((name, value.as_table()?)))
}

fn admit(index: &str, settings: &mut ClientSettings) -> Option<String> {
    let clean = settings.admit("cargo", index)?;
    if clean.starts_with("sparse+") && !settings.cargo_indexes.contains(&clean) {
        settings.cargo_indexes.push(clean.clone());
    }
    Some(clean)
}

fn write(sources: Table, registries: Table, settings: &mut ClientSettings) {
    let mut config = Table::new();
    for (name, table) in [("source", sources), ("registries", registries)] {
        if !table.is_empty() {
            config.insert(name.to_owned(), Value::Table(table));
        }
    }
    if !config.is_empty() {
        let path = PathBuf::from(".cargo/config.toml");
        settings.files.push(Generated { path, content: config.to_string() });
    }
}

/// The index that this host's cargo asks by itself, as its own program says it.
fn default_index(host: &Host) -> Option<String> {
    let cargo = crate::toolchains::rust::program(host)?;
    let size = cargo.metadata().ok()?.len();
    if size > 256 << 20 {
        return None;
    }
    index_in(&std::fs::read(cargo).ok()?)
}

/// The first sparse index among a program's bytes.
pub(super) fn index_in(program: &[u8]) -> Option<String> {
    const PREFIX: &[u8] = b"sparse+https://";
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let mut rest = program;
    loop {
        let at = find(rest, PREFIX)?;
        rest = &rest[at + PREFIX.len()..];
        let end = rest.iter().position(|&byte| !is_host(byte)).unwrap_or(rest.len());
        let host = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        if rest.get(end) == Some(&b'/') && host.contains('.') && end < 254 {
            return Some(format!("sparse+https://{host}/"));
        }
    }
}

/// Where `needle` begins; a byte that is rare in programs is looked for first.
fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == needle[0]) {
        if bytes[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}
