//! The signing key in a file: 32 random bytes as hex, readable by its owner alone.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use receipts::Signer;
use zeroize::Zeroizing;

/// Makes a new key in `file`, which must not exist, with mode 0600.
pub fn make(file: &Path) -> anyhow::Result<Signer> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut())
        .map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    let text = Zeroizing::new(format!("{}\n", hex::encode(seed.as_ref())));
    write_secret(file, &text)?;
    Ok(Signer::from_seed(&seed))
}

/// Writes a secret into a new file that its owner alone may read.
pub fn write_secret(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut options = std::fs::OpenOptions::new();
    let mut made = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("cannot make the secret file {}", file.display()))?;
    made.write_all(text.as_bytes())
        .and_then(|()| made.sync_all())
        .with_context(|| format!("cannot write the secret file {}", file.display()))
}

/// Reads the key in `file`; refuses one that others may read.
pub fn read(file: &Path) -> anyhow::Result<Signer> {
    let found = std::fs::metadata(file).with_context(|| {
        format!("cannot read the signing key {}; `whipstitch keys new {0}` makes one", file.display())
    })?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        bail!(
            "others may read the signing key {}: its mode is {mode:o}; run `chmod 600` on it",
            file.display()
        );
    }
    let text = Zeroizing::new(
        std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the signing key {}", file.display()))?,
    );
    let mut seed = Zeroizing::new([0; 32]);
    if hex::decode_to_slice(text.trim(), seed.as_mut()).is_err() {
        bail!("{} holds no signing key: 64 hex digits were expected", file.display());
    }
    Ok(Signer::from_seed(&seed))
}

/// Reads the key in `file`, or makes it when there is none.
pub fn read_or_make(file: &Path) -> anyhow::Result<Signer> {
    if file.exists() { read(file) } else { make(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/signing.key");
        let made = read_or_make(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_make(&file).unwrap().key_id(), made.key_id());
        assert!(make(&file).is_err(), "a key is never overwritten");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("signing.key");
        make(&file).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }
}
