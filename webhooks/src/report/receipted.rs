//! Receipts of what a person decided and of what was pushed, after the run's seal.

use jobs::authorization::Authorization;
use jobs::forge::{Account, ForgeKind};
use jobs::id::CommitId;
use jobs::store::receipts::{self as rows, NewReceipt, ReceiptKind};
use jobs::store::{RunView, Signed, StoreError};
use receipts::{Authorize, Push, Timestamp};

use super::{Context, Trouble};
use crate::forge::Branch;
use crate::offer::Offer;

/// How often a place in the chain may be taken by another before it is tried later.
const MOST_RACES: u32 = 5;

/// Has a receipt of the authorization; gives its digest. One that exists is kept.
pub(super) async fn authorize(
    cx: &Context,
    view: &RunView,
    yes: &Authorization,
    offer: &Offer,
) -> Result<[u8; 32], Trouble> {
    append(
        cx,
        view,
        ReceiptKind::Authorize,
        |kept| names(kept, "origin", &yes.origin),
        |signer| {
            let actor = actor(view.job().repository.forge, &yes.actor);
            receipts::authorize(
                signer,
                &Authorize {
                    run: *view.run.id.chain().as_bytes(),
                    seal: *offer.seal.as_bytes(),
                    actor: &actor,
                    role: yes.role.name(),
                    reason: "authorized the verified patch",
                    origin: &yes.origin,
                    issued_at: Timestamp::from_unix(yes.created_at.div_euclid(1000)),
                    diff: *yes.patch.as_bytes(),
                    head_commit: yes.head.as_str(),
                },
            )
        },
    )
    .await
}

/// Has a receipt of the push that followed the authorization whose receipt has this digest.
pub(super) async fn pushed(
    cx: &Context,
    view: &RunView,
    yes: &Authorization,
    authorization: [u8; 32],
    made: Made<'_>,
) -> Result<(), Trouble> {
    let reference = format!("refs/heads/{}", made.branch.name);
    let commit = made.commit.as_str();
    let same = |kept: &Signed| {
        names(kept, "commit", &format!("sha1:{commit}")) || names(kept, "commit", &format!("sha256:{commit}"))
    };
    append(cx, view, ReceiptKind::Push, same, |signer| {
        let actor = actor(view.job().repository.forge, &yes.actor);
        receipts::push(
            signer,
            &Push {
                run: *view.run.id.chain().as_bytes(),
                authorization,
                actor: &actor,
                reason: &format!("pushed to {} of {}", made.branch.name, made.branch.repository),
                issued_at: Timestamp::from_unix(cx.clock.now().div_euclid(1000)),
                reference: &reference,
                commit,
                tree: made.offer.tree.as_str(),
            },
        )
    })
    .await
    .map(drop)
}

/// What a push made.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    pub branch: &'a Branch,
    pub commit: &'a CommitId,
    pub offer: &'a Offer,
}

async fn append(
    cx: &Context,
    view: &RunView,
    kind: ReceiptKind,
    same: impl Fn(&Signed) -> bool,
    sign: impl Fn(&receipts::Signer) -> Result<receipts::Signed, receipts::WriteError>,
) -> Result<[u8; 32], Trouble> {
    let run = &view.run.id;
    for _ in 0..MOST_RACES {
        let chain = rows::list(&cx.db, run).await?;
        if let Some(kept) = chain.iter().find(|kept| kept.kind == kind && same(&kept.signed)) {
            return Ok(*kept.signed.digest().as_bytes());
        }
        let signed = sign(&cx.signer).map_err(|error| Trouble::Never(error.to_string()))?;
        let digest = signed.digest();
        let signed = Signed { bytes: signed.bytes, signature: signed.signature };
        let place = u32::try_from(chain.len()).map_err(|error| Trouble::Never(error.to_string()))?;
        let receipt = NewReceipt { kind, signed, diff: None };
        match rows::append_after_seal(&cx.db, run, place, &receipt, cx.clock.now()).await {
            Ok(()) => return Ok(digest),
            Err(StoreError::LeaseLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Trouble::Later {
        why: format!("the receipts of run {run} are being written by others"),
        wait: std::time::Duration::ZERO,
    })
}

/// Whether a receipt that this service wrote has this text member.
fn names(kept: &Signed, member: &str, text: &str) -> bool {
    let read = serde_json::from_slice::<serde_json::Value>(&kept.bytes);
    read.is_ok_and(|read| read[member].as_str() == Some(text))
}

/// An account as receipts name it: by its id, since logins change hands.
fn actor(forge: ForgeKind, account: &Account) -> String {
    format!("{}:user/{}", forge.name(), account.id)
}
