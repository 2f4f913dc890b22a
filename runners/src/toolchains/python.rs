//! Python: the interpreter that the service's `PATH` means, with what the operator installed beside it.
//!
//! A shim of pyenv is a script that asks pyenv; the version that it would choose is bound instead. Of a
//! virtual environment both folders are needed, its own and that of the interpreter below it.

use std::path::{Path, PathBuf};

use super::host::{Host, above_bin, in_base, is_program, too_wide};
use super::{Family, Part};
use crate::sandbox::Bind;

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    let set = [
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONUNBUFFERED", "1"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_NO_INPUT", "1"),
        ("PIP_NO_INDEX", "1"),
    ];
    part.environment.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let Some(program) = interpreter(host) else {
        part.missing(
            Family::Python,
            "python3",
            "install the packages `python3` and `python3-venv`, or put an interpreter on the service's PATH",
        );
        return part;
    };
    bind_prefix(&mut part, &program);
    part.found(Family::Python, "python3", place_of(&program));
    for (name, advice) in [
        ("pytest", "install pytest beside the service's python3: `python3 -m pip install pytest`"),
        ("ruff", "install ruff beside the service's python3: `python3 -m pip install ruff`"),
    ] {
        tool(&mut part, host, &program, name, advice);
    }
    for (name, module) in [("pyright", "pyright"), ("uv", "uv"), ("poetry", "poetry"), ("pipenv", "pipenv")] {
        if let Some(found) = beside(&program, module) {
            part.found(Family::Python, name, found);
        }
    }
    part
}

/// The interpreter, by a path whose folder is the `bin` of its environment.
pub(super) fn interpreter(host: &Host) -> Option<PathBuf> {
    let active = host.variable("VIRTUAL_ENV").map(|folder| Path::new(folder).join("bin/python3"));
    let on_path = host.programs("python3").filter_map(|program| unshimmed(host, program));
    active.filter(|program| is_program(program)).into_iter().chain(on_path).next()
}

/// Where an interpreter lies. That of a virtual environment is a link to the one below, which would be
/// another one to ask: it has none of the environment's packages.
fn place_of(program: &Path) -> PathBuf {
    let environment = above_bin(program);
    let real = if environment.join("pyvenv.cfg").is_file() {
        environment.canonicalize().map(|environment| environment.join("bin/python3"))
    } else {
        program.canonicalize()
    };
    real.unwrap_or_else(|_| program.to_owned())
}

/// The program behind a shim of pyenv; any other program as it is.
fn unshimmed(host: &Host, program: PathBuf) -> Option<PathBuf> {
    let shims = program.parent().is_some_and(|folder| folder.ends_with("shims"));
    if !shims {
        return Some(program);
    }
    let root = host
        .variable("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| program.ancestors().find(|above| above.join("versions").is_dir()).map(Path::to_owned))?;
    let chosen = match host.variable("PYENV_VERSION") {
        Some(version) => version.to_owned(),
        None => std::fs::read_to_string(root.join("version")).ok()?,
    };
    chosen
        .split([':', '\n', ' '])
        .filter(|version| !version.is_empty() && !version.contains('/') && *version != "..")
        .map(|version| root.join("versions").join(version).join("bin/python3"))
        .find(|program| is_program(program))
}

/// Binds the environment of an interpreter, and the one below it where it is a virtual one.
fn bind_prefix(part: &mut Part, program: &Path) {
    let prefix = above_bin(program);
    bind_folder(part, &prefix);
    if !in_base(&prefix) {
        part.path.push(prefix.join("bin"));
    }
    if let Ok(real) = program.canonicalize()
        && !in_base(&real)
    {
        bind_folder(part, &above_bin(&real));
    }
    // `home` names the interpreter's folder as it was when the environment was made; it may be a link.
    let home = std::fs::read_to_string(prefix.join("pyvenv.cfg")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("home"))?;
        Some(PathBuf::from(line.trim_start().strip_prefix('=')?.trim()))
    });
    if let Some(base) = home.as_deref().and_then(Path::parent) {
        bind_folder(part, base);
    }
}

/// Binds a folder at its own place, and at the place that its name says where that is a link.
fn bind_folder(part: &mut Part, folder: &Path) {
    let Ok(real) = folder.canonicalize() else { return };
    if in_base(&real) || too_wide(&real) || too_wide(folder) {
        return;
    }
    let as_named = Bind { host: real.clone(), inside: folder.to_owned() };
    for bind in [as_named, Bind::same(real)] {
        if !in_base(&bind.inside) && !part.binds.contains(&bind) {
            part.binds.push(bind);
        }
    }
}

/// A program of the interpreter's environment, else one of its own on the `PATH`.
fn tool(part: &mut Part, host: &Host, interpreter: &Path, name: &str, advice: &str) {
    if let Some(program) = beside(interpreter, name) {
        part.found(Family::Python, name, program);
        return;
    }
    let elsewhere =
        host.programs(name).filter(|program| !program.parent().is_some_and(|at| at.ends_with("shims")));
    for program in elsewhere {
        let Ok(real) = program.canonicalize() else { continue };
        if in_base(&real) {
            part.found(Family::Python, name, real);
            return;
        }
        let environment = above_bin(&program);
        if environment.join("pyvenv.cfg").is_file() {
            bind_prefix_of_tool(part, &program, &environment);
            part.found(Family::Python, name, real);
            return;
        }
        if is_binary(&real) {
            let inside = Path::new("/opt/whipstitch/bin").join(name);
            part.path.extend(inside.parent().map(Path::to_owned));
            part.binds.push(Bind { host: real.clone(), inside });
            part.found(Family::Python, name, real);
            return;
        }
    }
    part.missing(Family::Python, name, advice);
}

/// A tool with an environment of its own, as pipx makes them: its interpreter comes too, its `bin` last.
fn bind_prefix_of_tool(part: &mut Part, program: &Path, environment: &Path) {
    let mut own = Part::default();
    bind_prefix(&mut own, &environment.join("bin/python3"));
    part.binds.extend(own.binds);
    part.path.extend(program.parent().map(Path::to_owned));
}

fn beside(interpreter: &Path, name: &str) -> Option<PathBuf> {
    let program = interpreter.parent()?.join(name);
    is_program(&program).then(|| program.canonicalize().unwrap_or(program))
}

/// Whether a program runs by itself: a script would need an interpreter that is not bound.
fn is_binary(program: &Path) -> bool {
    use std::io::Read as _;
    let mut magic = [0; 4];
    std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}
