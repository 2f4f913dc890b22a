//! The whole engine under a virtual clock and faults: admission, runs, launches, outbox and pushes on several
//! nodes over one database, with nodes that die at every point, connections that break, forges that answer
//! late or never, clocks that disagree, and deliveries that come twice.
//!
//! One seed is one story. Nodes take turns: before each transaction the next one is drawn, and only one goes
//! on at a time, so that a seed's faults and their order are its own. Outside of the turns is the heartbeat
//! alone, which a node's run keeps on the side. What is simulated is the forge and the container; all else
//! is the code that serves.
//!
//! `WHIPSTITCH_SIMULATION_SEEDS` asks for more seeds, `WHIPSTITCH_SIMULATION_FIRST` for other ones.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod forge;
mod held;
mod node;
mod people;
mod sandbox;
mod turns;
mod world;

use std::collections::BTreeMap;

use held::Tally;
use world::{Ground, play};

/// Five for each point at which a node may die.
const ENOUGH: u64 = 5 * world::POINTS.len() as u64;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Plays seeds on as many threads as there are processors; what they came to.
fn play_all(first: u64, count: u64) -> Tally {
    let ground = Ground::new();
    let next = std::sync::atomic::AtomicU64::new(first);
    let tally = std::sync::Mutex::new(Tally::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let of_seed = play(&ground, seed);
                    tally.lock().unwrap().add(of_seed);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

#[test]
fn whatever_fails_each_run_ends_once_and_nothing_is_launched_or_pushed_twice() {
    let count = number("WHIPSTITCH_SIMULATION_SEEDS", ENOUGH);
    let tally = play_all(number("WHIPSTITCH_SIMULATION_FIRST", 1), count);
    eprintln!("{tally:#?}");
    if count < ENOUGH {
        return;
    }
    // A simulation in which nothing happens proves nothing.
    for outcome in ["succeeded", "failed", "halted"] {
        assert!(tally.outcomes.get(outcome).copied().unwrap_or(0) > 0, "no run {outcome}: {tally:#?}");
    }
    assert!(tally.pushes > count / 10, "{tally:#?}");
    assert!(tally.uncertain > 0 && tally.taken_over > 0 && tally.verified_in_js > 0, "{tally:#?}");
    let missed: Vec<_> =
        world::POINTS.iter().filter(|&&point| tally.crashes.get(point).copied().unwrap_or(0) == 0).collect();
    assert!(missed.is_empty(), "no node ever died at {missed:?}: {tally:#?}");
    let broken: BTreeMap<_, _> = tally.breaks.iter().filter(|(point, _)| point.contains("commit")).collect();
    assert!(broken.len() >= 2, "connections break before and after a commit: {broken:?}");
}
