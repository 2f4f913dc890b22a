//! Receipts per second with everything checked, held against the bare curve, against another tool's
//! verifying of the same statements, and against the command line.
//!
//! Everything is measured in one run and in turns, since figures of two runs on a busy machine say nothing
//! of each other; that is why no benchmark harness is used. What is missing is said and left out.
#![allow(clippy::unwrap_used)]
#![expect(clippy::print_stdout, reason = "what it is for is printing")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ed25519_dalek::{Signature, VerifyingKey};
use receipts::report::{Files, Request, verify};
use receipts::{Apply, Open, RunChain, Seal, SealOutcome, Signed, Signer, Timestamp, bundle};

const COUNT: usize = 1000;
const ROUNDS: usize = 25;
const DIFF: &[u8] = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n";

/// A sealed chain of `COUNT` receipts.
fn chain(signer: &Signer) -> Vec<Signed> {
    let at = Timestamp::from_unix(1_790_000_000);
    let tree = "0a".repeat(20);
    let open = Open {
        run: [1; 32],
        actor: "github:user/1",
        reason: "asked by a comment",
        as_of: at,
        issued_at: at,
        job: [2; 32],
        base: &tree,
    };
    let (mut chain, open) = RunChain::open(signer, &open).unwrap();
    let apply = Apply {
        actor: "agent:fixers/1",
        reason: "applied what the compiler suggested",
        as_of: at,
        issued_at: at,
        diff: DIFF,
        journal_ref: [3; 32],
        tree_before: &tree,
        tree_after: &tree,
    };
    let mut receipts = vec![open];
    receipts.extend((2..COUNT).map(|_| chain.apply(signer, &apply).unwrap()));
    let seal = Seal {
        actor: "whipstitch:runner",
        reason: "all checks passed",
        as_of: at,
        issued_at: at,
        tree_after: &tree,
        journal_head: [4; 32],
        outcome: SealOutcome::Succeeded,
    };
    receipts.push(chain.seal(signer, &seal).unwrap());
    receipts
}

/// The chain's bundle: names and bytes.
fn files(receipts: &[Signed]) -> BTreeMap<String, Vec<u8>> {
    let diffs = (1..COUNT - 1).map(|seq| (format!("{seq:04}.diff"), DIFF.to_vec()));
    diffs.chain([(bundle::RECEIPTS.to_owned(), bundle::write(receipts))]).collect()
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn per_second(time: Duration) -> f64 {
    COUNT as f64 / time.as_secs_f64()
}

fn main() {
    let signer = Signer::from_seed(&[7; 32]);
    let receipts = chain(&signer);
    let raw = signer.public_key();
    let key = VerifyingKey::from_bytes(&raw).unwrap();
    let (in_memory, folder) = (Files::Memory(files(&receipts)), tempfile::tempdir().unwrap());
    for (name, bytes) in files(&receipts) {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let executable = executable();
    let (mut full, mut bare, mut library, mut command) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        full.push(timed(|| assert_eq!(verify(&in_memory, &raw, &Request::default()).exit_code, 0)));
        bare.push(timed(|| {
            for one in &receipts {
                key.verify_strict(&one.bytes, &Signature::from_bytes(&one.signature)).unwrap();
            }
        }));
        library.push(timed(|| {
            assert_eq!(verify(&Files::at(folder.path()), &raw, &Request::default()).exit_code, 0);
        }));
        if let Some(executable) = &executable {
            command.push(timed(|| run(executable, folder.path(), &raw)));
        }
    }
    let (full, bare) = (median(full), median(bare));
    println!("one thread, {COUNT} receipts, medians of {ROUNDS} rounds in turns");
    println!("full check            {:>8.0} receipts/s", per_second(full));
    let ratio = full.as_secs_f64() / bare.as_secs_f64();
    println!(
        "bare verify_strict    {:>8.0} receipts/s   the full check takes {ratio:.2} times as long (aim: 1.3)",
        per_second(bare)
    );
    sigstore(per_second(full));
    match command.is_empty() {
        true => println!("whipstitch verify     skipped: build it beside this bench, cargo build --release"),
        false => {
            let (command, library) = (median(command), median(library));
            println!(
                "whipstitch verify     {:>8.1} ms; the library on the same folder {:.1} ms: {:.2} times (aim: 1.5)",
                command.as_secs_f64() * 1000.0,
                library.as_secs_f64() * 1000.0,
                command.as_secs_f64() / library.as_secs_f64()
            );
        }
    }
}

/// The command line that stands in the same target folder.
fn executable() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    Some(own.parent()?.parent()?.join("whipstitch")).filter(|file| file.is_file())
}

fn run(executable: &Path, folder: &Path, key: &[u8; 32]) {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new(executable).arg("verify").arg(folder).args(["--key", &key]).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"VALID_CHAIN "), "{output:?}");
}

/// The rate of npm's `@sigstore/verify` on the DSSE exports, one core, from the envelope's text on.
fn sigstore(ours: f64) {
    let said = std::env::var("WHIPSTITCH_PEERS").ok().and_then(|folder| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/web/peers/verify_sigstore.mjs");
        let output = Command::new("node").arg(script).arg(Path::new(&folder).join("node")).output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    let rate = said.as_deref().and_then(|said| {
        let line = said.lines().find(|line| line.ends_with(" exports per second"))?;
        line.split(' ').next()?.parse::<f64>().ok()
    });
    match rate {
        Some(rate) => println!(
            "npm @sigstore/verify  {rate:>8.0} exports/s    the full check does {:.1} times as many (aim: 4)",
            ours / rate
        ),
        None => println!(
            "npm @sigstore/verify  skipped: receipts/web/peers/install FOLDER, then set WHIPSTITCH_PEERS to it"
        ),
    }
}
