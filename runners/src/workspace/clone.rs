//! Brings one commit of a forge's repository into a private object store. Blocking.
//!
//! HTTP is spoken by gix, files of this host are copied object by object; the git program and its
//! helpers are never started, and no credential leaves by any way but the one it was given for.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use gix::remote::Direction;
use gix::remote::fetch::{Shallow, Tags};
use jobs::id::{CommitId, TreeId};
use jobs::source::CloneAccess;
use secrecy::ExposeSecret as _;

use super::objects::{Objects, ObjectsError};
use super::{Bounds, local};

/// The user name that forges expect beside a token.
const TOKEN_USER: &str = "x-access-token";
/// Where a fetched commit stands in the private store.
const FETCHED: &str = "refs/whipstitch/fetched";
/// A pack may hold this many times the bound of one tree before it is cut off.
const PACK_FACTOR: u64 = 4;

/// What to bring in.
#[derive(Clone, Debug)]
pub struct Want {
    /// The ref to fall back on where the forge does not give out a commit by its id.
    pub reference: String,
    pub commit: CommitId,
    pub history: History,
    /// How long the transfer may take in all.
    pub timeout: Duration,
}

/// How much of the past comes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// The commit alone.
    None,
    Full,
}

/// What came in.
#[derive(Clone, Debug)]
pub struct Provisioned {
    pub objects: Objects,
    pub tree: TreeId,
    pub files: u64,
    pub bytes: u64,
}

/// A commit could not be brought in.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("cannot clone {url}: only file, http and https URLs are read")]
    Scheme { url: String },
    #[error("cannot clone {url}: a token is sent in clear text only to this host; use https")]
    ClearText { url: String },
    #[error("cannot fetch {what} from {url}: {why}")]
    Fetch { what: String, url: String, why: String, source: Box<gix::Error> },
    /// Neither the id nor the ref gave it.
    #[error("cannot fetch commit {commit} from {url}: {reference} is now at {found}")]
    Moved { commit: CommitId, url: String, reference: String, found: String },
    #[error("cannot fetch commit {commit} from {url}: it was cut off after {why}")]
    CutOff { commit: CommitId, url: String, why: &'static str },
    #[error("the commit that was fetched cannot be used")]
    Objects(#[from] ObjectsError),
}

/// Fetches one commit into a new bare repository at `into`, and reads its whole tree once.
pub fn clone(
    access: &CloneAccess,
    want: &Want,
    into: &Path,
    bounds: &Bounds,
) -> Result<Provisioned, CloneError> {
    let url = url::Url::parse(&access.url).map_err(|_| CloneError::Scheme { url: shown(&access.url) })?;
    let objects = Objects::init(into)?;
    match url.scheme() {
        "file" => {
            let from = url.to_file_path().map_err(|()| CloneError::Scheme { url: shown(&access.url) })?;
            local::copy(&Objects::open(&from)?, &objects, &want.commit, want.history)?;
        }
        "http" | "https" => Fetch { access, url: &url, want, objects: &objects, bounds }.run()?,
        _ => return Err(CloneError::Scheme { url: shown(&access.url) }),
    }
    // Opened anew, since packs that came in since are not seen by an older handle.
    let objects = Objects::open(into)?;
    let tree = objects.tree_at(&want.commit, bounds)?;
    let bytes = objects.size_of(&tree)?;
    Ok(Provisioned { tree: tree.id().clone(), files: tree.entries().len() as u64, bytes, objects })
}

/// The URL without what may be secret in it.
fn shown(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut url) => {
            let cleared = url.set_username("").and(url.set_password(None));
            url.set_query(None);
            if cleared.is_ok() { url.to_string() } else { format!("{}:", url.scheme()) }
        }
        Err(_) => "a text that is no URL".to_owned(),
    }
}

/// One transfer over HTTP.
struct Fetch<'a> {
    access: &'a CloneAccess,
    url: &'a url::Url,
    want: &'a Want,
    objects: &'a Objects,
    bounds: &'a Bounds,
}

impl Fetch<'_> {
    fn run(&self) -> Result<(), CloneError> {
        let commit = self.want.commit.as_str();
        let by_id = self.receive(commit);
        let found = match by_id {
            Ok(()) => self.objects.reference(FETCHED)?,
            Err(failed @ (CloneError::CutOff { .. } | CloneError::ClearText { .. })) => return Err(failed),
            // Some forges give out only what a ref points at.
            Err(failed) => match self.receive(&self.want.reference) {
                Ok(()) => self.objects.reference(FETCHED)?,
                Err(_) => return Err(failed),
            },
        };
        let there = Objects::open(self.objects.folder())?.tree_of(&self.want.commit).is_ok();
        match found {
            Some(found) if found == self.want.commit => Ok(()),
            Some(_) if there => Ok(()),
            Some(_) | None => Err(CloneError::Moved {
                commit: self.want.commit.clone(),
                url: shown(&self.access.url),
                reference: self.want.reference.clone(),
                found: found.map_or("no commit".to_owned(), |id| id.to_string()),
            }),
        }
    }

    fn receive(&self, what: &str) -> Result<(), CloneError> {
        let stop = AtomicBool::new(false);
        let over = std::sync::Mutex::new(None);
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        let result = std::thread::scope(|scope| {
            let (stop, over) = (&stop, &over);
            let watch = scope.spawn(move || {
                let reason = self.watch(&waiting);
                if reason.is_some() {
                    stop.store(true, Ordering::Relaxed);
                    *over.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = reason;
                }
            });
            let result = self.transfer(what, stop);
            drop(done);
            // The watcher ends when its channel is closed; it cannot fail.
            drop(watch.join());
            result
        });
        let over = *over.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (over, result) {
            (_, Ok(())) => Ok(()),
            (Some(why), Err(_)) => Err(CloneError::CutOff {
                commit: self.want.commit.clone(),
                url: shown(&self.access.url),
                why,
            }),
            (None, Err(failed)) => Err(failed),
        }
    }

    /// Waits until the transfer ends, or gives the reason for which it must.
    fn watch(&self, waiting: &std::sync::mpsc::Receiver<()>) -> Option<&'static str> {
        let begun = Instant::now();
        let pack_bound = self.bounds.bytes.saturating_mul(PACK_FACTOR);
        loop {
            match waiting.recv_timeout(Duration::from_millis(200)) {
                Ok(()) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
            if begun.elapsed() > self.want.timeout {
                return Some("the time that a transfer may take");
            }
            if folder_bytes(&self.objects.folder().join("objects/pack")) > pack_bound {
                return Some("four times the bytes that a tree may have");
            }
        }
    }

    fn transfer(&self, what: &str, stop: &AtomicBool) -> Result<(), CloneError> {
        let fail = |source: gix::Error| self.failed(what, source);
        let repository = self.objects.local();
        let refspec = format!("+{what}:{FETCHED}");
        let remote = repository
            .remote_at_without_url_rewrite(self.url.as_str())
            .map_err(fail)?
            .with_fetch_tags(Tags::None)
            .with_refspecs([refspec.as_str()], Direction::Fetch)
            .map_err(fail)?;
        let mut connection = remote
            .connect(Direction::Fetch)
            .map_err(fail)?
            // Without this a refusal would start the host's credential helpers.
            .with_credentials(|_| Ok(None));
        if let Some(token) = &self.access.token {
            self.authenticate(&mut connection, token.expose_secret(), what)?;
        }
        let shallow = match self.want.history {
            History::None => Shallow::DepthAtRemote(NonZeroU32::MIN),
            History::Full => Shallow::NoChange,
        };
        connection
            .prepare_fetch(gix::progress::Discard, Default::default())
            .map_err(fail)?
            .with_shallow(shallow)
            .receive(gix::progress::Discard, stop)
            .map(drop)
            .map_err(fail)
    }

    /// Sends the token with the first request, so that a private repository does not look absent.
    fn authenticate<T>(
        &self,
        connection: &mut gix::remote::Connection<'_, '_, '_, T>,
        token: &str,
        what: &str,
    ) -> Result<(), CloneError>
    where
        T: gix::protocol::transport::client::blocking_io::Transport,
    {
        if self.url.scheme() == "https" {
            let account = gix::sec::identity::Account {
                username: TOKEN_USER.to_owned(),
                password: token.to_owned(),
                oauth_refresh_token: None,
            };
            return connection
                .transport_mut()
                .set_identity(account)
                .map_err(|source| self.failed(what, gix::Error::from_error(source)));
        }
        if !is_this_host(self.url) {
            return Err(CloneError::ClearText { url: shown(&self.access.url) });
        }
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{TOKEN_USER}:{token}"));
        let options = gix::protocol::transport::client::blocking_io::http::Options {
            extra_headers: vec![format!("Authorization: Basic {pair}")],
            ..Default::default()
        };
        connection.set_transport_options(Box::new(options));
        Ok(())
    }

    fn failed(&self, what: &str, source: gix::Error) -> CloneError {
        CloneError::Fetch {
            what: what.to_owned(),
            url: shown(&self.access.url),
            why: source.to_string(),
            source: Box::new(source),
        }
    }
}

fn is_this_host(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn folder_bytes(folder: &Path) -> u64 {
    let Ok(names) = std::fs::read_dir(folder) else { return 0 };
    names.filter_map(|name| name.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}
