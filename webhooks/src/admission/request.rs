//! All that the decision on a run needs, asked of the forge at this moment.

use jobs::forge::{Role, Subject};

use super::base::BaseError;
use super::commands::{Done, is_unfinished, latest};
use super::work::{Context, Trouble, asked};
use super::{Admission, Asked, Found, Place, Trigger, admit};
use crate::forge::Forge;

/// Asks the forge for all that the decision needs, and decides.
pub(super) async fn request(cx: &Context, wanted: Asked) -> Result<Done, Trouble> {
    Ok(match find(cx, &wanted).await? {
        Ok(found) => match admit(&wanted, found) {
            Admission::Admit { spec, semantic_key } => Done::Admitted { spec, semantic_key },
            Admission::Refuse(refused) => Done::Refused { why: refused.to_string() },
        },
        Err(done) => done,
    })
}

/// Gives the value of a forge's answer, or returns why it is a no.
macro_rules! known {
    ($answer:expr) => {
        match asked($answer)? {
            Ok(value) => value,
            Err(why) => return Ok(Err(Done::Refused { why })),
        }
    };
}

async fn find(cx: &Context, wanted: &Asked) -> Result<Result<Found, Done>, Trouble> {
    let repository = &wanted.repository;
    let forge = known!(cx.forges.of(repository));
    let place = match place(forge, wanted).await? {
        Ok(place) => place,
        Err(done) => return Ok(Err(done)),
    };
    let base = match &place {
        Place::PullRequest(pull_request) => &pull_request.base,
        Place::Issue { head, .. } => head,
    };
    let base = match cx.policies().load(forge, repository, base).await {
        Ok(base) => base,
        Err(BaseError::Forge(error)) => known!(Err(error)),
        Err(BaseError::Policy(fault)) => {
            let head = place.head().clone();
            return Ok(Err(Done::PolicyFault { head, fault }));
        }
    };
    if let Trigger::Label(label) = &wanted.trigger
        && !base.policy.triggers.labels.iter().any(|listed| listed.eq_ignore_ascii_case(label))
    {
        return Ok(Err(Done::Handled { what: "no label that starts a run".to_owned(), answer: None }));
    }
    let role = match wanted.app {
        Some(_) => Role::None,
        None => known!(forge.permission(repository, &wanted.actor).await),
    };
    let tree = known!(forge.commit(repository, place.head()).await).tree;
    let mut unfinished = latest(cx, repository, &wanted.subject).await?;
    unfinished.retain(is_unfinished);
    Ok(Ok(Found {
        role,
        place,
        tree,
        policy: base.policy.within(&cx.caps),
        checks: base.checks,
        agent: cx.agent.clone(),
        unfinished,
    }))
}

async fn place(forge: &dyn Forge, wanted: &Asked) -> Result<Result<Place, Done>, Trouble> {
    let repository = &wanted.repository;
    match &wanted.subject {
        Subject::PullRequest { number } => {
            Ok(Ok(Place::PullRequest(known!(forge.pull_request(repository, *number).await))))
        }
        Subject::Issue { number } => {
            let issue = known!(forge.issue(repository, *number).await);
            let (branch, head) = known!(forge.default_branch(repository).await);
            Ok(Ok(Place::Issue { state: issue.state, branch: branch.name, head }))
        }
        Subject::Checkout => Ok(Err(Done::Refused { why: "a checkout is on no forge".to_owned() })),
    }
}
