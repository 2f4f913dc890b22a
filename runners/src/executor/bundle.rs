//! The folder that is given out for a finished run: receipts, diffs, journal and public key.
//!
//! It is made before the run's end is stored, so that no forge is ever told of a run whose bundle is not
//! complete, and it can be made again from the rows at any time.
//!
//! | file | what |
//! |---|---|
//! | `run.receipts` | every receipt with its signature, one a line |
//! | `run.journal` | every journal entry with its signature, one a line |
//! | `NNNN.receipt.json`, `NNNN.sig` | one receipt's signed bytes, and the 64 raw bytes of its signature |
//! | `NNNN.diff` | the diff that receipt `NNNN` speaks of |
//! | `NNNN.dsse.json` | the receipt as a signed in-toto statement, for tools that know those |
//! | `run.authorizations` | what people decided after the seal; whoever records a decision puts it there |
//! | `seal-report.json` | what the container could and could not do; the journal's entry `seal report` has its digest |
//! | `key.pub` | the receipts' raw public key; a verifier takes the key from elsewhere |
//!
//! After a rotation only the bundle that was made when the run ended has exports and key of the key that went;
//! a bundle that is made anew takes them over from it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use jobs::artifacts::{ArtifactError, Artifacts};
use jobs::digest::Digest;
use jobs::id::RunId;
use jobs::step::SealReport;
use jobs::store::receipts::ReceiptKind;
use jobs::store::{self, Db, StoreError, journal};
use receipts::{Code, Signed, Signer};

/// A bundle could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file or folder could not be written.
    #[error("cannot write the bundle {path}")]
    Write { path: PathBuf, source: std::io::Error },
    /// A diff is not in the artifact folder.
    #[error("a diff of the bundle is not at hand")]
    Diff(#[from] ArtifactError),
    /// The rows could not be read.
    #[error("cannot read what belongs into the bundle")]
    Store(#[from] StoreError),
    /// A stored receipt is not one, so that no statement can be made of it.
    #[error("cannot export receipt {seq}: {}", code.name())]
    Export { seq: usize, code: Code },
}

/// What a bundle is made of.
pub struct Contents<'a> {
    pub receipts: &'a [(Signed, Option<Digest>)],
    /// What people decided after the seal.
    pub decisions: &'a [Signed],
    pub journal: &'a [Signed],
    /// The run's seal report as its digest is of; `None` where nothing was sealed.
    pub seal_report: Option<Vec<u8>>,
    /// Signs the exports of the receipts that it issued.
    pub signer: &'a Signer,
    /// The bundle that was made when the run ended, which need not be there.
    pub issued: &'a Path,
}

const KEY: &str = "key.pub";

/// Where the bundle of a run stands below the data folder.
pub fn folder(data_dir: &Path, run: &RunId) -> PathBuf {
    data_dir.join("bundles").join(run.as_str())
}

/// Makes the bundle of a run in `place` anew from the rows, on whichever node. `issued` is where the bundle of
/// the run's end stands.
pub async fn from_store(
    db: &Db,
    artifacts: &Artifacts,
    signer: &Signer,
    (place, issued): (&Path, &Path),
    run: &RunId,
) -> Result<(), BundleError> {
    loop {
        let written = once_from_store(db, artifacts, signer, (place, issued), run).await?;
        // What was decided meanwhile went into the folder that this one replaced.
        if store::receipts::list(db, run).await?.len() == written {
            return Ok(());
        }
    }
}

/// Gives the number of receipts and decisions that it found.
async fn once_from_store(
    db: &Db,
    artifacts: &Artifacts,
    signer: &Signer,
    (place, issued): (&Path, &Path),
    run: &RunId,
) -> Result<usize, BundleError> {
    let (mut receipts, mut decisions) = (Vec::new(), Vec::new());
    for receipt in store::receipts::list(db, run).await? {
        let signed = super::ledger::outside(receipt.signed);
        match receipt.kind {
            ReceiptKind::Open | ReceiptKind::Apply | ReceiptKind::Seal => {
                receipts.push((signed, receipt.diff));
            }
            ReceiptKind::Authorize | ReceiptKind::Push => decisions.push(signed),
        }
    }
    let journal: Vec<_> = journal::list(db, run).await?.into_iter().map(super::ledger::outside).collect();
    let steps = store::steps::list(db, run).await?;
    let seal_report = super::ledger::seal_report(&steps).map(SealReport::to_bytes);
    let contents = Contents {
        receipts: &receipts,
        decisions: &decisions,
        journal: &journal,
        seal_report,
        signer,
        issued,
    };
    write(place, artifacts, &contents)?;
    Ok(receipts.len() + decisions.len())
}

/// Writes a whole bundle beside its place, then moves it there in place of an older one.
pub fn write(place: &Path, artifacts: &Artifacts, contents: &Contents<'_>) -> Result<(), BundleError> {
    let parent = place.parent().unwrap_or(Path::new("."));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| BundleError::Write { path, source }
    };
    std::fs::create_dir_all(parent).map_err(failed(parent))?;
    let fresh = tempfile::Builder::new().prefix(".bundle-").tempdir_in(parent).map_err(failed(parent))?;
    let put = |name: &str, bytes: &[u8]| {
        let path = fresh.path().join(name);
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&path)?;
            file.write_all(bytes)?;
            file.sync_data()
        };
        write().map_err(failed(&path))
    };
    let signed: Vec<Signed> = contents.receipts.iter().map(|(signed, _)| signed.clone()).collect();
    put("run.receipts", &receipts::bundle::write(&signed))?;
    put("run.journal", &receipts::bundle::write(contents.journal))?;
    if let Some(report) = &contents.seal_report {
        put("seal-report.json", report)?;
    }
    if !contents.decisions.is_empty() {
        put(receipts::bundle::AUTHORIZATIONS, &receipts::bundle::write(contents.decisions))?;
    }
    // A receipt's statement is signed when the receipt is: a key that was rotated away signs no more.
    let take_over = |name: &str| match std::fs::read(contents.issued.join(name)) {
        Ok(bytes) => put(name, &bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(&contents.issued.join(name))(error)),
    };
    let mut is_own = true;
    for (number, (signed, diff)) in contents.receipts.iter().enumerate() {
        put(&format!("{number:04}.receipt.json"), &signed.bytes)?;
        put(&format!("{number:04}.sig"), &signed.signature)?;
        if let Some(diff) = diff {
            put(&format!("{number:04}.diff"), &artifacts.get_bounded(*diff, receipts::MAX_DIFF as u64)?)?;
        }
        let export = receipts::export::file(number as u64);
        match receipts::export::sign(contents.signer, signed) {
            Ok(envelope) => put(&export, &envelope)?,
            Err(Code::KeyId) => {
                is_own = false;
                take_over(&export)?;
            }
            Err(code) => return Err(BundleError::Export { seq: number, code }),
        }
    }
    match is_own {
        true => put(KEY, &contents.signer.public_key())?,
        false => take_over(KEY)?,
    }
    match std::fs::remove_dir_all(place) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(place)(error)),
    }
    let fresh = fresh.keep();
    std::fs::rename(&fresh, place).map_err(failed(place))?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place, readable).map_err(failed(place))?;
    std::fs::File::open(parent).and_then(|folder| folder.sync_all()).map_err(failed(parent))
}
