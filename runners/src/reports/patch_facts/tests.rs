//! Tables: what a patch says, and what is made of it.

use super::*;

/// A patch of one file that takes lines away and adds others, after one line of context.
fn patch(path: &str, context: &str, removed: &[&str], added: &[&str]) -> PatchFacts {
    let mut text = format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n {context}\n",
        removed.len() + 1,
        added.len() + 1
    );
    for line in removed {
        text.push_str(&format!("-{line}\n"));
    }
    for line in added {
        text.push_str(&format!("+{line}\n"));
    }
    PatchFacts::of(text.as_bytes())
}

fn kinds(facts: &PatchFacts) -> Vec<FlagKind> {
    let mut kinds: Vec<FlagKind> = facts.flags.iter().map(|flag| flag.kind).collect();
    kinds.dedup();
    kinds
}

#[test]
fn every_suppression_is_seen() {
    for (path, line) in [
        ("a.py", "x = 1  # noqa: E501"),
        ("a.py", "x = 1  #NOQA"),
        ("a.py", "# ruff: noqa"),
        ("a.py", "y = f()  # type: ignore[attr-defined]"),
        ("a.py", "y = f()  # pyright: ignore"),
        ("a.py", "# mypy: ignore-errors"),
        ("a.py", "import x  # pylint: disable=unused-import"),
        ("a.py", "if x:  # pragma: no cover"),
        ("src/lib.rs", "#[allow(dead_code)]"),
        ("src/lib.rs", "#![allow(clippy::all)]"),
        ("src/lib.rs", "# [ allow ( unused ) ]"),
        ("src/lib.rs", "#[cfg_attr(test, allow(unused))]"),
        ("src/lib.rs", "    allow(unused),"),
        ("src/lib.rs", "#[expect(dead_code, reason = \"x\")]"),
        ("a.ts", "// @ts-ignore"),
        ("a.ts", "// @ts-expect-error later"),
        ("a.ts", "// @ts-nocheck"),
        ("a.js", "/* eslint-disable */"),
        ("a.js", "foo(); // eslint-disable-line no-undef"),
        ("a.go", "x() //nolint:errcheck"),
        ("A.java", "@SuppressWarnings(\"unchecked\")"),
        ("A.cs", "#pragma warning disable CS0168"),
        ("a.cpp", "int x; // NOLINT"),
    ] {
        let facts = patch(path, "context", &[], &[line]);
        assert_eq!(kinds(&facts), [FlagKind::Suppression], "{line}");
    }
}

#[test]
fn every_way_to_set_a_test_aside_is_seen() {
    for (path, line) in [
        ("tests/test_a.py", "@pytest.mark.skip(reason='x')"),
        ("tests/test_a.py", "@pytest.mark.skipif(True)"),
        ("tests/test_a.py", "@pytest.mark.xfail"),
        ("tests/test_a.py", "    pytest.skip('later')"),
        ("tests/test_a.py", "@unittest.skip('x')"),
        ("tests/test_a.py", "@unittest.expectedFailure"),
        ("src/lib.rs", "#[ignore]"),
        ("src/lib.rs", "#[ignore = \"slow\"]"),
        ("src/lib.rs", "#[cfg_attr(unix, ignore)]"),
        ("a.test.ts", "it.skip('adds', () => {"),
        ("a.test.ts", "test.only('adds', () => {"),
        ("a.test.ts", "xit('adds', () => {"),
        ("a.test.ts", "fdescribe('adds', () => {"),
        ("a.test.ts", "test.todo('adds')"),
        ("a_test.go", "\tt.Skip(\"later\")"),
        ("a_test.go", "\tif testing.Short() {"),
        ("ATest.java", "@Disabled"),
        ("ATest.java", "@Ignore(\"x\")"),
        ("ATests.cs", "[Fact(Skip = \"later\")]"),
        ("CMakeLists.txt", "set_tests_properties(a PROPERTIES DISABLED TRUE)"),
    ] {
        let facts = patch(path, "context", &[], &[line]);
        assert!(kinds(&facts).contains(&FlagKind::TestSetAside), "{line}: {:?}", facts.flags);
    }
}

#[test]
fn plain_repairs_are_not_flagged() {
    for (path, removed, added) in [
        ("src/lib.rs", "    a - b", "    a + b"),
        ("calc.py", "    return a - b", "    return a + b"),
        ("calc.py", "    sys.exit(1)", "    sys.exit(2)"),
        ("model.py", "    model.fit(x)", "    model.fit(x, y)"),
        ("src/a.ts", "  return a.find(x)", "  return a.benefit(x)"),
        ("src/a.ts", "  process.exit(1)", "  process.exit(2)"),
        ("README.md", "old", "use `# noqa` and `#[ignore]`"),
        ("src/lib.rs", "#[allow(dead_code)]", "#[allow(unused)]"),
        ("src/expected.rs", "    x.expect(\"a\")", "    x.expect(\"b\")"),
        ("Cargo.toml", "", ""),
    ] {
        let facts = patch(path, "context", &[removed], &[added]);
        assert_eq!(facts.flags, [], "{path}: {removed} -> {added}");
    }
}

#[test]
fn what_only_moves_within_a_file_is_not_held_against_it() {
    let line = "x = 1  # noqa";
    assert_eq!(patch("a.py", "context", &[line], &["y = 2", line]).flags, []);
    let assertion = "    assert add(1, 2) == 3";
    assert_eq!(patch("tests/test_a.py", "context", &[assertion], &["    x = 1", assertion]).flags, []);
    // One suppression for another leaves as many, two for one do not.
    let facts = patch("a.py", "context", &[line], &[line, "z = 3  # noqa"]);
    assert_eq!(facts.flags.len(), 1);
    assert_eq!(facts.flags[0].detail, "z = 3  # noqa");
    assert_eq!(facts.flags[0].line, Some(3));
}

#[test]
fn deleted_and_renamed_tests_are_seen() {
    for (path, removed, added) in [
        ("tests/test_a.py", "def test_adds():", "def helper():"),
        ("tests/test_a.py", "    async def test_adds(self):", ""),
        ("a_test.go", "func TestAdds(t *testing.T) {", "func testAdds(t *testing.T) {"),
        ("src/lib.rs", "    #[test]", ""),
        ("a.test.js", "  it('adds', () => {", "  it('adds two', () => {"),
        ("ATest.java", "    @Test", ""),
        ("ATests.cs", "    [InlineData(1, 2)]", ""),
        ("CMakeLists.txt", "add_test(NAME one COMMAND one)", ""),
    ] {
        let facts = patch(path, "context", &[removed], &[added]);
        assert!(kinds(&facts).contains(&FlagKind::TestDeleted), "{removed}: {:?}", facts.flags);
    }
}

#[test]
fn a_deleted_or_renamed_file_of_tests_is_seen() {
    let deleted = "diff --git a/tests/test_a.py b/tests/test_a.py\ndeleted file mode 100644\n--- a/tests/test_a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n";
    assert_eq!(kinds(&PatchFacts::of(deleted.as_bytes())), [FlagKind::TestDeleted]);
    let renamed = "diff --git a/tests/test_a.py b/tests/helper_a.py\nsimilarity index 100%\nrename from tests/test_a.py\nrename to tests/helper_a.py\n";
    assert_eq!(kinds(&PatchFacts::of(renamed.as_bytes())), [FlagKind::TestDeleted]);
}

#[test]
fn weakened_tests_are_seen() {
    for (path, context, removed, added) in [
        ("tests/test_a.py", "def test_a():", "    assert add(1, 2) == 3", "    assert add(1, 2) == 4"),
        ("tests/test_a.py", "def test_a():", "    assert add(1, 2) == 3", "    pass"),
        ("tests/a.rs", "#[test]", "    3,", "    4,"),
        ("src/lib.rs", "    #[test]", "        assert_eq!(add(1, 2), 3);", "        assert!(true);"),
        ("src/lib.rs", "    fn somewhere() {", "        assert_eq!(add(1, 2), 3);", ""),
        ("src/__snapshots__/a.snap", "x", "exports = 3", "exports = 4"),
        ("a_test.go", "x", "\t\tt.Errorf(\"got %d\", got)", "\t\tt.Logf(\"got %d\", got)"),
    ] {
        let facts = patch(path, context, &[removed], &[added]);
        assert!(kinds(&facts).contains(&FlagKind::TestWeakened), "{removed}: {:?}", facts.flags);
    }
    for added in [
        "    return",
        "    if False:",
        "    except AssertionError:",
        "    assert True",
        "    assert x or True",
    ] {
        let facts = patch("tests/test_a.py", "def test_a():", &[], &[added]);
        assert_eq!(kinds(&facts), [FlagKind::TestWeakened], "{added}");
    }
}

#[test]
fn new_tests_are_free() {
    let new = "diff --git a/tests/test_b.py b/tests/test_b.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_b.py\n@@ -0,0 +1,3 @@\n+def test_b():\n+    for _ in range(3):\n+        assert add(1, 2) == 3\n";
    assert_eq!(PatchFacts::of(new.as_bytes()).flags, []);
    assert_eq!(
        patch("tests/test_a.py", "x = 1", &[], &["def test_c():", "    assert add(2, 2) == 4"]).flags,
        []
    );
}

#[test]
fn changed_configuration_and_thresholds_are_seen() {
    use FlagKind::{CheckConfigChanged, ThresholdChanged};
    for (path, context, removed, added, kind) in [
        ("pytest.ini", "[pytest]", "addopts = -x", "addopts = -k none", CheckConfigChanged),
        ("conftest.py", "x", "", "collect = 1", CheckConfigChanged),
        ("pyproject.toml", "[tool.ruff.lint]", "select = [\"E\"]", "select = []", CheckConfigChanged),
        ("pyproject.toml", "fail = 1", "a = 1", "a = 2", CheckConfigChanged),
        ("Cargo.toml", "[lints.clippy]", "all = \"deny\"", "all = \"allow\"", CheckConfigChanged),
        ("Cargo.toml", "[profile.test]", "", "debug-assertions = false", CheckConfigChanged),
        ("Cargo.toml", "[lib]", "", "test = false", CheckConfigChanged),
        (".cargo/config.toml", "x", "", "rustflags = []", CheckConfigChanged),
        ("package.json", "{", "    \"test\": \"jest\"", "    \"test\": \"true\"", CheckConfigChanged),
        ("tsconfig.json", "{", "  \"strict\": true", "  \"strict\": false", CheckConfigChanged),
        ("pom.xml", "x", "", "<skipTests>true</skipTests>", CheckConfigChanged),
        ("build.gradle", "x", "", "test { ignoreFailures = true }", CheckConfigChanged),
        (".github/workflows/ci.yml", "x", "", "x: 1", CheckConfigChanged),
        ("sub/sitecustomize.py", "x", "", "import os", CheckConfigChanged),
        (".coveragerc", "[report]", "fail_under = 90", "fail_under = 10", ThresholdChanged),
        ("jest.config.js", "coverageThreshold: {", "  branches: 80,", "  branches: 8,", ThresholdChanged),
        (
            "package.json",
            "{",
            "\"lint\": \"eslint --max-warnings 0\"",
            "\"lint\": \"eslint --max-warnings 99\"",
            ThresholdChanged,
        ),
    ] {
        let facts = patch(path, context, &[removed], &[added]);
        assert!(kinds(&facts).contains(&kind), "{path} {added}: {:?}", facts.flags);
    }
    for (path, context, line) in [
        ("Cargo.toml", "[dependencies]", "serde = \"1\""),
        ("pyproject.toml", "[project]", "version = \"2\""),
        ("package.json", "\"dependencies\": {", "    \"left-pad\": \"1.0.0\""),
    ] {
        assert_eq!(patch(path, context, &[], &[line]).flags, [], "{path}");
    }
}

#[test]
fn early_exits_and_fake_reports_are_seen() {
    use FlagKind::{EarlyExit, FakeReport};
    for (path, line, kind) in [
        ("calc.py", "os._exit(0)", EarlyExit),
        ("calc.py", "sys.exit(0)", EarlyExit),
        ("src/lib.rs", "std::process::exit(0);", EarlyExit),
        ("src/a.js", "process.exit(0)", EarlyExit),
        ("calc.py", "atexit.register(lie)", EarlyExit),
        ("a_test.go", "func TestMain(m *testing.M) {", EarlyExit),
        ("tests/test_a.py", "    sys.exit(3)", EarlyExit),
        ("calc.py", "print('=== 3 passed in 0.01s ===')", FakeReport),
        ("src/lib.rs", "println!(\"test result: ok. 5 passed\");", FakeReport),
        ("calc.py", "open('junit.xml', 'w')", FakeReport),
        (".whipstitch-reports/check.xml", "x", FakeReport),
    ] {
        let facts = patch(path, "context", &[], &[line]);
        assert!(kinds(&facts).contains(&kind), "{line}: {:?}", facts.flags);
    }
}

#[test]
fn policy_may_allow_suppressions_and_nothing_else() {
    let facts = patch("tests/test_a.py", "context", &[], &["x = 1  # noqa", "@pytest.mark.skip"]);
    let guard = Guard { allow_suppressions: true, ..Guard::default() };
    assert_eq!(kinds(&facts), [FlagKind::Suppression, FlagKind::TestSetAside]);
    assert_eq!(kinds(&facts.clone().allowed_by(&Guard::default())), kinds(&facts));
    assert_eq!(kinds(&facts.allowed_by(&guard)), [FlagKind::TestSetAside]);
}

#[test]
fn policy_may_allow_each_kind_by_itself() {
    let changed = patch("tests/test_a.py", "def test_a():", &["    assert x == 1"], &["    assert x == 2"]);
    let config = patch("ruff.toml", "[lint]", &["line-length = 80"], &["line-length = 200"]);
    let tests = Guard { allow_test_changes: true, ..Guard::default() };
    let checks = Guard { allow_check_changes: true, ..Guard::default() };
    assert_eq!(kinds(&changed.clone().allowed_by(&checks)), [FlagKind::TestWeakened]);
    assert_eq!(kinds(&changed.allowed_by(&tests)), []);
    assert_eq!(
        kinds(&config.clone().allowed_by(&tests)),
        [FlagKind::CheckConfigChanged, FlagKind::ThresholdChanged]
    );
    assert_eq!(kinds(&config.allowed_by(&checks)), []);
}

#[test]
fn what_a_checks_command_names_is_part_of_the_check() {
    use jobs::check::{Check, Tool};
    let named = |argv: &[&str], path: &str| {
        let checks = [Check::new("check", Tool::Tap, argv)];
        !patch(path, "context", &["a"], &["b"]).judged_by(&checks).flags.is_empty()
    };
    for (argv, path) in [
        (["sh", "check.sh"].as_slice(), "check.sh"),
        (&["./scripts/test"], "scripts/test"),
        (&["python3", "-u", "run_tests.py"], "run_tests.py"),
        (&["ruff", "check", "--config=lint/rules.toml", "."], "lint/rules.toml"),
        (&["jest", "-c", "unit.json"], "unit.json"),
    ] {
        assert!(named(argv, path), "{argv:?}");
    }
    for (argv, path) in [
        (["ruff", "check", "a.py"].as_slice(), "a.py"),
        (&["python3", "-m", "pytest", "a.py"], "a.py"),
        (&["sh", "check.sh"], "a.sh"),
    ] {
        assert!(!named(argv, path), "{argv:?}");
    }
}

#[test]
fn what_stands_in_the_way_of_a_module_or_poses_as_a_tool_is_seen() {
    let new = |path: &str, mode: &str| {
        let text = format!(
            "diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        );
        kinds(&PatchFacts::of(text.as_bytes()))
    };
    for path in [
        "json.py",
        "src/pluggy.py",
        "tests/_pytest/__init__.py",
        "bin/pytest",
        "node_modules/jest/bin/jest.js",
        "build.rs",
    ] {
        assert_eq!(new(path, "100755"), [FlagKind::CheckConfigChanged], "{path}");
    }
    for path in ["app/json.py", "sums.py", "src/go.rs"] {
        assert_eq!(new(path, "100644"), [], "{path}");
    }
    assert_eq!(new("tests/data.txt", "120000"), [FlagKind::Hidden]);
    assert_eq!(new("sums.so", "100644"), [FlagKind::Hidden]);
    let binary = "diff --git a/src/lib.rs b/src/lib.rs\nindex 1..2 100644\nGIT binary patch\nliteral 1\n";
    assert_eq!(kinds(&PatchFacts::of(binary.as_bytes())), [FlagKind::Hidden]);
}

#[test]
fn a_test_whose_words_stay_and_mean_something_else_is_seen() {
    let test = |added: &[&str], removed: &[&str]| patch("tests/test_a.py", "def test_a():", removed, added);
    for (removed, added) in [
        (
            ["    assert add(1, 2) == 3"].as_slice(),
            ["    if quick:", "        assert add(1, 2) == 3"].as_slice(),
        ),
        (&[], &["    for _ in []:"]),
        (&[], &["    with suppress(Exception):"]),
        (
            &["from sums import add", "    assert add(1, 2) == 3"],
            &["from fake import add", "    assert add(1, 2) == 3"],
        ),
    ] {
        assert_eq!(kinds(&test(added, removed)), [FlagKind::TestWeakened], "{added:?}");
    }
    let facts = patch("tests/test_a.py", "    assert add(1, 2) == 3", &[], &["def add(a, b):"]);
    assert_eq!(kinds(&facts), [FlagKind::TestWeakened]);
    // An import that nothing uses any more asserts nothing.
    assert_eq!(test(&[], &["import os"]).flags, []);
    let facts = patch(
        "tests/test_a.py",
        "    assert x",
        &[],
        &["def test_b():", "    for y in z:", "        assert y"],
    );
    assert_eq!(facts.flags, []);
}

#[test]
fn reasons_name_the_place_and_the_words() {
    let facts = patch("a.py", "context", &[], &["x = 1  # noqa"]);
    assert_eq!(facts.reasons(), ["the patch silences a finding: a.py:2: x = 1  # noqa"]);
    assert!(facts.touches("a.py") && !facts.touches("b.py"));
}

#[test]
fn a_hostile_patch_is_bounded() {
    let lines: Vec<String> = (0..5_000).map(|number| format!("x = {number}  # noqa")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(patch("a.py", "context", &[], &lines).flags.len(), FLAGS);
    for bytes in [b"@@ -1 +1 @@\n-x".as_slice(), b"--- \n+++ \n", b"\xff\xfe", b"diff --git \n@@ @@\n+#noqa"]
    {
        assert!(PatchFacts::of(bytes).flags.len() <= FLAGS);
    }
}
