//! `receipts export`: a run's evidence out of the database, in the form that a verifier takes.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use jobs::artifacts::Artifacts;
use jobs::store::runs;
use receipts::report::{self, Files, Request};
use runners::executor::bundle;

use super::{Usage, config_at, print, run_id};
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
    let artifacts = Artifacts::open(config.artifacts_folder())?;
    let scratch = tempfile::tempdir()?;
    let whole = scratch.path().join("bundle");
    let issued = bundle::folder(&config.server.data_folder, &id);
    bundle::from_store(&db, &artifacts, &signer, (&whole, &issued), &id).await?;
    db.close().await;
    copy(&whole, to, arguments.form)?;
    let trust = keys::Trust::of(&config.key_file(), &signer)?;
    let request = Request { keyring: Some(&trust.keyring), ..Request::default() };
    let report = report::verify(&Files::at(&whole), &trust.first, &request);
    print(&format!(
        "{}\nwritten to {}; verify it with {}\n",
        report.lines.join("\n"),
        to.display(),
        trust.arguments()
    ));
    Ok(ExitCode::from(report.exit_code))
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

/// Copies the files of one form, with the diffs and the key; nothing where there are none of the form.
fn copy(whole: &Path, to: &Path, form: ExportForm) -> anyhow::Result<()> {
    let names = std::fs::read_dir(whole)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<String>>>()?;
    if !names.iter().any(|name| is_of(name, form)) {
        anyhow::bail!("the run has nothing of this form: no receipt that the service's key signed");
    }
    for name in &names {
        if is_of(name, form) || name.ends_with(".diff") || name == "key.pub" {
            let place = to.join(name);
            std::fs::copy(whole.join(name), &place)
                .with_context(|| format!("cannot write {}", place.display()))?;
        }
    }
    Ok(())
}

fn is_of(name: &str, form: ExportForm) -> bool {
    match form {
        ExportForm::Bundle => name.starts_with("run."),
        ExportForm::Dsse => name.ends_with(".dsse.json"),
        ExportForm::Folder => name.ends_with(".receipt.json") || name.ends_with(".sig"),
    }
}
