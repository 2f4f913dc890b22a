//! `doctor --probe`: the conformance suite in each backend that is present, as a table.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use jobs::clock::{Clock as _, SystemClock};
use jobs::id::RunId;
use runners::sandbox::conformance::{Column, as_other_user, examine};
use runners::sandbox::{Embedded, Sandbox as _};

use crate::commands::print;

/// The most characters of evidence in the table.
const EVIDENCE: usize = 90;

/// Runs the suite and prints what it found; the exit code says whether everything is contained.
pub async fn run(sandbox: &Embedded, json: bool) -> anyhow::Result<ExitCode> {
    let columns = columns(sandbox).await?;
    match json {
        true => print(&format!("{}\n", serde_json::to_string(&columns)?)),
        false => print(&page(&columns)),
    }
    let contained = columns.iter().all(|column| column.failures().next().is_none());
    Ok(if contained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One column for each backend and user. Root also sees what the sandbox is for a user without rights.
async fn columns(sandbox: &Embedded) -> anyhow::Result<Vec<Column>> {
    let program = std::env::current_exe().context("cannot find this executable")?;
    let run = RunId::fresh(SystemClock.now());
    let mut columns = vec![examine(sandbox, &program, &run).await?];
    if let Some(owner) = sandbox.owner() {
        columns.extend(unprivileged(&program, owner).await?);
    }
    Ok(columns)
}

async fn unprivileged(program: &Path, owner: (u32, u32)) -> anyhow::Result<Vec<Column>> {
    let said = as_other_user(program, &["doctor", "--probe", "--json"], owner).await?;
    serde_json::from_slice(&said).context("the suite as another user printed no table")
}

fn page(columns: &[Column]) -> String {
    let mut text = String::new();
    for (number, column) in columns.iter().enumerate() {
        text.push_str(&format!("[{}] {}\n", number + 1, column.title()));
    }
    let heads: String = (1..=columns.len()).map(|number| format!("{:<11}", format!("[{number}]"))).collect();
    text.push_str(&format!("\n{:<11} {:<26} {}\n", "group", "probe", heads.trim_end()));
    for row in rows(columns) {
        let words: String = row.words.iter().map(|word| format!("{word:<11}")).collect();
        let line = format!("{:<11} {:<26} {words}{}", row.group, row.name, row.note);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    for (number, column) in columns.iter().enumerate() {
        text.push_str(&format!("[{}] {}\n", number + 1, summary(column)));
    }
    text
}

/// One probe across all columns.
struct Row<'a> {
    group: &'a str,
    name: &'a str,
    words: Vec<&'static str>,
    /// The rule that does not hold, with what was seen.
    note: String,
}

fn rows(columns: &[Column]) -> Vec<Row<'_>> {
    let Some(first) = columns.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for probe in &first.found {
        let of = |column: &Column| column.found.iter().find(|one| one.name == probe.name).cloned();
        let found: Vec<_> = columns.iter().map(of).collect();
        let words = found.iter().map(|one| one.as_ref().map_or("-", |one| one.outcome.word())).collect();
        let told = found.iter().flatten().find(|one| one.outcome.word() != "contained");
        let note = told.map_or(String::new(), |one| shown(&one.rule, one.outcome.evidence()));
        rows.push(Row { group: &probe.group, name: &probe.name, words, note });
    }
    rows
}

fn shown(rule: &str, evidence: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let evidence: String = evidence.chars().map(plain).take(EVIDENCE).collect();
    format!("{rule}: {evidence}")
}

fn summary(column: &Column) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &column.found {
        *counts.entry(one.outcome.word()).or_default() += 1;
    }
    let counted: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    format!("{}: {} probes, {}", column.title(), column.found.len(), counted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runners::sandbox::conformance::{Found, Outcome};

    fn column(outcome: Outcome) -> Column {
        let found = Found {
            group: "network".to_owned(),
            name: "ipv4".to_owned(),
            rule: "no address of IPv4 is reached".to_owned(),
            outcome,
        };
        Column { backend: "embedded".to_owned(), user: "root".to_owned(), found: vec![found] }
    }

    #[test]
    fn a_leak_is_told_with_the_rule_that_it_breaks() {
        let columns = [
            column(Outcome::Contained("Network is unreachable".to_owned())),
            column(Outcome::Leak("1.1.1.1:443: connected".to_owned())),
        ];
        insta::assert_snapshot!(page(&columns), @r"
        [1] embedded as root
        [2] embedded as root

        group       probe                      [1]        [2]
        network     ipv4                       contained  LEAK       no address of IPv4 is reached: 1.1.1.1:443: connected

        [1] embedded as root: 1 probes, 1 contained
        [2] embedded as root: 1 probes, 1 LEAK
        ");
    }
}
