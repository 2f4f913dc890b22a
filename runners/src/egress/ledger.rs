//! What passed a window and what was refused, line by line, for the journal and for people.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobs::step::EgressLine;

/// The most lines that one window keeps; a client that loops on a refusal must not fill memory.
const MAX_LINES: usize = 10_000;
/// The bytes of a path that a line keeps.
const MAX_PATH: usize = 300;

/// The lines of one window.
#[derive(Debug, Default)]
pub struct Ledger {
    asked_by: Mutex<String>,
    lines: Mutex<Vec<EgressLine>>,
}

impl Ledger {
    /// Names the command on whose behalf entries are made from now on.
    pub fn asked_by(&self, command: &str) {
        *hold(&self.asked_by) = command.to_owned();
    }

    pub fn lines(&self) -> Vec<EgressLine> {
        hold(&self.lines).clone()
    }

    /// An entry for something asked of `host`; empty, with port 0, where no host was understood.
    pub fn entry(self: &Arc<Self>, host: &str, port: u16) -> Entry {
        let line = EgressLine {
            host: host.to_owned(),
            port,
            refused: None,
            bytes_up: 0,
            bytes_down: 0,
            asked_by: hold(&self.asked_by).clone(),
            path: None,
            digest: None,
            cached: false,
        };
        Entry { ledger: Arc::clone(self), line }
    }
}

/// A line that is written when this value goes, also when sealing cuts what it tells of.
#[derive(Debug)]
pub struct Entry {
    ledger: Arc<Ledger>,
    pub line: EgressLine,
}

impl Entry {
    /// Notes what was asked for, cut to a length that a page can show.
    pub fn path(&mut self, path: &str) {
        self.line.path = Some(path.chars().take(MAX_PATH).collect());
    }

    pub fn refused(&mut self, why: impl Into<String>) {
        self.line.refused = Some(why.into());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut lines = hold(&self.ledger.lines);
        if lines.len() < MAX_LINES {
            lines.push(self.line.clone());
        }
    }
}

/// A panic elsewhere does not make the ledger unreadable.
pub fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
