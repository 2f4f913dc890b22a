//! `keys new|show|rotate|list`.

use std::path::Path;
use std::process::ExitCode;

use jobs::clock::{Clock as _, SystemClock};
use jobs::store::{Db, runs};
use receipts::{PublicKey, Signer, Timestamp};

use super::{Usage, print};
use crate::cli::Keys;
use crate::config::Config;
use crate::keys;

pub fn run(arguments: &Keys) -> anyhow::Result<ExitCode> {
    match arguments {
        Keys::New { file } => show(&keys::make(file)?),
        Keys::Show { file: Some(file) } => show(&keys::read(file)?),
        Keys::Show { file: None } => match keys::of_variable(super::variable)? {
            Some(signer) => show(&signer),
            None => return Err(Usage(format!("name the key's FILE, or set {}", keys::VARIABLE)).into()),
        },
        Keys::Rotate { file, reason, config } => {
            super::blocking(nothing_begun(file, config.as_deref()))?;
            let now = Timestamp::from_unix(SystemClock.now().div_euclid(1000));
            show(&keys::rotate(file, now, reason)?);
        }
        Keys::List { file, first } => list(file, first.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses while a run of the service is under way: one chain has one key. What people decide after a run's
/// end may be signed by a later key of the keyring.
async fn nothing_begun(file: &Path, config: Option<&Path>) -> anyhow::Result<ExitCode> {
    let beside = Config::of_folder(file.parent().unwrap_or(Path::new("")));
    let config = match config {
        Some(config) => super::load(Some(config))?,
        None => beside,
    };
    let url = config.database();
    if url.strip_prefix("sqlite://").is_some_and(|database| !Path::new(database).exists()) {
        return Ok(ExitCode::SUCCESS);
    }
    let db = Db::open(&url).await?;
    let begun = runs::begun(&db).await?;
    db.close().await;
    match begun.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(run) => anyhow::bail!(
            "{} of the service are under way, such as {run}, and their receipts need the key that they were begun with; let them end, or `whipstitch cancel` them, and rotate then",
            begun.len()
        ),
    }
}

fn show(signer: &Signer) {
    print(&format!("public key  {}\nkey id      {}\n", hex::encode(signer.public_key()), signer.key_id()));
}

fn list(file: &Path, first: Option<&str>) -> anyhow::Result<()> {
    let first = match first {
        Some(text) => {
            Some(PublicKey::parse(text.as_bytes()).map_err(|error| Usage(format!("--first: {error}")))?.raw())
        }
        None => None,
    };
    let found = keys::list(file, first)?;
    for (number, key) in found.iter().enumerate() {
        let now = if number + 1 == found.len() { "  signs now" } else { "" };
        print(&format!("{number:>3}  {}  {}{now}\n", hex::encode(key.raw()), key.id()));
    }
    Ok(())
}
