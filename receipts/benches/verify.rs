//! Receipts per second with everything checked, beside the bare curve.
#![allow(clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use receipts::{Apply, Expected, Open, PublicKey, RunChain, Signed, Signer, Timestamp, verify_chain};

const COUNT: usize = 1000;
const DIFF: &[u8] = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n";

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
    receipts.extend((1..COUNT).map(|_| chain.apply(signer, &apply).unwrap()));
    receipts
}

fn verify(criterion: &mut Criterion) {
    let signer = Signer::from_seed(&[7; 32]);
    let receipts = chain(&signer);
    let raw = signer.public_key();
    let key = PublicKey::from_raw(&raw).unwrap();
    let mut group = criterion.benchmark_group("receipts");
    group.throughput(Throughput::Elements(COUNT as u64)).sample_size(10);
    group.bench_function("full check", |bencher| {
        bencher.iter(|| verify_chain(&receipts, |_| Some(DIFF), &raw, Expected::default()));
    });
    group.bench_function("signatures alone", |bencher| {
        bencher.iter(|| receipts.iter().all(|one| key.verifies(&one.bytes, &one.signature)));
    });
    group.finish();
}

criterion_group!(benches, verify);
criterion_main!(benches);
