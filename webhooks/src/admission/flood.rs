//! How many commands one account may give on one repository, with one polite answer to the rest.

use std::collections::HashMap;
use std::sync::Mutex;

use jobs::clock::Millis;
use jobs::forge::{Account, Repository};

/// Comments with commands that one account may send to one repository in one window.
const MOST: u32 = 10;
/// Ten minutes.
const WINDOW: Millis = 600_000;
/// Accounts that are remembered; past it, those whose window is over are forgotten.
const MOST_REMEMBERED: usize = 10_000;

/// Whether a command is heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Heard,
    /// Too many: this one is answered with a polite word.
    First,
    /// Too many, and that was said already.
    More,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Millis,
    count: u32,
}

/// Counts commands per account and repository, on this node.
#[derive(Debug, Default)]
pub(super) struct Flood(Mutex<HashMap<(String, i64), Window>>);

impl Flood {
    /// Counts one more.
    pub(super) fn count(&self, repository: &Repository, account: &Account, now: Millis) -> Flow {
        let key = (format!("{} {repository}", repository.forge.name()), account.id);
        // A panic elsewhere cannot leave a half-changed count, so a poisoned lock is as good.
        let mut windows = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if windows.len() >= MOST_REMEMBERED {
            windows.retain(|_, window| now - window.since < WINDOW);
        }
        let window = windows.entry(key).or_insert(Window { since: now, count: 0 });
        if now - window.since >= WINDOW {
            *window = Window { since: now, count: 0 };
        }
        window.count = window.count.saturating_add(1);
        match window.count {
            ..=MOST => Flow::Heard,
            count if count == MOST + 1 => Flow::First,
            _ => Flow::More,
        }
    }
}

#[cfg(test)]
mod tests {
    use jobs::forge::ForgeKind;

    use super::*;

    fn repository(name: &str) -> Repository {
        Repository { forge: ForgeKind::Local, owner: "acme".into(), name: name.into(), installation: 0 }
    }

    fn account(id: i64) -> Account {
        Account { id, login: "ada".into() }
    }

    #[test]
    fn c10_a_flood_is_answered_once_and_others_are_heard() {
        let flood = Flood::default();
        let (anvil, ada) = (repository("anvil"), account(1));
        let flows: Vec<Flow> = (0..14).map(|_| flood.count(&anvil, &ada, 0)).collect();
        assert_eq!(flows[..10], [Flow::Heard; 10]);
        assert_eq!(flows[10..], [Flow::First, Flow::More, Flow::More, Flow::More]);
        assert_eq!(flood.count(&anvil, &account(2), 0), Flow::Heard);
        assert_eq!(flood.count(&repository("bellows"), &ada, 0), Flow::Heard);
        assert_eq!(flood.count(&anvil, &ada, WINDOW - 1), Flow::More);
        assert_eq!(flood.count(&anvil, &ada, WINDOW), Flow::Heard);
    }
}
