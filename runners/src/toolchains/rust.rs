//! Rust: the toolchain that rustup would choose on this host, without rustup.
//!
//! rustup's programs choose a toolchain at each start and may fetch one. A container gets the chosen
//! toolchain's own folder instead, so that what runs is what was found here.

use std::path::{Path, PathBuf};

use super::host::{Host, above_bin, is_program};
use super::{Family, Part};
use crate::sandbox::{Bind, HOME};

const PROGRAMS: [&str; 6] = ["cargo", "rustc", "rustdoc", "cargo-clippy", "clippy-driver", "rustfmt"];

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    let set = [
        ("CARGO_HOME", format!("{HOME}/.cargo")),
        ("CARGO_NET_OFFLINE", "true".to_owned()),
        ("CARGO_TERM_COLOR", "never".to_owned()),
        ("CARGO_INCREMENTAL", "0".to_owned()),
    ];
    part.environment.extend(set.map(|(name, value)| (name.to_owned(), value)));
    let Some(root) = toolchain(host) else {
        part.missing(
            Family::Rust,
            "cargo",
            "install Rust from its own site or the package `cargo`, and put `cargo` on the service's PATH",
        );
        return part;
    };
    let bin = root.join("bin");
    for name in PROGRAMS {
        let program = bin.join(name);
        if is_program(&program) {
            part.found(Family::Rust, name, program.canonicalize().unwrap_or(program));
        } else if name == "cargo-clippy" {
            part.missing(Family::Rust, name, "run `rustup component add clippy`");
        } else if name != "clippy-driver" {
            part.missing(Family::Rust, name, &format!("run `rustup component add {name}`"));
        }
    }
    if !super::host::in_base(&root) {
        // A toolchain of Rust works at any place, so one in a service's home of the same name does too.
        let name = root.file_name().unwrap_or_default();
        let elsewhere = Path::new("/opt/whipstitch/rust").join(name);
        let inside = if super::host::hidden(&root) { elsewhere } else { root.clone() };
        part.path.push(inside.join("bin"));
        part.binds.push(Bind { host: root, inside });
    }
    extra_subcommands(host, &mut part);
    part
}

/// `cargo nextest` where the operator has it: a program of its own, usually in cargo's folder.
fn extra_subcommands(host: &Host, part: &mut Part) {
    let Some(program) = host.program("cargo-nextest").and_then(|program| program.canonicalize().ok()) else {
        return;
    };
    if !super::host::in_base(&program) {
        let inside = PathBuf::from("/opt/whipstitch/bin/cargo-nextest");
        part.path.extend(inside.parent().map(Path::to_owned));
        part.binds.push(Bind { host: program.clone(), inside });
    }
    part.found(Family::Rust, "cargo-nextest", program);
}

/// The folder of the toolchain that `cargo` on the `PATH` stands for.
fn toolchain(host: &Host) -> Option<PathBuf> {
    for program in host.programs("cargo") {
        let Ok(real) = program.canonicalize() else { continue };
        if real.file_name().is_some_and(|name| name == "rustup" || name == "rustup-init") {
            if let Some(root) = of_rustup(host) {
                return Some(root);
            }
        } else if is_program(&above_bin(&real).join("bin/rustc")) {
            return Some(above_bin(&real));
        }
    }
    None
}

/// What rustup has chosen: a variable, else its settings' default.
fn of_rustup(host: &Host) -> Option<PathBuf> {
    let home = host.folder("RUSTUP_HOME", ".rustup");
    let settings = std::fs::read_to_string(home.join("settings.toml")).ok()?;
    let settings: toml::Table = settings.parse().ok()?;
    let text = |name: &str| settings.get(name).and_then(toml::Value::as_str);
    let chosen = host.variable("RUSTUP_TOOLCHAIN").or_else(|| text("default_toolchain"))?;
    if chosen.starts_with('/') {
        return usable(Path::new(chosen));
    }
    let folder = home.join("toolchains");
    // A short name such as `stable` stands for the one of this host's own triple.
    usable(&folder.join(chosen)).or_else(|| {
        let triple = text("default_host_triple").map_or_else(this_triple, str::to_owned);
        usable(&folder.join(format!("{chosen}-{triple}")))
    })
}

fn this_triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn usable(root: &Path) -> Option<PathBuf> {
    let real = root.canonicalize().ok()?;
    is_program(&real.join("bin/cargo")).then_some(real)
}

/// The cargo that is bound, by its real path.
pub(super) fn program(host: &Host) -> Option<PathBuf> {
    toolchain(host)?.join("bin/cargo").canonicalize().ok()
}
