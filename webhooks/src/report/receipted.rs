//! Receipts of what a person decided and of what was pushed, after the run's seal. The run's bundle has them
//! before anyone is told.

use std::io::Write as _;
use std::path::Path;

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
        |signer, latest| {
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
                    issued_at: Timestamp::from_unix(yes.created_at.div_euclid(1000)).max(latest),
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
    append(cx, view, ReceiptKind::Push, same, |signer, latest| {
        let actor = actor(view.job().repository.forge, &yes.actor);
        receipts::push(
            signer,
            &Push {
                run: *view.run.id.chain().as_bytes(),
                authorization,
                actor: &actor,
                reason: &format!("pushed to {} of {}", made.branch.name, made.branch.repository),
                issued_at: Timestamp::from_unix(cx.clock.now().div_euclid(1000)).max(latest),
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
    sign: impl Fn(&receipts::Signer, Timestamp) -> Result<receipts::Signed, receipts::WriteError>,
) -> Result<[u8; 32], Trouble> {
    let run = &view.run.id;
    for _ in 0..MOST_RACES {
        let chain = rows::list(&cx.db, run).await?;
        if let Some(kept) = chain.iter().find(|kept| kept.kind == kind && same(&kept.signed)) {
            // It may be that only its row was written before.
            give_out(cx, view).await?;
            return Ok(*kept.signed.digest().as_bytes());
        }
        let signed = sign(&cx.signer, latest(&chain)).map_err(|error| Trouble::Never(error.to_string()))?;
        let digest = signed.digest();
        let signed = Signed { bytes: signed.bytes, signature: signed.signature };
        let place = u32::try_from(chain.len()).map_err(|error| Trouble::Never(error.to_string()))?;
        let receipt = NewReceipt { kind, signed, diff: None };
        match rows::append_after_seal(&cx.db, run, place, &receipt, cx.clock.now()).await {
            Ok(()) => {
                give_out(cx, view).await?;
                return Ok(digest);
            }
            Err(StoreError::LeaseLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Trouble::Later {
        why: format!("the receipts of run {run} are being written by others"),
        wait: std::time::Duration::ZERO,
    })
}

/// Puts every decision of the run into its bundle, where this node has that.
async fn give_out(cx: &Context, view: &RunView) -> Result<(), Trouble> {
    let run = &view.run.id;
    let folder = cx.bundles.join(run.as_str());
    let mut written = None;
    // Another sender may have put fewer of them there last, so what was written is held against the rows.
    for _ in 0..MOST_RACES {
        let decisions: Vec<receipts::Signed> = rows::list(&cx.db, run)
            .await?
            .into_iter()
            .filter(|receipt| matches!(receipt.kind, ReceiptKind::Authorize | ReceiptKind::Push))
            .map(|receipt| receipts::Signed {
                bytes: receipt.signed.bytes,
                signature: receipt.signed.signature,
            })
            .collect();
        if written.as_ref() == Some(&decisions.len()) || !folder.is_dir() {
            return Ok(());
        }
        written = Some(decisions.len());
        let (folder, lines) = (folder.clone(), receipts::bundle::write(&decisions));
        let put = tokio::task::spawn_blocking(move || replace(&folder, &lines)).await;
        put.map_err(std::io::Error::other).flatten().map_err(|error| Trouble::Later {
            why: format!("the bundle of run {run} cannot be completed: {error}"),
            wait: std::time::Duration::ZERO,
        })?;
    }
    Ok(())
}

/// Puts the file of decisions into a bundle, whole or not at all.
fn replace(bundle: &Path, lines: &[u8]) -> std::io::Result<()> {
    let parent = bundle.parent().unwrap_or(Path::new("."));
    let fresh = parent.join(format!(".decisions-{}", uuid::Uuid::new_v4().simple()));
    let write = || {
        let mut file = std::fs::File::create_new(&fresh)?;
        file.write_all(lines)?;
        file.sync_all()?;
        std::fs::rename(&fresh, bundle.join(receipts::bundle::AUTHORIZATIONS))?;
        std::fs::File::open(bundle)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        // The fresh file is of no use to anyone; that it may stay is no further harm.
        let _ = std::fs::remove_file(&fresh);
    }
    written
}

/// The key that signed a run's seal, as receipts name it: after a rotation it is not the one that signs now.
pub fn key_id(view: &RunView) -> Option<String> {
    let seal = view.receipts.iter().rev().find(|receipt| receipt.kind == ReceiptKind::Seal)?;
    member(&seal.signed, "key_id")
}

/// When the last of these receipts was issued: the clocks of two nodes differ, and no receipt is older than
/// the one that it follows.
fn latest(chain: &[rows::Receipt]) -> Timestamp {
    let issued = |kept: &rows::Receipt| Timestamp::parse(&member(&kept.signed, "issued_at")?);
    chain.iter().filter_map(issued).max().unwrap_or(Timestamp::from_unix(0))
}

/// Whether a receipt that this service wrote has this text member.
fn names(kept: &Signed, name: &str, text: &str) -> bool {
    member(kept, name).as_deref() == Some(text)
}

fn member(kept: &Signed, name: &str) -> Option<String> {
    let read = serde_json::from_slice::<serde_json::Value>(&kept.bytes).ok()?;
    read[name].as_str().map(str::to_owned)
}

/// An account as receipts name it: by its id, since logins change hands.
fn actor(forge: ForgeKind, account: &Account) -> String {
    format!("{}:user/{}", forge.name(), account.id)
}
