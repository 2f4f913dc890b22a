//! pip: the index of its configuration files and variables, else the one that its own code names.

use std::path::{Path, PathBuf};

use super::{ClientSettings, text_of};
use crate::toolchains::host::{Host, above_bin};

pub(super) fn read(host: &Host, settings: &mut ClientSettings) {
    let files = configuration(host);
    let told = |variable: &str, key: &str| {
        host.variable(variable)
            .map(str::to_owned)
            .or_else(|| files.iter().rev().find_map(|text| value(text, key)))
    };
    match told("PIP_INDEX_URL", "index-url") {
        Some(index) => {
            if let Some(clean) = settings.admit("pip", &index) {
                settings.environment.insert("PIP_INDEX_URL".to_owned(), clean);
            }
        }
        None => own_default(host, settings),
    }
    let extra: Vec<String> = told("PIP_EXTRA_INDEX_URL", "extra-index-url")
        .iter()
        .flat_map(|urls| urls.split_whitespace())
        .filter_map(|url| settings.admit("pip", url))
        .collect();
    if !extra.is_empty() {
        settings.environment.insert("PIP_EXTRA_INDEX_URL".to_owned(), extra.join(" "));
    }
}

/// The texts of pip's configuration files, the strongest last.
fn configuration(host: &Host) -> Vec<String> {
    let mut paths = vec![
        PathBuf::from("/etc/xdg/pip/pip.conf"),
        PathBuf::from("/etc/pip.conf"),
        host.home.join(".pip/pip.conf"),
        host.home.join(".config/pip/pip.conf"),
    ];
    if let Some(interpreter) = crate::toolchains::python::interpreter(host) {
        paths.push(above_bin(&interpreter).join("pip.conf"));
    }
    paths.extend(host.variable("PIP_CONFIG_FILE").map(PathBuf::from));
    paths.iter().filter_map(|path| text_of(path)).collect()
}

/// A key of `[global]` or `[install]`, with the lines that continue it.
pub(super) fn value(text: &str, key: &str) -> Option<String> {
    let mut section = "";
    let mut found: Option<String> = None;
    let mut continues = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if continues && line.starts_with([' ', '\t']) && !trimmed.is_empty() {
            if let Some(found) = &mut found {
                found.push(' ');
                found.push_str(trimmed);
            }
            continue;
        }
        continues = false;
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if matches!(section, "global" | "install")
            && let Some((name, value)) = trimmed.split_once(['=', ':'])
            && name.trim().replace('_', "-") == key
        {
            found = Some(value.trim().to_owned());
            continues = true;
        }
    }
    found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The index and file host that pip's own code names.
fn own_default(host: &Host, settings: &mut ClientSettings) {
    let Some(interpreter) = crate::toolchains::python::interpreter(host) else { return };
    let source = prefixes(&interpreter).into_iter().find_map(|prefix| source_of_pip(&prefix));
    let Some((index, files)) = source.as_deref().and_then(defaults_in) else {
        settings
            .notes
            .push("the index that pip asks by itself is not known; name one in pip.conf".to_owned());
        return;
    };
    settings.admit("pip", &index);
    settings.admit("pip", &format!("https://{files}/"));
}

/// The folder of an interpreter's environment, and of the one below it.
fn prefixes(interpreter: &Path) -> Vec<PathBuf> {
    let mut prefixes = vec![above_bin(interpreter)];
    prefixes.extend(interpreter.canonicalize().ok().map(|real| above_bin(&real)));
    prefixes
}

fn source_of_pip(prefix: &Path) -> Option<String> {
    const INDEX: &str = "pip/_internal/models/index.py";
    let lib = prefix.join("lib");
    let versions = std::fs::read_dir(&lib).ok()?.flatten().map(|entry| entry.path());
    versions
        .filter(|folder| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")))
        .flat_map(|folder| [folder.join("site-packages"), folder.join("dist-packages")])
        .find_map(|packages| text_of(&packages.join(INDEX)))
}

/// `PyPI = PackageIndex("<url>", file_storage_domain="<host>")`.
pub(super) fn defaults_in(source: &str) -> Option<(String, String)> {
    let rest = source.split_once("PyPI = PackageIndex(")?.1;
    let mut quoted = rest.split('"').skip(1).step_by(2);
    Some((quoted.next()?.to_owned(), quoted.next()?.to_owned()))
}
