//! `receipts export`: a run's evidence out of the database, in the form that a verifier takes.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use jobs::artifacts::Artifacts;
use jobs::store::runs;
use receipts::Expected;
use runners::executor::bundle;

use super::{Usage, config_at, print, run_id, verify};
use crate::cli::{Export, ExportForm};
use crate::{keys, service};

/// The bundle is made anew in a folder of its own, so that a service that runs meanwhile is not disturbed.
pub async fn run(arguments: &Export) -> anyhow::Result<ExitCode> {
    let id = run_id(&arguments.run)?;
    let config = config_at(&arguments.place)?;
    let to = vacant(&arguments.to)?;
    let db = service::open_existing_database(&config).await?;
    if runs::find(&db, &id).await?.is_none() {
        return Err(Usage(format!("there is no run {id}; `whipstitch status` lists the runs")).into());
    }
    let signer = keys::existing(&config.key_file())?;
    let artifacts = Artifacts::open(config.server.data_folder.join("artifacts"))?;
    let scratch = tempfile::tempdir()?;
    let whole = bundle::from_store(&db, &artifacts, &signer, scratch.path(), &id).await?;
    db.close().await;
    let written = copy(&whole, to, arguments.form)?;
    if written == 0 {
        anyhow::bail!("run {id} has nothing of this form yet: no receipt that the service's key signed");
    }
    let (verdict, _) = verify::of(&whole, &signer.public_key(), Expected::default())?;
    let key = hex::encode(signer.public_key());
    print(&format!("{verdict}\nwritten to {}; the service's key is {key}\n", to.display()));
    Ok(ExitCode::from(verdict.exit_code()))
}

/// The folder to write into, made where it is absent.
fn vacant(to: &Path) -> anyhow::Result<&Path> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut names = std::fs::read_dir(to).with_context(|| format!("cannot read {}", to.display()))?;
    match names.next() {
        None => Ok(to),
        Some(_) => Err(Usage(format!("{} is not empty; name a new folder with --to", to.display())).into()),
    }
}

/// Copies the files of one form, with the diffs and the key; gives how many of the form's own there were.
fn copy(whole: &Path, to: &Path, form: ExportForm) -> anyhow::Result<usize> {
    let mut written = 0;
    for entry in std::fs::read_dir(whole)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let own = is_of(&name, form);
        if own || name.ends_with(".diff") || name == "key.pub" {
            let place = to.join(&name);
            std::fs::copy(entry.path(), &place)
                .with_context(|| format!("cannot write {}", place.display()))?;
            written += usize::from(own);
        }
    }
    Ok(written)
}

fn is_of(name: &str, form: ExportForm) -> bool {
    match form {
        ExportForm::Bundle => name.starts_with("run."),
        ExportForm::Dsse => name.ends_with(".dsse.json"),
        ExportForm::Folder => name.ends_with(".receipt.json") || name.ends_with(".sig"),
    }
}
