//! Go: one toolchain folder, and no other fetched by it.

use super::host::{Host, above_bin};
use super::{Family, Part};
use crate::sandbox::HOME;

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    let set = [
        ("GOPATH", format!("{HOME}/go")),
        ("GOCACHE", format!("{HOME}/.cache/go-build")),
        ("GOTOOLCHAIN", "local".to_owned()),
        ("GOPROXY", "off".to_owned()),
        ("GOTELEMETRY", "off".to_owned()),
    ];
    let found = host.program("go").is_some_and(|program| part.take(Family::Go, "go", &program, above_bin));
    if found {
        part.environment.extend(set.map(|(name, value)| (name.to_owned(), value)));
    } else {
        part.missing(Family::Go, "go", "install the package `golang-go`, or put Go on the service's PATH");
    }
    part
}
