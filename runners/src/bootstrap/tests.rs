//! Plans of trees of every family.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::toolchains::{ClientSettings, FoundTool, MissingTool};
use crate::workspace::{Entry, Mode, TreePath};

fn tree(files: &[(&str, &str)]) -> Tree {
    let entries: BTreeMap<TreePath, Entry> = files
        .iter()
        .map(|(path, text)| (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, text.as_bytes())))
        .collect();
    Tree::new(entries, None).unwrap()
}

fn toolchains(names: &[&str]) -> Toolchains {
    let tool = |name: &&str| FoundTool {
        family: Family::Native,
        name: (*name).to_owned(),
        version: None,
        path: format!("/usr/bin/{name}").into(),
    };
    Toolchains {
        binds: Vec::new(),
        environment: BTreeMap::new(),
        found: names.iter().map(tool).collect(),
        missing: vec![MissingTool {
            family: Family::Go,
            name: "go".to_owned(),
            advice: "install it".to_owned(),
        }],
        clients: ClientSettings::default(),
    }
}

const ALL: [&str; 8] = ["cargo", "python3", "npm", "pnpm", "go", "mvn", "gradle", "dotnet"];

/// Each step as `directory> command`.
fn steps(files: &[(&str, &str)]) -> Vec<String> {
    let plan = plan(&tree(files), &toolchains(&ALL));
    let shown = |step: &InstallStep| {
        let words: Vec<&str> =
            step.argv.iter().map(|word| if word.contains('\n') { "<script>" } else { word }).collect();
        format!("{}> {}", step.directory, words.join(" "))
    };
    plan.steps.iter().map(shown).collect()
}

const PACKAGE: &str = "[package]\nname = \"a\"\nversion = \"0.1.0\"\n";

#[test]
fn nothing_to_fetch_is_an_empty_plan() {
    let own = format!("{PACKAGE}[dependencies]\nb = {{ path = \"b\" }}\n");
    let files = [
        ("Cargo.toml", own.as_str()),
        ("b/Cargo.toml", PACKAGE),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n"),
        ("pyproject.toml", "[project]\nname = \"x\"\ndependencies = []\n[tool.ruff]\n"),
        ("requirements.txt", "# none\n\n"),
        ("package.json", "{\"name\": \"x\"}"),
        ("go.mod", "module example.com/x\n\ngo 1.19\n"),
    ];
    let planned = plan(&tree(&files), &toolchains(&ALL));
    assert!(planned.is_empty() && planned.notes.is_empty(), "{planned:?}");
}

#[test]
fn a_cargo_workspace_is_fetched_once_from_its_root() {
    let member = format!("{PACKAGE}[target.'cfg(unix)'.dev-dependencies]\nlibc = \"0.2\"\n");
    let inherits = format!("{PACKAGE}[dependencies]\nserde.workspace = true\n");
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nexclude = [\"alone\"]\n"),
        ("Cargo.lock", "version = 4\n"),
        ("one/Cargo.toml", member.as_str()),
        ("two/Cargo.toml", inherits.as_str()),
        ("alone/Cargo.toml", member.as_str()),
        ("vendor/x/Cargo.toml", member.as_str()),
        ("tests/fixtures/broken/Cargo.toml", member.as_str()),
    ];
    assert_eq!(steps(&files), ["> cargo fetch --locked", "alone> cargo fetch"]);
}

#[test]
fn a_lockfile_that_names_a_source_is_reason_enough() {
    let lock = "version = 4\n\n[[package]]\nname = \"x\"\nversion = \"1.0.0\"\nsource = \"registry+https://r.example\"\n";
    assert_eq!(steps(&[("Cargo.toml", PACKAGE), ("Cargo.lock", lock)]), ["> cargo fetch --locked"]);
}

#[test]
fn python_gets_one_environment_and_every_list_of_requirements() {
    let project = "[project]\nname = \"x\"\ndependencies = [\"requests>=2; python_version>'3'\", \"--index-url=https://evil.example\", \"y @ https://evil.example/y.whl\"]\n\
        [project.optional-dependencies]\ntest = [\"pytest\"]\ndocs = [\"sphinx\"]\n";
    let files = [
        ("pyproject.toml", project),
        ("api/requirements.txt", "flask==3.0\n"),
        ("api/requirements-dev.txt", "-r requirements.txt\n"),
    ];
    let planned = steps(&files);
    assert_eq!(planned[0], "> python3 -c <script> /home/whipstitch/venv /workspace/src");
    let pip = "/home/whipstitch/venv/bin/python3 -m pip install --prefer-binary --no-warn-script-location";
    assert_eq!(
        planned[1..],
        [
            format!("api> {pip} -r requirements-dev.txt"),
            format!("api> {pip} -r requirements.txt"),
            format!("> {pip} requests>=2; python_version>'3' pytest"),
        ]
    );
    let notes = plan(&tree(&files), &toolchains(&ALL)).notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("no requirement by name")), "{notes:?}");
}

#[test]
fn sources_that_lie_apart_are_put_on_the_path_without_a_window() {
    let apart = [("pyproject.toml", "[project]\nname = \"x\"\n"), ("src/x/__init__.py", "")];
    assert_eq!(steps(&apart), ["> python3 -c <script> /home/whipstitch/venv /workspace/src"]);
    assert!(!plan(&tree(&apart), &toolchains(&ALL)).needs_window());
    assert!(steps(&[apart[0], ("x/__init__.py", "")]).is_empty());
    let asking = [apart[0], apart[1], ("requirements.txt", "flask")];
    assert!(plan(&tree(&asking), &toolchains(&ALL)).needs_window());
}

#[test]
fn javascript_is_fetched_by_its_lockfile_without_scripts() {
    let package = "{\"dependencies\": {\"x\": \"1\"}}";
    let files = [
        ("package.json", package),
        ("package-lock.json", "{}"),
        ("packages/member/package.json", package),
        ("node_modules/x/package.json", package),
    ];
    assert_eq!(steps(&files), ["> npm ci --ignore-scripts"]);
    let step = &plan(&tree(&files), &toolchains(&ALL)).steps[0];
    assert_eq!((step.carries[0].as_str(), step.lockfiles[0].as_str()), ("node_modules", "package-lock.json"));
    let pnpm = [("web/package.json", package), ("web/pnpm-lock.yaml", "")];
    assert_eq!(steps(&pnpm), ["web> pnpm install --frozen-lockfile --ignore-scripts"]);
    let unlocked = plan(&tree(&[("package.json", package)]), &toolchains(&ALL));
    assert!(unlocked.is_empty() && unlocked.notes[0].contains("no lockfile"), "{unlocked:?}");
}

#[test]
fn the_other_families_are_planned_with_their_own_words() {
    let files = [
        ("go/go.mod", "module m\n\nrequire example.com/x v1.0.0\n"),
        ("java/pom.xml", "<project><modules><module>a</module></modules></project>"),
        ("java/a/pom.xml", "<project><dependencies/></project>"),
        ("kotlin/settings.gradle.kts", ""),
        ("kotlin/app/build.gradle.kts", ""),
        ("net/x.sln", ""),
        ("net/x/x.csproj", "<PackageReference Include=\"Y\" />"),
    ];
    assert_eq!(
        steps(&files),
        [
            "go> go mod download",
            "java> mvn -B -q dependency:go-offline",
            "kotlin> gradle --console=plain --no-daemon -q dependencies",
            "net> dotnet restore x.sln",
        ]
    );
    let java = &plan(&tree(&files), &toolchains(&ALL)).steps[1];
    assert!(java.environment["JAVA_TOOL_OPTIONS"].contains("-Dhttps.proxyPort=3128"));
}

#[test]
fn a_family_without_its_toolchain_is_told_with_what_to_do() {
    let files = [("svc/go.mod", "module m\nrequire example.com/x v1.0.0\n")];
    let planned = plan(&tree(&files), &toolchains(&["cargo"]));
    assert!(planned.is_empty());
    assert_eq!(planned.notes, ["Go in svc has dependencies, and there is no `go` to fetch them; install it"]);
}

#[test]
fn a_failed_install_names_command_host_and_way_out() {
    let failed = FailedInstall {
        installs: Vec::new(),
        egress: Vec::new(),
        command: "pip install -r requirements.txt".to_owned(),
        ended: "exited with code 1".to_owned(),
        refusals: vec!["egress refused evil.example:443 to `pip install`: not admitted".to_owned()],
        said: "ERROR: no matching distribution".to_owned(),
    };
    insta::assert_snapshot!(failed, @r"
    `pip install -r requirements.txt` exited with code 1; egress refused evil.example:443 to `pip install`: not admitted; admit the host in the operator's egress settings if it is meant
    ERROR: no matching distribution
    ");
}

/// pytest itself needs pluggy and iniconfig: whoever repairs those must not test the installed copies.
#[test]
fn sources_of_the_tree_come_before_a_published_copy_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (target, sources) = (folder.path().join("venv"), folder.path().join("src"));
    std::fs::create_dir(&sources).unwrap();
    std::fs::write(sources.join("mended.py"), "WHOSE = 'tree'").unwrap();
    let absent = folder.path().join("absent");
    let made = std::process::Command::new("python3")
        .args(["-c", super::pip::MAKE])
        .args([&target, &absent, &sources])
        .status()
        .unwrap();
    assert!(made.success());
    let show = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = python(&target, show);
    std::fs::write(Path::new(packages.trim()).join("mended.py"), "WHOSE = 'published'").unwrap();
    assert_eq!(python(&target, "import mended; print(mended.WHOSE)").trim(), "tree");
    let path = python(&target, "import sys; print(sys.path)");
    assert!(!path.contains("absent"), "{path}");
}

fn python(environment: &Path, script: &str) -> String {
    let output = std::process::Command::new(environment.join("bin/python3")).args(["-c", script]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}
