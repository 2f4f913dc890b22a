//! `keys new|show|rotate|list`.

use std::path::Path;
use std::process::ExitCode;

use jobs::clock::{Clock as _, SystemClock};
use receipts::{PublicKey, Signer, Timestamp};

use super::{Usage, print};
use crate::cli::Keys;
use crate::keys;

pub fn run(arguments: &Keys) -> anyhow::Result<ExitCode> {
    match arguments {
        Keys::New { file } => show(&keys::make(file)?),
        Keys::Show { file: Some(file) } => show(&keys::read(file)?),
        Keys::Show { file: None } => match keys::of_variable(super::variable)? {
            Some(signer) => show(&signer),
            None => return Err(Usage(format!("name the key's FILE, or set {}", keys::VARIABLE)).into()),
        },
        Keys::Rotate { file, reason } => {
            let now = Timestamp::from_unix(SystemClock.now().div_euclid(1000));
            show(&keys::rotate(file, now, reason)?);
        }
        Keys::List { file, first } => list(file, first.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
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
