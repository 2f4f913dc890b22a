use super::*;
use crate::check::Tool;
use crate::digest::Digest;

fn error(text: &str) -> String {
    Policy::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn an_empty_file_is_the_default_policy() {
    assert_eq!(Policy::parse(b"").unwrap(), Policy::default());
    assert_eq!(Policy::parse("\u{feff}# nothing\r\n".as_bytes()).unwrap(), Policy::default());
}

#[test]
fn the_example_shows_every_default() {
    let example = include_bytes!("../../../deploy/whipstitch.example.toml");
    let read = Policy::parse(example).unwrap();
    assert_eq!(Policy { checks: None, ..read.clone() }, Policy::default());
    let checks = read.checks.unwrap();
    assert_eq!(checks[0], Check::new("tests", Tool::Pytest, &["python3", "-m", "pytest", "-q"]));
    assert_eq!(checks[1].reports, ["build/junit.xml"]);
}

#[test]
fn a_fault_names_line_and_column_and_what_is_right() {
    let faults = [
        "[limits]\niterations = 0\n",
        "[limits]\nruntime_minutes = \"long\"\n",
        "[limits]\nretries = 3\n",
        "[trigger]\ncomment = true\n",
        "[triggers]\nleast_role = \"none\"\n",
        "[triggers]\nleast_role = \"owner\"\n",
        "[guard]\nleast_role = \"read\"\n",
        "[guard]\nprotected_paths = [\"a\", \"\"]\n",
        "[agent]\nname = \"gpt\"\n",
        "[agent]\nname = \"replay\"\n",
        "[agent]\nname = \"replay\"\npatch = \"abc\"\n",
        "[agent]\nname = \"fixers\"\nmodel = \"x\"\n",
        "checks = []\n",
        "[[checks]]\nname = \"a\"\ntool = \"pytest\"\n",
        "[[checks]]\nname = \"a\"\ntool = \"pytest\"\nrun = \"pytest -q\"\n",
        "[[checks]]\nname = \"a\"\ntool = \"pytest\"\nrun = []\n",
        "[[checks]]\nname = \"a\"\ntool = \"junit\"\nrun = [\"make\"]\n",
        "[[checks]]\nname = \"ä\"\ntool = \"pytest\"\nrun = [\"x\"]\ndirectory = \"../up\"\n",
        "[[checks]]\nname = \"a\"\ntool = \"pytest\"\nrun = [\"x\"]\nreports = [\"/etc/passwd\"]\n",
        "[[checks]]\nname = \"a\"\ntool = \"tap\"\nrun = [\"x\"]\n[[checks]]\nname = \"a\"\ntool = \"tap\"\nrun = [\"x\"]\n",
        "  [limits\n",
        "[limits]\niterations = 1\niterations = 2\n",
    ];
    let lines: Vec<_> = faults.into_iter().map(|text| error(text).trim_end().replace('\n', " / ")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    .github/whipstitch.toml:2:14: 0 is not between 1 and 100
    .github/whipstitch.toml:2:19: invalid type: string "long", expected a whole number
    .github/whipstitch.toml:2:1: unknown key `retries`, expected one of `runtime_minutes`, `iterations`, `patch_kib`, `changed_files`, `memory_mib`, `processes`, `tokens`, `egress_seconds`, `egress_mib`, `reruns`
    .github/whipstitch.toml:1:2: unknown key `trigger`, expected one of `triggers`, `checks`, `limits`, `agent`, `guard`
    .github/whipstitch.toml:2:14: least_role must be read, triage, write, maintain or admin
    .github/whipstitch.toml:2:14: unknown value `owner`, expected one of `none`, `read`, `triage`, `write`, `maintain`, `admin`
    .github/whipstitch.toml:2:14: least_role of a push must be triage, write, maintain or admin
    .github/whipstitch.toml:2:19: a protected path must have 1 to 100 bytes and no control character
    .github/whipstitch.toml:2:8: unknown agent "gpt"; use "fixers", "model" or "replay"
    .github/whipstitch.toml:2:8: the agent "replay" needs `patch`, the SHA-256 of its patch
    .github/whipstitch.toml:3:9: not a SHA-256 digest of 64 lowercase hex digits: "abc"
    .github/whipstitch.toml:3:1: unknown key `model`, expected one of `name`, `patch`, `profile`
    .github/whipstitch.toml:1:10: there must be 1 to 32 checks; leave `checks` out to have them found
    .github/whipstitch.toml:1:1: missing key `run`
    .github/whipstitch.toml:4:7: invalid type: string "pytest -q", expected a list such as ["a", "b"]
    .github/whipstitch.toml:4:7: `run` must begin with a program, such as ["cargo", "test"]
    .github/whipstitch.toml:3:8: a check with tool "junit" needs `reports`, the files that it writes
    .github/whipstitch.toml:5:13: "../up" must be a relative path with `/` and without `..`
    .github/whipstitch.toml:5:11: "/etc/passwd" must be a relative path with `/` and without `..`
    .github/whipstitch.toml:6:8: two checks are named "a"
    .github/whipstitch.toml:1:10: unclosed table, expected `]`
    .github/whipstitch.toml:3:1: duplicate key
    "#);
}

#[test]
fn an_unknown_tool_is_answered_with_all_names() {
    let message = error("[[checks]]\nname = \"a\"\ntool = \"nose\"\nrun = [\"x\"]\n");
    assert!(message.starts_with(".github/whipstitch.toml:3:8: unknown tool \"nose\""), "{message}");
    for tool in Tool::ALL {
        assert!(message.contains(tool.name()), "{message}");
    }
}

#[test]
fn a_framework_is_a_tool_by_another_word() {
    let text = "[[checks]]\nname = \"a\"\nframework = \"junit\"\nrun = [\"x\"]\nreports = [\"out/*.xml\"]\n";
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let checks = policy.checks.unwrap();
    assert_eq!(
        (checks[0].tool, checks[0].reports.as_slice()),
        (Tool::Junit, ["out/*.xml".to_owned()].as_slice())
    );
}

#[test]
fn columns_count_characters_and_bad_bytes_have_a_place() {
    let bad = Policy::parse(b"# \xc3\xa4\xc3\xa4 \xff\n").unwrap_err();
    assert_eq!((bad.line, bad.column), (1, 6));
    let late = Policy::parse("# ä\n[guard]\nauthor_may_apply = 'ä'\n".as_bytes()).unwrap_err();
    assert_eq!((late.line, late.column), (3, 20));
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    let large = vec![b'#'; MAX_BYTES + 1];
    assert!(Policy::parse(&large).unwrap_err().message.contains("65537 bytes"));
}

#[test]
fn hostile_nesting_is_an_error_and_no_crash() {
    for text in ["a = ".to_owned() + &"[".repeat(60_000), "a.".repeat(30_000) + "a = 1"] {
        Policy::parse(text.as_bytes()).unwrap_err();
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    let text = format!(
        "[agent]\nname = \"replay\"\npatch = \"{}\"\n[triggers]\nlabels = [\"fix\"]\nauthor_may_ask = true\n\
         [limits]\nruntime_minutes = 2\npatch_kib = 3\n[guard]\nleast_role = \"admin\"\nprotected_paths = []\n",
        Digest::of("p")
    );
    let policy = Policy::parse(text.as_bytes()).unwrap();
    assert_eq!(policy.agent, AgentSpec::Replay { patch: Digest::of("p") });
    assert_eq!(policy.triggers.labels, ["fix"]);
    assert!(policy.triggers.author_may_ask);
    assert_eq!((policy.limits.max_runtime_ms, policy.limits.max_patch_bytes), (120_000, 3072));
    assert_eq!(policy.guard.least_role, Role::Admin);
    assert_eq!(policy.guard.protected_paths, [""; 0]);
}

#[test]
fn the_operators_bounds_are_never_exceeded() {
    let caps = Limits { max_iterations: 2, max_memory_bytes: 64 << 20, ..Limits::default() };
    let policy = Policy::parse(b"[limits]\niterations = 9\nmemory_mib = 64\nprocesses = 8\n").unwrap();
    let limits = policy.within(&caps).limits;
    assert_eq!((limits.max_iterations, limits.max_memory_bytes, limits.max_processes), (2, 64 << 20, 8));
}

/// The keys of a JSON schema's object, and of the tables in it.
fn schema_keys(prefix: &str, schema: &serde_json::Value, keys: &mut Vec<String>) {
    assert_eq!(schema["additionalProperties"], false, "{prefix} takes no unknown keys");
    for (name, property) in schema["properties"].as_object().unwrap() {
        let object = if property["type"] == "array" { &property["items"] } else { property };
        if object["type"] == "object" {
            schema_keys(&format!("{prefix}{name}."), object, keys);
        } else {
            keys.push(format!("{prefix}{name}"));
        }
    }
}

fn file_keys(prefix: &str, table: &toml::Table, keys: &mut Vec<String>) {
    for (name, value) in table {
        let tables: Vec<_> = match value {
            toml::Value::Table(table) => vec![table],
            toml::Value::Array(values) => values.iter().filter_map(toml::Value::as_table).collect(),
            toml::Value::String(_)
            | toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_) => Vec::new(),
        };
        if tables.is_empty() {
            keys.push(format!("{prefix}{name}"));
        }
        for table in tables {
            file_keys(&format!("{prefix}{name}."), table, keys);
        }
    }
}

#[test]
fn the_schema_for_editors_has_the_keys_of_the_example() {
    let schema = include_str!("../../../deploy/whipstitch.schema.json");
    let mut in_schema = Vec::new();
    schema_keys("", &serde_json::from_str(schema).unwrap(), &mut in_schema);
    let mut in_example = vec!["agent.patch".to_owned(), "agent.profile".to_owned()];
    let example = include_str!("../../../deploy/whipstitch.example.toml");
    file_keys("", &example.parse().unwrap(), &mut in_example);
    for keys in [&mut in_schema, &mut in_example] {
        keys.sort();
        keys.dedup();
    }
    assert_eq!(in_schema, in_example);
}
