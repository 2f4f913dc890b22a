//! Who goes on: one at a time, drawn by the seed's dice.

use std::sync::{Mutex, MutexGuard};

use e2e::dice::Dice;
use tokio::sync::oneshot;

/// The turns of one story.
pub struct Turns(Mutex<Inner>);

struct Inner {
    dice: Dice,
    waiting: Vec<(usize, oneshot::Sender<()>)>,
    /// Somebody has the turn.
    taken: bool,
}

impl Turns {
    pub fn of(seed: u64) -> Self {
        let dice = Dice::of(seed ^ 0x7475_726e_7321);
        Self(Mutex::new(Inner { dice, waiting: Vec::new(), taken: false }))
    }

    /// Waits for a first turn; somebody who has one will give it on.
    pub async fn enter(&self, who: usize) {
        let mine = {
            let mut inner = self.lock();
            let (turn, mine) = oneshot::channel();
            inner.waiting.push((who, turn));
            if !inner.taken {
                inner.give();
            }
            mine
        };
        mine.await.expect("turns outlast their takers");
    }

    /// Gives the turn on, and waits for the next.
    pub async fn next(&self, who: usize) {
        let mine = {
            let mut inner = self.lock();
            let (turn, mine) = oneshot::channel();
            inner.waiting.push((who, turn));
            inner.give();
            mine
        };
        mine.await.expect("turns outlast their takers");
    }

    /// Gives the turn on for good.
    pub fn leave(&self) {
        self.lock().give();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

impl Inner {
    fn give(&mut self) {
        self.taken = false;
        self.waiting.sort_by_key(|(who, _)| *who);
        if self.waiting.is_empty() {
            return;
        }
        let drawn = self.dice.roll(self.waiting.len() as u64) as usize;
        let (_, turn) = self.waiting.remove(drawn);
        self.taken = true;
        turn.send(()).expect("who waits for a turn takes it");
    }
}
