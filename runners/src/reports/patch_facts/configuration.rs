//! Files and sections that decide how checks run, and the numbers that checks compare with.

use std::collections::BTreeMap;

use jobs::check::Check;

use super::diff::{FileDiff, Side};
use super::patterns::squeeze;
use super::{FlagKind, PatchFacts};

/// Files that are about checks and nothing else, by their whole name in lower case.
const WHOLE_FILES: &[&str] = &[
    "pytest.ini",
    "pytest.toml",
    ".pytest.ini",
    ".pytest.toml",
    "tox.ini",
    "noxfile.py",
    ".coveragerc",
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "ruff.toml",
    ".ruff.toml",
    ".flake8",
    ".pylintrc",
    "pylintrc",
    "mypy.ini",
    ".mypy.ini",
    "pyrightconfig.json",
    ".eslintignore",
    ".mocharc.js",
    ".mocharc.json",
    ".mocharc.yml",
    ".nycrc",
    ".nycrc.json",
    ".c8rc.json",
    "biome.json",
    "clippy.toml",
    ".clippy.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "nextest.toml",
    "codecov.yml",
    ".codecov.yml",
    "ctestconfig.cmake",
    "ctestcustom.cmake",
    ".golangci.yml",
    ".golangci.yaml",
    "makefile",
    "justfile",
    "taskfile.yml",
    "directory.build.props",
    "directory.build.targets",
    ".editorconfig",
    ".npmrc",
    ".nvmrc",
    ".node-version",
    ".python-version",
    ".tool-versions",
    ".babelrc",
    ".swcrc",
    ".rspec",
    "phpunit.xml",
    "phpunit.xml.dist",
    "rustfmt.toml",
    ".rustfmt.toml",
    "gnumakefile",
    "gradlew",
    "mvnw",
    ".gitmodules",
    ".globalconfig",
    ".gitattributes",
    "whipstitch.toml",
    ".whipstitch.toml",
    "gradle.properties",
    "surefire.properties",
    "junit-platform.properties",
];

/// The same, by the beginning of the name.
const NAME_STARTS: &[&str] = &[
    "jest.config.",
    "jest.setup.",
    "vitest.config.",
    "vitest.workspace.",
    "eslint.config.",
    ".eslintrc",
    "tsconfig",
    "karma.conf.",
    "babel.config.",
    ".babelrc.",
    "vite.config.",
    "playwright.config.",
    "cypress.config.",
    ".mocharc",
];

/// Files of which only some sections or words are about checks.
const MIXED_FILES: &[&str] = &[
    "pyproject.toml",
    "setup.cfg",
    "package.json",
    "cargo.toml",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "cmakelists.txt",
    "composer.json",
];

/// Sections of mixed files that say nothing about checks.
const HARMLESS_SECTIONS: &[&str] = &[
    "project",
    "project.urls",
    "project.scripts",
    "project.optional-dependencies",
    "build-system",
    "tool.poetry",
    "tool.poetry.dependencies",
    "metadata",
    "options.extras_require",
    "package",
    "package.metadata",
    "dependencies",
    "build-dependencies",
    "workspace.dependencies",
    "workspace.package",
    "features",
    "dependency-groups",
    "[bin]",
    "bin",
    "lib",
];

/// Words of files without sections that are about checks.
const WORDS: &[&str] = &[
    "\"test",
    "\"lint",
    "\"jest\"",
    "\"mocha\"",
    "\"vitest\"",
    "\"eslintconfig\"",
    "\"scripts\"",
    "\"pretest",
    "\"posttest",
    "install\"",
    "\"prepare",
    "\"nyc\"",
    "surefire",
    "failsafe",
    "skiptests",
    "maven.test",
    "<skip",
    "testfailureignore",
    "<exclude",
    "<include",
    "<groups",
    "test{",
    "test.",
    "tests.",
    "ignorefailures",
    "useju",
    "filter{",
    "exclude",
    "enabled=",
    "add_test",
    "enable_testing",
    "set_tests_properties",
    "set_property(test",
    "discover_tests",
    "compile_options",
    "-w",
    "werror",
    "onlyif",
    "maxparallelforks",
    "jvmargs",
    "argline",
];

/// Words that stand beside a number that a check compares with.
const THRESHOLDS: &[&str] = &[
    "fail_under",
    "fail-under",
    "coveragethreshold",
    "threshold",
    "maxwarnings",
    "max-warnings",
    "mincoverage",
    "min_coverage",
    "minimum>",
    "\"branches\"",
    "\"functions\"",
    "\"lines\"",
    "\"statements\"",
    "branches:",
    "functions:",
    "lines:",
    "statements:",
    "maxallowedviolations",
    "max-complexity",
    "max_complexity",
    "max-line-length",
    "line-length",
    "cognitive-complexity",
    "tolerance",
];

/// Flags what a patch does to how checks run.
pub(super) fn look(facts: &mut PatchFacts, file: &FileDiff) {
    for path in file.old_path.iter().chain(file.new_path.iter().filter(|_| file.renamed())) {
        look_at(facts, file, path);
    }
    if let (None, Some(path)) = (&file.old_path, &file.new_path) {
        look_at(facts, file, path);
    }
    thresholds(facts, file);
}

fn look_at(facts: &mut PatchFacts, file: &FileDiff, path: &str) {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let hidden = [
        ".cargo/",
        ".config/",
        ".github/",
        ".circleci/",
        ".whipstitch/",
        ".mvn/",
        "gradle/",
        "node_modules/",
        "site-packages/",
        ".venv/",
        "venv/",
    ];
    let folder = hidden.iter().any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")));
    let whole = WHOLE_FILES.contains(&name)
        || NAME_STARTS.iter().any(|start| name.starts_with(start))
        || folder
        || [".gitlab-ci.yml", "azure-pipelines.yml", "jenkinsfile"].contains(&name)
        || [".runsettings", ".pth", ".ruleset"].iter().any(|end| name.ends_with(end));
    if whole || shadows_a_module(&path) || poses_as_a_tool(file, name) {
        let detail = if file.deleted { "the file is deleted" } else { "it decides how checks run" };
        facts.flag(FlagKind::CheckConfigChanged, file, None, detail);
    } else if [".csproj", ".fsproj", ".sln"].iter().any(|end| name.ends_with(end)) {
        words(facts, file, &["test", "warn", "nullable", "exclude", "remove=", "condition", "analysis"]);
    } else if ["build.rs", "setup.py"].contains(&name) {
        build_script(facts, file);
    } else if MIXED_FILES.contains(&name) {
        if name.ends_with(".toml") || name.ends_with(".cfg") {
            sections(facts, file);
        } else {
            words(facts, file, WORDS);
        }
    }
}

/// Changed lines of a file with `[sections]`, but for those that are known to be harmless.
fn sections(facts: &mut PatchFacts, file: &FileDiff) {
    let mut section: Option<String> = None;
    for line in &file.lines {
        let text = line.text.trim();
        if line.side == Side::Header {
            section = None;
        }
        if let Some(name) =
            text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')).map(|(name, _)| name)
        {
            let plain = name.trim().trim_matches(|next| next == '[' || next == ']').to_lowercase();
            if name.chars().all(|next| next.is_alphanumeric() || "._-[]\"' ".contains(next)) {
                section = Some(plain);
            }
        }
        let changed =
            matches!(line.side, Side::Added | Side::Removed) && !text.is_empty() && !text.starts_with('#');
        let harmless = section.as_deref().is_some_and(|name| {
            HARMLESS_SECTIONS.contains(&name)
                || name.ends_with(".dependencies") && !name.starts_with("target.cfg(test")
        });
        let targets =
            section.as_deref().is_some_and(|name| ["package", "lib", "bin", "[bin]"].contains(&name));
        let squeezed = squeeze(text);
        let named = ["harness", "test =", "test=", "autotests", "doctest", "pytest", "addopts", "backend"]
            .iter()
            .any(|word| text.contains(word))
            || targets && ["build=", "path="].iter().any(|word| squeezed.starts_with(word));
        if changed && (!harmless || named) {
            let known =
                section.clone().unwrap_or_else(|| "a section that the patch does not show".to_owned());
            let number = Some(line.number).filter(|_| line.side == Side::Added);
            facts.flag(FlagKind::CheckConfigChanged, file, number, &format!("[{known}] {text}"));
        }
    }
}

/// Modules that Python or its test frameworks load; a file of that name in their way is loaded instead.
const MODULES: &[&str] = &[
    "pytest",
    "_pytest",
    "unittest",
    "doctest",
    "pluggy",
    "iniconfig",
    "packaging",
    "exceptiongroup",
    "tomli",
    "tomllib",
    "pygments",
    "attr",
    "attrs",
    "py",
    "typing_extensions",
    "coverage",
    "xdist",
    "pytest_cov",
    "abc",
    "argparse",
    "ast",
    "atexit",
    "bdb",
    "builtins",
    "code",
    "codecs",
    "collections",
    "configparser",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "errno",
    "faulthandler",
    "fnmatch",
    "functools",
    "gc",
    "glob",
    "hashlib",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "linecache",
    "locale",
    "logging",
    "math",
    "operator",
    "os",
    "pathlib",
    "pdb",
    "platform",
    "pprint",
    "queue",
    "random",
    "re",
    "reprlib",
    "shlex",
    "shutil",
    "signal",
    "site",
    "socket",
    "stat",
    "string",
    "struct",
    "subprocess",
    "sys",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "token",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "uuid",
    "warnings",
    "weakref",
    "xml",
    "zipfile",
];

/// Whether a Python file stands where it would be loaded in place of such a module: at the root, in `src`, or
/// in a folder of tests, which are all searched first.
fn shadows_a_module(path: &str) -> bool {
    let Some(module) = path.strip_suffix("/__init__.py").or_else(|| path.strip_suffix(".py")) else {
        return false;
    };
    let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
    let last = folder.rsplit('/').next().unwrap_or_default();
    MODULES.contains(&name) && ["", "src", "test", "tests"].contains(&last)
}

/// Programs by whose names commands call them.
const TOOLS: &[&str] = &[
    "pytest",
    "py.test",
    "python",
    "python3",
    "pip",
    "ruff",
    "mypy",
    "pyright",
    "tox",
    "cargo",
    "rustc",
    "rustdoc",
    "cargo-nextest",
    "cargo-clippy",
    "clippy-driver",
    "node",
    "npm",
    "npx",
    "yarn",
    "pnpm",
    "jest",
    "vitest",
    "mocha",
    "tsc",
    "eslint",
    "go",
    "gofmt",
    "java",
    "javac",
    "mvn",
    "gradle",
    "dotnet",
    "cmake",
    "ctest",
    "make",
    "ninja",
    "cc",
    "gcc",
    "c++",
    "g++",
    "ld",
    "sh",
    "bash",
    "env",
    "git",
    "uv",
    "poetry",
];

fn poses_as_a_tool(file: &FileDiff, name: &str) -> bool {
    TOOLS.contains(&name) && (file.executable || file.old_path.is_none())
}

/// A script that runs while the checks are built: a new one, and what one does to files and commands.
fn build_script(facts: &mut PatchFacts, file: &FileDiff) {
    if file.old_path.is_none() {
        facts.flag(FlagKind::CheckConfigChanged, file, None, "it is new, and runs before the checks do");
        return;
    }
    const DOES: [&str; 20] = [
        "fs::",
        "file::create",
        "openoptions",
        "command",
        "process",
        "rustc-cfg",
        "rustc-flags",
        "rustc-link",
        "rustc-env",
        "rustc-wrapper",
        "include!",
        "spawn",
        "set_var",
        "unsafe",
        "extern",
        "open(",
        "write",
        "subprocess",
        "os.",
        "cmdclass",
    ];
    for line in file.added() {
        let text = squeeze(&line.text);
        if DOES.iter().any(|word| text.contains(word)) {
            facts.flag(FlagKind::CheckConfigChanged, file, Some(line.number), &line.text);
        }
    }
}

/// The files of the repository that a check's command runs, or is told to read settings from.
pub(super) fn named_files(check: &Check) -> Vec<String> {
    let below = |word: &str| {
        let word = word.trim_start_matches("./");
        match check.directory.trim_end_matches('/') {
            "" | "." => word.to_owned(),
            directory => format!("{}/{word}", directory.trim_start_matches("./")),
        }
    };
    let mut files = Vec::new();
    let program = check.argv.first().map(String::as_str).unwrap_or_default();
    if program.contains('/') && !program.starts_with('/') {
        files.push(below(program));
    }
    let interpreters =
        ["sh", "bash", "dash", "zsh", "node", "ruby", "perl", "php", "env", "uv", "poetry", "npx"];
    let base = program.rsplit('/').next().unwrap_or_default();
    if interpreters.contains(&base) || base.starts_with("python") {
        let script =
            check.argv.iter().skip(1).take_while(|word| *word != "-m" && *word != "-c").find(|word| {
                [".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php"]
                    .iter()
                    .any(|end| word.ends_with(end))
                    || word.starts_with("./")
            });
        files.extend(script.map(|word| below(word)));
    }
    let settings = [".toml", ".ini", ".cfg", ".json", ".yml", ".yaml", ".conf", ".rc", ".mk", ".xml"];
    for word in check.argv.iter().skip(1) {
        let value = word.rsplit_once('=').map_or(word.as_str(), |(_, value)| value);
        let name = value.rsplit('/').next().unwrap_or_default().to_lowercase();
        let mixed = MIXED_FILES.contains(&name.as_str());
        if settings.iter().any(|end| name.ends_with(end))
            && !mixed
            && !check.reports.iter().any(|at| at == value)
        {
            files.push(below(value));
        }
    }
    files
}

/// Changed lines that hold one of the words.
fn words(facts: &mut PatchFacts, file: &FileDiff, words: &[&str]) {
    for line in file.lines.iter().filter(|line| matches!(line.side, Side::Added | Side::Removed)) {
        let text = squeeze(&line.text);
        if words.iter().any(|word| text.contains(word)) {
            let number = Some(line.number).filter(|_| line.side == Side::Added);
            facts.flag(FlagKind::CheckConfigChanged, file, number, &line.text);
        }
    }
}

/// Lines with a threshold that are gone or new.
fn thresholds(facts: &mut PatchFacts, file: &FileDiff) {
    let path = file.path().to_lowercase();
    let configuration = [
        ".toml", ".cfg", ".ini", ".json", ".js", ".cjs", ".mjs", ".ts", ".yml", ".yaml", ".xml", ".gradle",
        ".kts", ".rc",
    ]
    .iter()
    .any(|end| path.ends_with(end))
        || path.ends_with("coveragerc")
        || path.ends_with("makefile");
    if !configuration {
        return;
    }
    let holds = |text: &str| {
        THRESHOLDS.iter().any(|word| text.contains(word)) && text.bytes().any(|byte| byte.is_ascii_digit())
    };
    let mut before: BTreeMap<String, usize> = BTreeMap::new();
    for line in file.removed() {
        let text = squeeze(&line.text);
        if holds(&text) {
            *before.entry(text).or_default() += 1;
        }
    }
    for line in file.added() {
        let text = squeeze(&line.text);
        if !holds(&text) {
            continue;
        }
        match before.get_mut(&text) {
            Some(left) if *left > 0 => *left -= 1,
            Some(_) | None => facts.flag(FlagKind::ThresholdChanged, file, Some(line.number), &line.text),
        }
    }
    for (text, _) in before.iter().filter(|(_, left)| **left > 0) {
        facts.flag(FlagKind::ThresholdChanged, file, None, text);
    }
}
