//! `keys new|show`.

use std::process::ExitCode;

use super::print;
use crate::cli::Keys;
use crate::keys;

pub fn run(arguments: &Keys) -> anyhow::Result<ExitCode> {
    let signer = match arguments {
        Keys::New { file } => keys::make(file)?,
        Keys::Show { file } => keys::read(file)?,
    };
    print(&format!("public key  {}\nkey id      {}\n", hex::encode(signer.public_key()), signer.key_id()));
    Ok(ExitCode::SUCCESS)
}
