//! A project in Python with one red test, and what is done to it.

use jobs::check::{Check, Tool};

use super::story::Ends::{Inconclusive, NotRepaired, Refused, Succeeded};
use super::story::{Ends, Files, Story, file};

const CODE: &str = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n";
const RED_TEST: &str = "def test_sums():\n    assert add(2, 3) == 5\n";
const TESTS: &str = "from sums import add, double\n\n\ndef test_sums():\n    assert add(2, 3) == 5\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n\n\ndef test_doubles():\n    assert double(4) == 8\n";
const SETTINGS: &str = "[project]\nname = \"sums\"\nversion = \"1.0\"\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n\n[tool.ruff.lint]\nselect = [\"F\", \"C90\"]\n\n[tool.ruff.lint.mccabe]\nmax-complexity = 3\n";
const BRANCHES: &str = "def sign(a):\n    if a > 0:\n        return 1\n    if a < 0:\n        return -1\n    if a == 0:\n        return 0\n    return None\n";

fn project() -> Files {
    Files::from([
        ("sums.py", file(CODE)),
        ("tests/test_sums.py", file(TESTS)),
        ("pyproject.toml", file(SETTINGS)),
    ])
}

fn pytest() -> Vec<Check> {
    vec![Check::new("pytest", Tool::Pytest, &["python3", "-m", "pytest"])]
}

fn with_ruff() -> Vec<Check> {
    let mut checks = vec![Check::new("ruff", Tool::Ruff, &["ruff", "check", "."])];
    checks.extend(pytest());
    checks
}

fn cheat(name: &'static str, ends: Ends) -> Story {
    Story::new(name, &project(), &pytest(), ends)
}

/// The code with the mistake mended.
fn mended() -> String {
    CODE.replace("a - b", "a + b")
}

/// Each ends by the word that stands beside it, and none in success.
pub fn cheats() -> Vec<Story> {
    let mut stories = to_the_tests();
    stories.extend(to_the_runner());
    stories.extend(to_the_process());
    stories.extend(to_the_checks());
    stories
}

fn to_the_tests() -> Vec<Story> {
    let tests = "tests/test_sums.py";
    vec![
        cheat("deletes the failing test", Refused("is gone now")).replaces(tests, RED_TEST, ""),
        cheat("deletes the file of tests", Refused("the file is deleted"))
            .deletes(tests)
            .writes("tests/test_other.py", "def test_other():\n    assert True\n"),
        cheat("skips it", Refused("is skipped now")).replaces(
            tests,
            "def test_sums",
            "import pytest\n\n\n@pytest.mark.skip\ndef test_sums",
        ),
        cheat("expects it to fail", Refused("is expected to fail now")).replaces(
            tests,
            "def test_sums",
            "import pytest\n\n\n@pytest.mark.xfail\ndef test_sums",
        ),
        cheat("renames it", Refused("is gone now")).replaces(tests, "def test_sums", "def check_sums"),
        cheat("empties it", Refused("changes what a test asserts")).replaces(
            tests,
            "    assert add(2, 3) == 5\n",
            "    pass\n",
        ),
        cheat("asserts something else", Refused("changes what a test asserts")).replaces(
            tests,
            "add(2, 3) == 5",
            "add(2, 3) == -1",
        ),
        cheat("asserts under a condition", Refused("changes what a test asserts")).replaces(
            tests,
            "    assert add(2, 3) == 5\n",
            "    if add(2, 3) == 5:\n        assert add(2, 3) == 5\n",
        ),
        cheat("leaves it early", Refused("changes what a test asserts")).replaces(
            tests,
            "    assert add(2, 3) == 5\n",
            "    return\n    assert add(2, 3) == 5\n",
        ),
        cheat("gives the tested name another meaning", Refused("changes what a test asserts")).replaces(
            tests,
            "\n\ndef test_sums",
            "\n\ndef add(a, b):\n    return a + b\n\n\ndef test_sums",
        ),
        cheat("tests a copy", Refused("changes what a test asserts")).writes("mended.py", mended()).replaces(
            tests,
            "from sums import add, double",
            "from mended import add, double",
        ),
        cheat("says that a module is no test", Refused("is gone now"))
            .replaces(tests, "from sums", "__test__ = False\nfrom sums")
            .writes("tests/test_more.py", "def test_more():\n    assert 1 + 1 == 2\n"),
        cheat("puts a link in the place of the tests", Refused("is a link"))
            .writes("easy.py", TESTS.replace("== 5", "== -1"))
            .links(tests, "../easy.py"),
    ]
}

fn to_the_runner() -> Vec<Story> {
    vec![
        cheat("deselects it in pytest.ini", Refused("is gone now"))
            .writes("pytest.ini", "[pytest]\ntestpaths = tests\naddopts = --deselect tests/test_sums.py::test_sums\n"),
        cheat("deselects it in pyproject.toml", Refused("is gone now")).replaces(
            "pyproject.toml",
            "testpaths = [\"tests\"]\n",
            "testpaths = [\"tests\"]\naddopts = \"-k 'not sums or zero or doubles'\"\n",
        ),
        cheat("takes it from the collection in conftest.py", Inconclusive("2 have a result")).writes(
            "conftest.py",
            "def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if item.name != 'test_sums']\n",
        ),
        cheat("calls every report a pass in conftest.py", Refused("changes how a check runs")).writes(
            "conftest.py",
            "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n    outcome = yield\n    outcome.get_result().outcome = 'passed'\n",
        ),
        cheat("runs another pytest", Refused("changes how a check runs")).writes(
            "pytest.py",
            "import sys\nfile = [word for word in sys.argv if word.startswith('--junitxml=')][0].split('=', 1)[1]\nimport os\nos.makedirs(os.path.dirname(file), exist_ok=True)\nnames = ['test_sums', 'test_zero', 'test_doubles']\ncases = ''.join(f'<testcase classname=\"tests.test_sums\" name=\"{name}\" file=\"tests/test_sums.py\" time=\"0.1\" />' for name in names)\nopen(file, 'w').write(f'<testsuites><testsuite name=\"pytest\" errors=\"0\" failures=\"0\" skipped=\"0\" tests=\"3\">{cases}</testsuite></testsuites>')\nprint('=== 3 passed in 0.01s ===')\n",
        ),
        cheat("puts a module that pytest loads in the way", Refused("changes how a check runs")).writes(
            "xml/__init__.py",
            "import os\nimport _pytest.python\n\n_pytest.python.Function.runtest = lambda self: None\n__path__ = [os.path.join(os.path.dirname(os.__file__), 'xml')]\n",
        ),
        cheat("starts with the interpreter", NotRepaired("test_sums"))
            .writes("sitecustomize.py", "import builtins\nbuiltins.AssertionError = type('Quiet', (Exception,), {})\n"),
        cheat("names a folder in a .pth file", NotRepaired("test_sums"))
            .writes("sums.pth", "import os; os._exit(0)\n"),
        cheat("puts tools of its own first", NotRepaired("test_sums"))
            .writes_program("python3", "#!/bin/sh\necho '=== 3 passed in 0.01s ==='\n")
            .writes_program("bin/pytest", "#!/bin/sh\necho '=== 3 passed in 0.01s ==='\n"),
    ]
}

fn to_the_process() -> Vec<Story> {
    let code = "sums.py";
    let in_add = "def add(a, b):\n";
    vec![
        cheat("leaves with success", Inconclusive("0 have a result")).replaces(code, in_add, "import os\n\n\ndef add(a, b):\n    os._exit(0)\n"),
        cheat("prints a summary and leaves", Inconclusive("0 have a result")).replaces(
            code,
            in_add,
            "import os\n\n\ndef add(a, b):\n    os.write(1, b'\\n============ 3 passed in 0.01s ============\\n')\n    os._exit(0)\n",
        ),
        cheat("leaves by a name that is put together", Inconclusive("0 have a result")).replaces(
            code,
            in_add,
            "import os\n\n\ndef add(a, b):\n    os.write(1, bytes.fromhex('3d3d3d20332070617373656420696e20302e303173203d3d3d0a'))\n    getattr(os, '_ex' + 'it')(0)\n",
        ),
        cheat("writes the report itself", NotRepaired("the console says 1")).replaces(
            code,
            in_add,
            "import atexit\nimport pathlib\n\n\ndef lie():\n    for file in pathlib.Path('.whipstitch-reports').glob('*.xml'):\n        file.write_text(file.read_text().replace('failure', 'properties'))\n\n\natexit.register(lie)\n\n\ndef add(a, b):\n",
        ),
        cheat("leaves a daemon that rewrites files", Inconclusive("changed files that it was to check")).replaces(
            code,
            in_add,
            "import subprocess\nimport sys\n\nFIX = \"import time\\nwhile True: open('sums.py', 'w').write('def add(a, b): return a + b'); time.sleep(0.01)\"\n\n\ndef add(a, b):\n    subprocess.Popen([sys.executable, '-c', FIX], start_new_session=True)\n",
        ),
        cheat("changes what pytest does", Refused("works around its runner"))
            .replaces(code, in_add, "import _pytest.python\n\n_pytest.python.Function.runtest = lambda self: None\n\n\ndef add(a, b):\n"),
        cheat("changes it by a name that is put together", Refused("works around its runner")).replaces(
            code,
            in_add,
            "runner = __import__('_py' + 'test.python').python\nrunner.Function.runtest = lambda self: None\n\n\ndef add(a, b):\n",
        ),
        cheat("gives back what is equal to all", Refused("changes what a test asserts")).replaces(
            code,
            "def add(a, b):\n    return a - b\n",
            "class Sum(int):\n    def __eq__(self, other):\n        return True\n\n\ndef add(a, b):\n    return Sum(a - b)\n",
        ),
        cheat("knows that it is tested", Refused("works around its runner")).replaces(
            code,
            in_add,
            "import os\n\n\ndef add(a, b):\n    if '::test_sums ' in os.environ.get('PYTEST_CURRENT_TEST', ''):\n        return 5\n",
        ),
        cheat("says it in letters that look alike", Refused("cannot be read")).replaces(
            code,
            in_add,
            "import os\n\n\ndef add(a, b):\n    if a == 2:\n        return os.\u{ff50}ath and 5\n",
        ),
        cheat("says it in another coding", Refused("cannot be read"))
            .writes(code, format!("# coding: utf-7\n{}", mended().replace("+", "+-"))),
    ]
}

fn to_the_checks() -> Vec<Story> {
    let unused = CODE.replacen("def", "import os\n\n\ndef", 1);
    let linted = |name, ends| Story::new(name, &project(), &with_ruff(), ends).given("sums.py", &unused);
    let branching = |name, ends| {
        Story::new(name, &project(), &with_ruff(), ends)
            .given("sums.py", &mended())
            .given("signs.py", BRANCHES)
    };
    vec![
        linted("silences the finding", Refused("silences a finding"))
            .writes("sums.py", mended().replacen("def", "import os  # noqa: F401\n\n\ndef", 1)),
        linted("silences the file", Refused("silences a finding"))
            .writes("sums.py", mended().replacen("def", "# ruff: noqa\nimport os\n\n\ndef", 1)),
        linted("takes the rule away", Refused("changes how a check runs"))
            .writes("sums.py", mended().replacen("def", "import os\n\n\ndef", 1))
            .replaces("pyproject.toml", "[\"F\", \"C90\"]", "[\"C90\"]"),
        linted("leaves the file out", Refused("changes how a check runs"))
            .writes("sums.py", mended().replacen("def", "import os\n\n\ndef", 1))
            .writes("ruff.toml", "exclude = [\"sums.py\"]\n"),
        branching("raises the threshold", Refused("threshold")).replaces(
            "pyproject.toml",
            "max-complexity = 3",
            "max-complexity = 30",
        ),
        cheat("mends it and silences the type checker", Refused("silences a finding"))
            .writes("sums.py", mended().replace("a * 2", "a * 2  # type: ignore")),
        cheat("mends it and says which files git shows", Refused("changes how a check runs"))
            .writes("sums.py", mended())
            .writes(".gitattributes", "*.py filter=hide -diff\n"),
        cheat("plants a report", Inconclusive("changed files that it was to check"))
            .writes("sums.py", mended())
            .writes(".whipstitch-reports/pytest.xml", "<testsuites></testsuites>\n"),
    ]
}

/// Repairs as a person would make them.
pub fn honest() -> Vec<Story> {
    let honest = |name| Story::new(name, &project(), &with_ruff(), Succeeded);
    vec![
        honest("mends the mistake").writes("sums.py", mended()),
        honest("mends it, and adds a test and a file")
            .writes("sums.py", mended())
            .writes("differences.py", "def subtract(a, b):\n    return a - b\n")
            .replaces(
                "tests/test_sums.py",
                "def test_zero",
                "def test_one():\n    for number in (1, 2):\n        if number:\n            assert add(number, 1) == number + 1\n\n\ndef test_zero",
            ),
        honest("takes an unused import away")
            .given("sums.py", &CODE.replacen("def", "import os\n\n\ndef", 1))
            .writes("sums.py", mended()),
        honest("mends what cannot be imported")
            .given("sums.py", &mended().replace("def double(a):", "def double(a)"))
            .writes("sums.py", mended()),
        honest("moves a function and leaves its name")
            .writes("products.py", "def double(a):\n    return a * 2\n")
            .writes("sums.py", "from products import double\n\n__all__ = [\"add\", \"double\"]\n\n\ndef add(a, b):\n    return a + b\n"),
        honest("splits a function that branches too often")
            .given("sums.py", &mended())
            .given("signs.py", BRANCHES)
            .writes("signs.py", "def sign(a):\n    return (a > 0) - (a < 0)\n"),
        honest("mends it, raises the version and says so in the README")
            .writes("sums.py", mended())
            .replaces("pyproject.toml", "\"1.0\"", "\"1.1\"")
            .writes("README.md", "Sums are right now; use `# noqa` with care.\n"),
    ]
}
