//! The key that signs receipts: in a variable, or in a file that its owner alone may read, with the
//! keyring of its rotations beside it.
//!
//! Of `signing.key` these are `signing.keyring` (the rotations, for everybody), `signing.first.pub` (the
//! public key that the keyring begins with) and, while a rotation is under way, `signing.next`.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use receipts::keyring::{Keyring, MAX_KEYRING};
use receipts::{PublicKey, Signer, Timestamp};
use zeroize::Zeroizing;

/// The variable of the signing key, a PKCS#8 PEM; it wins over the key's file.
pub const VARIABLE: &str = "WHIPSTITCH_SIGNING_KEY";

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

/// The key in the variable; none where it is not set.
pub fn of_variable(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Signer>> {
    let Some(pem) = variable(VARIABLE).map(Zeroizing::new) else { return Ok(None) };
    Signer::from_pkcs8(&pem).map(Some).with_context(|| format!("the key in {VARIABLE} cannot be used"))
}

/// The key of a service that has run before: of the variable, else in `file`.
pub fn existing(file: &Path) -> anyhow::Result<Signer> {
    match of_variable(|name| std::env::var(name).ok())? {
        Some(signer) => Ok(signer),
        None => read(file),
    }
}

/// The key of the variable, else in `file`, where it is made when there is none.
pub fn read_or_make(file: &Path) -> anyhow::Result<Signer> {
    match of_variable(|name| std::env::var(name).ok())? {
        Some(signer) => Ok(signer),
        None if file.exists() => read(file),
        None => make(file),
    }
}

/// Puts a new key in the place of the one in `file`, after both have signed that it follows.
///
/// The new key is on disk before the keyring names it, and the keyring names it before it takes the old
/// one's place; so a rotation that was cut off anywhere is carried on by the next call.
pub fn rotate(file: &Path, now: Timestamp, reason: &str) -> anyhow::Result<Signer> {
    let old = read(file)?;
    let held = std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    match held.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!("a service signs with {} now; stop it, rotate, and start it again", file.display())
        }
        Err(std::fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot hold the key {}", file.display()));
        }
    }
    let (first, next) = (file.with_extension("first.pub"), file.with_extension("next"));
    if !first.exists() {
        replace(&first, format!("{}\n", hex::encode(old.public_key())).as_bytes())?;
    }
    let (keyring, mut bytes) = keyring(file, None)?;
    let new = if next.exists() { read(&next)? } else { make(&next)? };
    if keyring.current().id() != new.key_id() {
        ensure!(
            keyring.current().id() == old.key_id(),
            "{} is not the key that the keyring {} ends with; put that key back",
            file.display(),
            keyring_file(file).display()
        );
        let line = keyring.rotate(&old, &new, now, reason).context("cannot compose the rotation")?;
        bytes.extend(line);
        replace(&keyring_file(file), &bytes)?;
    }
    std::fs::rename(&next, file).with_context(|| format!("cannot replace the key {}", file.display()))?;
    sync_folder(file)?;
    Ok(new)
}

/// What a verifier needs for whatever this service has signed: the first key, and what it leads to.
pub struct Trust {
    pub first: [u8; 32],
    /// The keyring's bytes; empty where no key was rotated.
    pub keyring: Vec<u8>,
    place: PathBuf,
}

impl Trust {
    /// The keys of the service whose key is in `file`, or in the variable where `signer` is another's.
    pub fn of(file: &Path, signer: &Signer) -> anyhow::Result<Self> {
        let place = keyring_file(file);
        let alone = Self { first: signer.public_key(), keyring: Vec::new(), place: place.clone() };
        if !place.exists() {
            return Ok(alone);
        }
        let (ring, bytes) = keyring(file, None)?;
        match ring.current().id() == signer.key_id() {
            true => Ok(Self { first: ring.keys()[0].raw(), keyring: bytes, place }),
            false => Ok(alone),
        }
    }

    /// How `whipstitch verify` is told of them.
    pub fn arguments(&self) -> String {
        let key = format!("--key {}", hex::encode(self.first));
        match self.keyring.is_empty() {
            true => key,
            false => format!("{key} --keyring {}", self.place.display()),
        }
    }
}

/// Holds a key's file as long as a process signs with it, so that nobody rotates the key meanwhile.
pub fn hold(file: &Path) -> anyhow::Result<Option<std::fs::File>> {
    if std::env::var_os(VARIABLE).is_some() {
        return Ok(None);
    }
    let held = std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    match held.try_lock_shared() {
        Ok(()) => Ok(Some(held)),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!("the signing key {} is being rotated; try again", file.display())
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot hold the signing key {}", file.display()))
        }
    }
}

/// All keys that `file` has held, the first one first. `first` is a key that the caller knows; without
/// it the one is taken that was kept beside the keyring.
pub fn list(file: &Path, first: Option<[u8; 32]>) -> anyhow::Result<Vec<PublicKey>> {
    Ok(keyring(file, first)?.0.keys().to_vec())
}

/// The keyring beside a key, and its bytes; one without rotations where there is no such file.
fn keyring(file: &Path, first: Option<[u8; 32]>) -> anyhow::Result<(Keyring, Vec<u8>)> {
    let place = keyring_file(file);
    let bytes = match std::fs::metadata(&place) {
        Ok(found) if found.len() > MAX_KEYRING as u64 => {
            bail!("{} is too long for a keyring", place.display())
        }
        Ok(_) => std::fs::read(&place).with_context(|| format!("cannot read {}", place.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", place.display())),
    };
    let first = match first {
        Some(first) => first,
        None => first_key(file)?,
    };
    let keyring = Keyring::read(&bytes, &first).map_err(|(code, line)| {
        anyhow::anyhow!("{} is no keyring of this first key: {}@{line}", place.display(), code.name())
    })?;
    Ok((keyring, bytes))
}

/// The key that was kept as the first one, else the one in `file`.
fn first_key(file: &Path) -> anyhow::Result<[u8; 32]> {
    let place = file.with_extension("first.pub");
    match std::fs::read(&place) {
        Ok(bytes) => match PublicKey::parse(&bytes) {
            Ok(key) => Ok(key.raw()),
            Err(error) => bail!("{}: {error}", place.display()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(read(file)?.public_key()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", place.display())),
    }
}

fn keyring_file(file: &Path) -> PathBuf {
    file.with_extension("keyring")
}

/// Puts a file that all may read in its place, whole or not at all.
fn replace(place: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let mut fresh = tempfile::NamedTempFile::new_in(folder_of(place))?;
        fresh.write_all(bytes)?;
        fresh.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        fresh.as_file().sync_all()?;
        fresh.persist(place).map_err(|error| error.error)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", place.display()))?;
    sync_folder(place)
}

/// Makes names that were put into a file's folder last.
fn sync_folder(file: &Path) -> anyhow::Result<()> {
    let folder = folder_of(file);
    std::fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("cannot write {}", folder.display()))
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
    fn a_rotation_that_was_cut_off_is_carried_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("signing.key");
        let at = Timestamp::from_unix(1_800_000_000);
        let first = make(&file).unwrap();
        // Cut off before the keyring was written: the key that was made is the one that follows.
        let next = make(&folder.path().join("signing.next")).unwrap();
        assert_eq!(rotate(&file, at, "yearly").unwrap().key_id(), next.key_id());
        assert_eq!(read(&file).unwrap().key_id(), next.key_id());
        // Cut off after the keyring was written: the new key takes its place, and nothing is signed again.
        let third = make(&folder.path().join("signing.next")).unwrap();
        let (ring, mut bytes) = keyring(&file, None).unwrap();
        bytes.extend(ring.rotate(&next, &third, at, "yearly").unwrap());
        replace(&keyring_file(&file), &bytes).unwrap();
        assert_eq!(rotate(&file, at, "yearly").unwrap().key_id(), third.key_id());
        let ids: Vec<String> = list(&file, None).unwrap().iter().map(|key| key.id().to_owned()).collect();
        assert_eq!(ids, [first.key_id(), next.key_id(), third.key_id()]);
        assert_eq!(std::fs::read(keyring_file(&file)).unwrap(), bytes);
    }

    #[test]
    fn a_key_that_the_keyring_does_not_end_with_is_not_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("signing.key");
        make(&file).unwrap();
        rotate(&file, Timestamp::from_unix(1_800_000_000), "yearly").unwrap();
        std::fs::remove_file(&file).unwrap();
        make(&file).unwrap();
        let error = rotate(&file, Timestamp::from_unix(1_800_000_001), "again").unwrap_err().to_string();
        assert!(error.contains("put that key back"), "{error}");
    }

    #[test]
    fn a_key_that_a_process_signs_with_is_not_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("signing.key");
        let made = make(&file).unwrap();
        let held = (hold(&file).unwrap(), hold(&file).unwrap());
        let at = Timestamp::from_unix(1_800_000_000);
        let error = rotate(&file, at, "yearly").unwrap_err().to_string();
        assert!(error.contains("a service signs with"), "{error}");
        assert_eq!(names(folder.path()), ["signing.key"]);
        assert_eq!(read(&file).unwrap().key_id(), made.key_id());
        drop(held);
        let next = rotate(&file, at, "yearly").unwrap();
        assert!(hold(&file).unwrap().is_some());
        let trust = Trust::of(&file, &next).unwrap();
        assert_eq!(trust.first, made.public_key());
        assert!(trust.arguments().ends_with("signing.keyring"), "{}", trust.arguments());
        assert_eq!(
            Trust::of(&file, &made).unwrap().arguments(),
            format!("--key {}", hex::encode(made.public_key()))
        );
    }

    fn names(folder: &Path) -> Vec<String> {
        let found = std::fs::read_dir(folder).unwrap();
        found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_key_in_the_variable_must_be_a_pkcs8_pem() {
        let error = of_variable(|_| Some("not a key".to_owned())).unwrap_err();
        assert!(format!("{error:#}").contains("openssl genpkey"), "{error:#}");
        assert!(!format!("{error:#}").contains("not a key"), "what is in the variable is never shown");
        assert!(of_variable(|_| None).unwrap().is_none());
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
