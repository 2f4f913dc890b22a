//! The shape of the file, with units that people write, and the rules that types cannot say.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_spanned::Spanned;

use crate::check::{Check, Tool};
use crate::digest::Digest;
use crate::forge::Role;
use crate::job::{AgentSpec, ForkPatch, Guard, Limits};

use super::{Policy, PolicyError, Triggers, fault};

const MAX_CHECKS: usize = 32;
const MAX_WORDS: usize = 256;
const MAX_WORD_BYTES: usize = 8 << 10;
const MAX_NAME_BYTES: usize = 100;
const MAX_LIST: usize = 256;
const DAY_SECONDS: u64 = 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    triggers: TriggersTable,
    checks: Option<Spanned<Vec<CheckTable>>>,
    #[serde(default)]
    limits: LimitsTable,
    agent: Option<AgentTable>,
    #[serde(default)]
    guard: GuardTable,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct TriggersTable {
    comment: Option<bool>,
    labels: Option<Spanned<Vec<String>>>,
    failed_check_suite: Option<bool>,
    apps: Option<Spanned<Vec<i64>>>,
    least_role: Option<Spanned<Role>>,
    author_may_ask: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    name: Spanned<String>,
    /// Test tools are often called frameworks, so that word is understood too.
    #[serde(alias = "framework")]
    tool: Spanned<String>,
    run: Spanned<Vec<String>>,
    directory: Option<Spanned<String>>,
    reports: Option<Spanned<Vec<String>>>,
    timeout_seconds: Option<Spanned<u64>>,
    max_output_kib: Option<Spanned<u64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    runtime_minutes: Option<Spanned<u64>>,
    iterations: Option<Spanned<u64>>,
    patch_kib: Option<Spanned<u64>>,
    changed_files: Option<Spanned<u64>>,
    memory_mib: Option<Spanned<u64>>,
    processes: Option<Spanned<u64>>,
    tokens: Option<Spanned<u64>>,
    egress_seconds: Option<Spanned<u64>>,
    egress_mib: Option<Spanned<u64>>,
    reruns: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentTable {
    name: Spanned<String>,
    patch: Option<Spanned<String>>,
    profile: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct GuardTable {
    least_role: Option<Spanned<Role>>,
    author_may_apply: Option<bool>,
    protected_paths: Option<Spanned<Vec<String>>>,
    fork_patch: Option<ForkPatch>,
    authorization_hours: Option<Spanned<u64>>,
    allow_suppressions: Option<bool>,
    allow_test_changes: Option<bool>,
    allow_check_changes: Option<bool>,
}

/// Reads the whole file, or says where the first fault is.
pub(super) fn read(text: &str) -> Result<Policy, PolicyError> {
    let file: File = toml::from_str(text)
        .map_err(|error| fault(text, error.span().map_or(0, |span| span.start), plainly(error.message())))?;
    let reader = Reader { text };
    Ok(Policy {
        triggers: reader.triggers(file.triggers)?,
        checks: file.checks.map(|checks| reader.checks(checks)).transpose()?,
        limits: reader.limits(file.limits)?,
        agent: file.agent.map_or(Ok(AgentSpec::Fixers), |agent| reader.agent(agent))?,
        guard: reader.guard(file.guard)?,
    })
}

/// Holds values against their rules; knows the text, to say where a fault is.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn refuse<T, V>(&self, value: &Spanned<V>, message: impl Into<String>) -> Result<T, PolicyError> {
        Err(fault(self.text, value.span().start, message.into()))
    }

    fn triggers(&self, table: TriggersTable) -> Result<Triggers, PolicyError> {
        let default = Triggers::default();
        let labels = match table.labels {
            Some(labels) => self.names(labels, "a label")?,
            None => default.labels,
        };
        let apps = match table.apps {
            Some(apps) if apps.get_ref().len() > MAX_LIST || apps.get_ref().iter().any(|id| *id < 1) => {
                return self
                    .refuse(&apps, format!("apps is a list of at most {MAX_LIST} app ids, such as [12345]"));
            }
            Some(apps) => apps.into_inner(),
            None => default.apps,
        };
        let least_role = match table.least_role {
            Some(role) if *role.get_ref() == Role::None => {
                return self.refuse(&role, "least_role must be read, triage, write, maintain or admin");
            }
            Some(role) => role.into_inner(),
            None => default.least_role,
        };
        Ok(Triggers {
            comment: table.comment.unwrap_or(default.comment),
            labels,
            failed_check_suite: table.failed_check_suite.unwrap_or(default.failed_check_suite),
            apps,
            least_role,
            author_may_ask: table.author_may_ask.unwrap_or(default.author_may_ask),
        })
    }

    fn checks(&self, checks: Spanned<Vec<CheckTable>>) -> Result<Vec<Check>, PolicyError> {
        let count = checks.get_ref().len();
        if !(1..=MAX_CHECKS).contains(&count) {
            let message =
                format!("there must be 1 to {MAX_CHECKS} checks; leave `checks` out to have them found");
            return self.refuse(&checks, message);
        }
        let mut seen = HashSet::new();
        let mut read = Vec::with_capacity(count);
        for table in checks.into_inner() {
            if !seen.insert(table.name.get_ref().clone()) {
                return self.refuse(&table.name, format!("two checks are named {:?}", table.name.get_ref()));
            }
            read.push(self.check(table)?);
        }
        Ok(read)
    }

    fn check(&self, table: CheckTable) -> Result<Check, PolicyError> {
        self.name(&table.name, table.name.get_ref(), "a check's name")?;
        let tool = match table.tool.get_ref().parse::<Tool>() {
            Ok(tool) => tool,
            Err(_) => return self.refuse(&table.tool, unknown_tool(table.tool.get_ref())),
        };
        self.command(&table.run)?;
        let directory = match table.directory {
            Some(directory) => {
                self.path(&directory, directory.get_ref())?;
                directory.into_inner()
            }
            None => String::new(),
        };
        let reports = match table.reports {
            Some(reports) => {
                for report in reports.get_ref() {
                    self.path(&reports, report)?;
                }
                self.list_length(&reports)?;
                reports.into_inner()
            }
            None => Vec::new(),
        };
        if matches!(tool, Tool::Junit | Tool::Sarif) && reports.is_empty() {
            let message =
                format!("a check with tool {:?} needs `reports`, the files that it writes", tool.name());
            return self.refuse(&table.tool, message);
        }
        let timeout = self.number(table.timeout_seconds, 1..=DAY_SECONDS, 600)?;
        let output = self.number(table.max_output_kib, 1..=256 << 10, 16 << 10)?;
        Ok(Check {
            name: table.name.into_inner(),
            tool,
            argv: table.run.into_inner(),
            directory,
            reports,
            timeout_ms: timeout * 1000,
            max_output_bytes: output << 10,
        })
    }

    fn command(&self, run: &Spanned<Vec<String>>) -> Result<(), PolicyError> {
        let words = run.get_ref();
        if words.first().is_none_or(|program| program.is_empty()) {
            return self.refuse(run, "`run` must begin with a program, such as [\"cargo\", \"test\"]");
        }
        if words.len() > MAX_WORDS {
            return self.refuse(run, format!("`run` has {} words and may have {MAX_WORDS}", words.len()));
        }
        if words.iter().any(|word| word.len() > MAX_WORD_BYTES || word.contains('\0')) {
            return self
                .refuse(run, format!("a word of `run` has a NUL or more than {MAX_WORD_BYTES} bytes"));
        }
        Ok(())
    }

    fn limits(&self, table: LimitsTable) -> Result<Limits, PolicyError> {
        let default = Limits::default();
        let iterations = self.number(table.iterations, 1..=100, default.max_iterations.into())?;
        let reruns = self.number(table.reruns, 0..=10, default.reruns.into())?;
        Ok(Limits {
            max_runtime_ms: self.number(table.runtime_minutes, 1..=1440, default.max_runtime_ms / 60_000)?
                * 60_000,
            max_iterations: u32::try_from(iterations).expect("at most 100"),
            max_patch_bytes: self.number(table.patch_kib, 1..=64 << 10, default.max_patch_bytes >> 10)? << 10,
            max_changed_files: self.number(table.changed_files, 1..=10_000, default.max_changed_files)?,
            max_memory_bytes: self.number(table.memory_mib, 64..=1 << 20, default.max_memory_bytes >> 20)?
                << 20,
            max_processes: self.number(table.processes, 8..=32_768, default.max_processes)?,
            max_tokens: self.number(table.tokens, 0..=100_000_000, default.max_tokens)?,
            egress_seconds: self.number(table.egress_seconds, 0..=DAY_SECONDS, default.egress_seconds)?,
            egress_bytes: self.number(table.egress_mib, 0..=1 << 20, default.egress_bytes >> 20)? << 20,
            reruns: u32::try_from(reruns).expect("at most 10"),
        })
    }

    fn agent(&self, table: AgentTable) -> Result<AgentSpec, PolicyError> {
        let name = table.name.get_ref().as_str();
        if let Some(patch) = table.patch.as_ref().filter(|_| name != "replay") {
            return self.refuse(patch, "only the agent \"replay\" takes a `patch`");
        }
        if let Some(profile) = table.profile.as_ref().filter(|_| name != "model") {
            return self.refuse(profile, "only the agent \"model\" takes a `profile`");
        }
        match (name, &table.patch) {
            ("fixers", _) => Ok(AgentSpec::Fixers),
            ("model", _) => match table.profile {
                Some(profile) => {
                    self.name(&profile, profile.get_ref(), "a profile")?;
                    Ok(AgentSpec::Model { profile: profile.into_inner() })
                }
                None => self.refuse(
                    &table.name,
                    "the agent \"model\" needs `profile`, the name that the operator gave a model",
                ),
            },
            ("replay", Some(patch)) => match patch.get_ref().parse::<Digest>() {
                Ok(patch) => Ok(AgentSpec::Replay { patch }),
                Err(error) => self.refuse(patch, error.to_string()),
            },
            ("replay", None) => {
                self.refuse(&table.name, "the agent \"replay\" needs `patch`, the SHA-256 of its patch")
            }
            (other, _) => self.refuse(
                &table.name,
                format!("unknown agent {other:?}; use \"fixers\", \"model\" or \"replay\""),
            ),
        }
    }

    fn guard(&self, table: GuardTable) -> Result<Guard, PolicyError> {
        let default = Guard::default();
        let least_role = match table.least_role {
            Some(role) if *role.get_ref() < Role::Triage => {
                return self.refuse(&role, "least_role of a push must be triage, write, maintain or admin");
            }
            Some(role) => role.into_inner(),
            None => default.least_role,
        };
        let protected_paths = match table.protected_paths {
            Some(paths) => self.names(paths, "a protected path")?,
            None => default.protected_paths,
        };
        let hours = self.number(table.authorization_hours, 1..=720, default.authorization_hours.into())?;
        Ok(Guard {
            least_role,
            author_may_apply: table.author_may_apply.unwrap_or(default.author_may_apply),
            protected_paths,
            fork_patch: table.fork_patch.unwrap_or(default.fork_patch),
            authorization_hours: u32::try_from(hours).expect("at most 720"),
            allow_suppressions: table.allow_suppressions.unwrap_or(default.allow_suppressions),
            allow_test_changes: table.allow_test_changes.unwrap_or(default.allow_test_changes),
            allow_check_changes: table.allow_check_changes.unwrap_or(default.allow_check_changes),
        })
    }

    fn number(
        &self,
        value: Option<Spanned<u64>>,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, PolicyError> {
        match value {
            None => Ok(default),
            Some(value) if range.contains(value.get_ref()) => Ok(value.into_inner()),
            Some(value) => {
                let message =
                    format!("{} is not between {} and {}", value.get_ref(), range.start(), range.end());
                self.refuse(&value, message)
            }
        }
    }

    fn names(&self, names: Spanned<Vec<String>>, what: &str) -> Result<Vec<String>, PolicyError> {
        self.list_length(&names)?;
        for name in names.get_ref() {
            self.name(&names, name, what)?;
        }
        Ok(names.into_inner())
    }

    fn list_length(&self, list: &Spanned<Vec<String>>) -> Result<(), PolicyError> {
        match list.get_ref().len() {
            0..=MAX_LIST => Ok(()),
            length => self.refuse(list, format!("the list has {length} entries and may have {MAX_LIST}")),
        }
    }

    fn name<V>(&self, place: &Spanned<V>, name: &str, what: &str) -> Result<(), PolicyError> {
        let fits =
            !name.trim().is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control);
        if fits {
            return Ok(());
        }
        let message = format!("{what} must have 1 to {MAX_NAME_BYTES} bytes and no control character");
        self.refuse(place, message)
    }

    /// A path that stays below the repository's root by its own words.
    fn path<V>(&self, place: &Spanned<V>, path: &str) -> Result<(), PolicyError> {
        let inside = !path.starts_with('/')
            && !path.contains(['\\', '\0'])
            && path.split('/').all(|part| part != "..")
            && path.len() <= 1024;
        if inside {
            return Ok(());
        }
        self.refuse(place, format!("{path:?} must be a relative path with `/` and without `..`"))
    }
}

/// The library's message without the words of our language.
fn plainly(message: &str) -> String {
    message
        .replace("expected u64", "expected a whole number")
        .replace("expected a sequence", "expected a list such as [\"a\", \"b\"]")
        .replace("unknown variant", "unknown value")
        .replace("unknown field", "unknown key")
        .replace("missing field", "missing key")
        .trim_end()
        .replace('\n', "; ")
}

fn unknown_tool(given: &str) -> String {
    let names: Vec<_> = Tool::ALL.into_iter().map(Tool::name).collect();
    format!(
        "unknown tool {given:?}; use one of {}; where none fits, let it write JUnit XML (\"junit\"), TAP \
         (\"tap\") or SARIF (\"sarif\")",
        names.join(", ")
    )
}
