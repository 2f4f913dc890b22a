//! Files and sections that decide how checks run, and the numbers that checks compare with.

use std::collections::BTreeMap;

use super::diff::{FileDiff, Side};
use super::patterns::squeeze;
use super::{FlagKind, PatchFacts};

/// Files that are about checks and nothing else, by their whole name in lower case.
const WHOLE_FILES: &[&str] = &[
    "pytest.ini",
    "pytest.toml",
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
    let hidden = [".cargo/", ".config/", ".github/", ".circleci/", ".whipstitch/", ".mvn/", "gradle/"];
    let folder = hidden.iter().any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")));
    let whole = WHOLE_FILES.contains(&name)
        || NAME_STARTS.iter().any(|start| name.starts_with(start))
        || folder
        || [".gitlab-ci.yml", "azure-pipelines.yml", "jenkinsfile"].contains(&name)
        || [".runsettings", ".pth", ".ruleset"].iter().any(|end| name.ends_with(end));
    let shadows = ["pytest.py", "unittest.py", "_pytest.py", "pytest/__init__.py", "unittest/__init__.py"];
    if whole || shadows.iter().any(|shadow| path == *shadow || path.ends_with(&format!("/{shadow}"))) {
        let detail = if file.deleted { "the file is deleted" } else { "it decides how checks run" };
        facts.flag(FlagKind::CheckConfigChanged, file, None, detail);
    } else if [".csproj", ".fsproj", ".sln"].iter().any(|end| name.ends_with(end)) {
        words(facts, file, &["test", "warn", "nullable", "exclude", "remove=", "condition", "analysis"]);
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
        let named = ["harness", "test =", "test=", "autotests", "doctest", "pytest", "addopts"]
            .iter()
            .any(|word| text.contains(word));
        if changed && (!harmless || named) {
            let known =
                section.clone().unwrap_or_else(|| "a section that the patch does not show".to_owned());
            let number = Some(line.number).filter(|_| line.side == Side::Added);
            facts.flag(FlagKind::CheckConfigChanged, file, number, &format!("[{known}] {text}"));
        }
    }
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
