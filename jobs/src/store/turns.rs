//! Whose turn it is: a repository and a person are each entitled to a run in so much time.
//!
//! A run's turn is the moment it is asked for, but no sooner than a run's length after the turns of the
//! repository's and the person's own runs that are not ended yet. So whoever asks for many waits behind
//! themselves, and one who comes new goes before most of those. And since no later run has an earlier turn
//! than its own moment, nobody is put off for good, however many come. What no person waits for stands back.

use crate::clock::Millis;
use crate::forge::Role;
use crate::job::JobSpec;

use super::db::Tx;
use super::error::StoreError;
use super::row::plain;

/// The length of a run, as far as turns go: a run that builds and tests takes some minutes.
const LENGTH: Millis = 600_000;
/// How far a run stands back that no person asked for.
const STANDS_BACK: Millis = 2 * LENGTH;

/// A new run's place among those that wait.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub repository: String,
    pub actor: String,
    /// What the next runs of the same repository and person come after.
    pub turn: Millis,
    /// The order in which runs are claimed.
    pub place: Millis,
}

/// The next turn of the job's repository and person. On PostgreSQL two that are accepted at once may
/// share one, which is a run's length of unfairness.
pub(super) async fn next(tx: &mut Tx, spec: &JobSpec, now: Millis) -> Result<Turn, StoreError> {
    const OF_REPOSITORY: &str =
        "SELECT MAX(turn) FROM runs WHERE repository = $1 AND state IN ('queued', 'running')";
    const OF_ACTOR: &str = "SELECT MAX(turn) FROM runs WHERE actor = $1 AND state IN ('queued', 'running')";
    let (repository, actor) = (repository(spec), actor(spec));
    let of_repository = fetch_optional!(tx, (Option<i64>,), OF_REPOSITORY, repository.as_str())?;
    let of_actor = fetch_optional!(tx, (Option<i64>,), OF_ACTOR, actor.as_str())?;
    let others = [of_repository, of_actor].into_iter().flatten().filter_map(|(last,)| last).max();
    let turn = others.map_or(now, |last| now.max(last.saturating_add(LENGTH)));
    // An app has no role of its own: its runs are asked for by the base branch's policy.
    let back = if spec.request.role == Role::None { STANDS_BACK } else { 0 };
    Ok(Turn { repository, actor, turn, place: turn.saturating_add(back) })
}

/// The repository as rows name it.
pub(super) fn repository(spec: &JobSpec) -> String {
    plain(&format!("{} {}", spec.repository.forge.name(), spec.repository))
}

/// Who asked, as rows name them: by the id, since logins change hands.
pub(super) fn actor(spec: &JobSpec) -> String {
    format!("{} {}", spec.repository.forge.name(), spec.request.actor.id)
}
