//! Bytes per second of each reader, and a patch of 79 files in process against `git apply`.
//!
//! Readers of consoles and of lines get real output of their tool, repeated; readers of whole documents get
//! a document of as many entries. `git apply` runs beside ours, on the same files and disk.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a benchmark stops at what it cannot read")]

use std::fs;
use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jobs::check::{Check, Tool};
use runners::edit::{Target, apply_patch, commit_changeset};
use runners::reports::{RawOutput, read};

mod documents;
mod repository;

use repository::Repository;

/// A reader is given about so many bytes.
const BYTES: usize = 1 << 20;
/// Files that the patch changes.
const FILES: usize = 79;

/// Real output that is read line by line.
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
    let consoles = CASES.iter().map(|&(case, tool)| (case.to_owned(), tool, long(&corpus.join(case))));
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for (name, tool, raw) in consoles.chain(documents::all(BYTES)) {
        let check = Check::new("check", tool, &["true"]);
        let files: usize = raw.files.iter().map(|(_, bytes)| bytes.len()).sum();
        group.throughput(Throughput::Bytes((raw.stdout.len() + raw.stderr.len() + files) as u64));
        group.bench_function(name, |bencher| bencher.iter(|| read(&check, &raw)));
    }
    group.finish();
}

fn appliers(criterion: &mut Criterion) {
    let repository = Repository::new(FILES);
    let mut group = criterion.benchmark_group(format!("apply {FILES} files"));
    group.sample_size(20);
    group.bench_function("in process, to a tree in memory", |bencher| {
        bencher.iter(|| apply_patch(&repository.patch, &repository.before).unwrap());
    });
    group.bench_function("in process, to files laid out anew", |bencher| {
        bencher.iter_batched_ref(
            || tempfile::tempdir().unwrap(),
            |folder| {
                let applied = apply_patch(&repository.patch, &repository.before).unwrap();
                runners::workspace::materialize(&applied.tree, &folder.path().join("after"), None).unwrap()
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("in process, to files in place, journalled and synced", |bencher| {
        bencher.iter_batched_ref(
            || repository.lay_out(),
            |folder| {
                let applied = apply_patch(&repository.patch, &repository.before).unwrap();
                let (root, staging) = (folder.path().join("work"), folder.path().join("staging"));
                let target = Target { root: &root, staging: &staging, owner: None };
                commit_changeset(&target, &applied.changeset).unwrap();
            },
            BatchSize::PerIteration,
        );
    });
    if repository::has_git() {
        group.bench_function("git apply, to files in place", |bencher| {
            bencher.iter_batched_ref(
                || repository.lay_out(),
                |folder| repository.git_apply(&folder.path().join("work"), &[]),
                BatchSize::PerIteration,
            );
        });
        group.bench_function("git apply --check, to nothing", |bencher| {
            let folder = repository.lay_out();
            bencher.iter(|| repository.git_apply(&folder.path().join("work"), &["--check"]));
        });
    } else {
        eprintln!("skipped: git cannot be started");
    }
    group.finish();
}

criterion_group!(benches, readers, appliers);
criterion_main!(benches);
