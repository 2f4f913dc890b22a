//! Bytes per second of each reader, on real output of its tool.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at what it cannot read")]

use std::fs;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jobs::check::{Check, Tool};
use runners::reports::{RawOutput, read};

/// A reader is given about so many bytes.
const BYTES: usize = 1 << 20;

const CASES: &[(&str, Tool)] = &[
    ("pytest/many_kinds_rA_v8", Tool::Pytest),
    ("cargo-test/workspace_no_fail_fast", Tool::CargoTest),
    ("nextest/many_failures_merged", Tool::CargoNextest),
    ("jest/many_kinds_verbose_v29", Tool::Jest),
    ("go-test/many_json", Tool::GoTest),
    ("go-test/many_go119_v", Tool::GoTest),
    ("surefire/many_kinds", Tool::Surefire),
    ("gradle/many_kinds", Tool::Gradle),
    ("dotnet-test/many_kinds_normal", Tool::DotnetTest),
    ("ctest/many", Tool::Ctest),
    ("pyright/errors_human", Tool::Pyright),
    ("tsc/errors_v6", Tool::Tsc),
    ("cargo-check/errors", Tool::CargoCheck),
    ("cargo-clippy/two_errors", Tool::Clippy),
    ("go-vet/findings_plain", Tool::GoVet),
    ("ruff/findings_jsonlines", Tool::Ruff),
];

/// One case's console, repeated until it is long enough.
fn long(folder: &Path) -> RawOutput {
    let repeated = |name: &str| {
        let bytes = fs::read(folder.join(name)).unwrap();
        let times = if bytes.is_empty() { 0 } else { BYTES / bytes.len() + 1 };
        bytes.repeat(times)
    };
    RawOutput {
        exit_code: Some(1),
        stdout: repeated("stdout"),
        stderr: repeated("stderr"),
        ..RawOutput::default()
    }
}

fn readers(criterion: &mut Criterion) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for &(case, tool) in CASES {
        let raw = long(&corpus.join(case));
        let check = Check::new("check", tool, &["true"]);
        group.throughput(Throughput::Bytes((raw.stdout.len() + raw.stderr.len()) as u64));
        group.bench_function(case, |bencher| bencher.iter(|| read(&check, &raw)));
    }
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
