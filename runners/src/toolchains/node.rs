//! JavaScript and TypeScript: Node.js with npm, and the other package managers where they are.

use super::host::{Host, above_bin};
use super::{Family, Part};

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    let set = [
        ("npm_config_update_notifier", "false"),
        ("npm_config_fund", "false"),
        ("npm_config_audit", "false"),
        ("npm_config_offline", "true"),
        ("npm_config_cache", "/home/whipstitch/.npm"),
    ];
    part.environment.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut found = |name: &str| {
        host.program(name).is_some_and(|program| part.take(Family::Node, name, &program, root_of))
    };
    let node = found("node");
    let npm = found("npm");
    for optional in ["pnpm", "yarn"] {
        found(optional);
    }
    if !node {
        part.missing(
            Family::Node,
            "node",
            "install the package `nodejs`, or put Node.js on the service's PATH",
        );
    }
    if !npm {
        part.missing(
            Family::Node,
            "npm",
            "install the package `npm`; it comes with Node.js from its own site",
        );
    }
    part
}

/// npm lies deep in `lib/node_modules` of the installation that its `bin` belongs to.
fn root_of(real: &std::path::Path) -> std::path::PathBuf {
    real.ancestors()
        .find(|above| above.ends_with("lib/node_modules"))
        .and_then(|modules| modules.parent()?.parent())
        .map_or_else(|| above_bin(real), std::path::Path::to_owned)
}
