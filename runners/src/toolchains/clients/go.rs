//! Go: the proxies and the checksum database of the operator's settings, else of the toolchain's own file.

use super::{ClientSettings, text_of};
use crate::toolchains::host::{Host, above_bin};

pub(super) fn read(host: &Host, settings: &mut ClientSettings) {
    let Some(program) = host.program("go").and_then(|program| program.canonicalize().ok()) else { return };
    let user = host.variable("GOENV").map_or_else(|| host.home.join(".config/go/env"), Into::into);
    let texts: Vec<String> =
        [user, above_bin(&program).join("go.env")].iter().filter_map(|path| text_of(path)).collect();
    let told = |name: &str| {
        host.variable(name).map(str::to_owned).or_else(|| texts.iter().find_map(|text| value(text, name)))
    };
    if let Some(proxies) = told("GOPROXY") {
        let kept: Vec<String> = proxies
            .split([',', '|'])
            .filter(|proxy| !matches!(*proxy, "direct" | "off" | ""))
            .filter_map(|proxy| settings.admit("go", proxy))
            .collect();
        // `direct` would have Go ask any host that a module names.
        if !kept.is_empty() {
            settings.environment.insert("GOPROXY".to_owned(), kept.join(","));
        }
    }
    if let Some(database) = told("GOSUMDB") {
        let name = database.split(['+', ' ']).next().unwrap_or_default();
        if name != "off" {
            settings.admit("go", &format!("https://{name}/"));
        }
        settings.environment.insert("GOSUMDB".to_owned(), database);
    }
}

fn value(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.trim().split_once('='));
    lines.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next_back()
}
