//! The GitHub App that the set-up page made, as files that their owner alone may read.
//!
//! They lie in the folder `github-app` of the data folder, which appears whole or not at all. Nothing
//! that is written here is ever shown again.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;
use webhooks::github::manifest::NewApp;

use crate::config::GitHub;
use crate::keys::write_secret;

const FOLDER: &str = "github-app";
const ABOUT: &str = "app.toml";
const PRIVATE_KEY: &str = "private-key.pem";
const WEBHOOK_SECRET: &str = "webhook-secret";
const CLIENT_SECRET: &str = "client-secret";

/// What is known of the app beside its secrets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredApp {
    pub app_id: i64,
    pub slug: String,
    pub client_id: String,
    pub api_url: Url,
    /// How GitHub reaches this service, as it was said when the app was made.
    pub public_url: Url,
}

impl StoredApp {
    /// The app in the data folder, if the set-up page has made one.
    pub fn read(data_folder: &Path) -> anyhow::Result<Option<Self>> {
        let file = data_folder.join(FOLDER).join(ABOUT);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let read = toml::from_str(&text).with_context(|| format!("cannot use {}", file.display()))?;
        for name in [ABOUT, PRIVATE_KEY, WEBHOOK_SECRET] {
            check_private(&data_folder.join(FOLDER).join(name))?;
        }
        Ok(Some(read))
    }

    /// The same, as the configuration's section names it.
    pub fn section(&self, data_folder: &Path) -> GitHub {
        let file = |name: &str| Some(data_folder.join(FOLDER).join(name));
        GitHub {
            app_id: self.app_id,
            private_key_file: file(PRIVATE_KEY),
            webhook_secret_file: file(WEBHOOK_SECRET),
            api_url: self.api_url.clone(),
        }
    }
}

/// Keeps a new app; refuses to take the place of one that is there.
pub fn keep(data_folder: &Path, made: &NewApp, api_url: &Url, public_url: &Url) -> anyhow::Result<()> {
    let (home, next) = (data_folder.join(FOLDER), data_folder.join(format!("{FOLDER}.new")));
    ensure!(!home.exists(), "there is an app in {} already", home.display());
    let about = StoredApp {
        app_id: made.id,
        slug: made.slug.clone(),
        client_id: made.client_id.clone(),
        api_url: api_url.clone(),
        public_url: public_url.clone(),
    };
    if next.exists() {
        std::fs::remove_dir_all(&next).with_context(|| format!("cannot remove {}", next.display()))?;
    }
    let made_folder = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&next);
    made_folder.with_context(|| format!("cannot make {}", next.display()))?;
    write_secret(&next.join(ABOUT), &toml::to_string(&about)?)?;
    let secret = |name: &str, secret: &SecretString| write_secret(&next.join(name), secret.expose_secret());
    secret(PRIVATE_KEY, &made.private_key)?;
    secret(WEBHOOK_SECRET, &made.webhook_secret)?;
    secret(CLIENT_SECRET, &made.client_secret)?;
    std::fs::rename(&next, &home).with_context(|| format!("cannot make {}", home.display()))?;
    sync(data_folder)
}

/// Where the app is kept, for people.
pub fn folder(data_folder: &Path) -> PathBuf {
    data_folder.join(FOLDER)
}

fn sync(folder: &Path) -> anyhow::Result<()> {
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("cannot sync {}", folder.display()))
}

fn check_private(file: &Path) -> anyhow::Result<()> {
    let found = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mode = found.permissions().mode() & 0o777;
    ensure!(
        mode & 0o077 == 0,
        "others may read {}: its mode is {mode:o}; run `chmod 600` on it",
        file.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> NewApp {
        NewApp {
            id: 77,
            slug: "whip".into(),
            page: "https://github.com/apps/whip".parse().unwrap(),
            client_id: "Iv1.1".into(),
            private_key: "the key".to_owned().into(),
            webhook_secret: "the hook".to_owned().into(),
            client_secret: "the client".to_owned().into(),
        }
    }

    fn keep_in(folder: &Path) -> anyhow::Result<()> {
        let (api, public) = ("https://api.github.com", "https://repair.example.org");
        keep(folder, &made(), &api.parse().unwrap(), &public.parse().unwrap())
    }

    #[test]
    fn what_is_kept_is_for_its_owner_alone_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(StoredApp::read(folder.path()).unwrap(), None);
        keep_in(folder.path()).unwrap();
        let home = super::folder(folder.path());
        assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&home).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
            names.push(entry.file_name().into_string().unwrap());
        }
        names.sort();
        assert_eq!(names, [ABOUT, CLIENT_SECRET, PRIVATE_KEY, WEBHOOK_SECRET]);
        let read = StoredApp::read(folder.path()).unwrap().unwrap();
        assert_eq!(read.section(folder.path()).app_id, 77);
        assert!(keep_in(folder.path()).unwrap_err().to_string().contains("already"));
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        keep_in(folder.path()).unwrap();
        let file = super::folder(folder.path()).join(PRIVATE_KEY);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = StoredApp::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }
}
