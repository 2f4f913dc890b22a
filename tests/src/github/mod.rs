//! A simulated GitHub on loopback: it keeps state, serves real git, and says no as GitHub does.
//!
//! It checks the app's JWT against its own clock, confines tokens to the repositories and permissions
//! that they were minted with, holds requests to GitHub's published description and limits, moves
//! branches by the fast-forward rule, and can fail on demand. Nothing in it knows this project's code.

mod access;
mod checks;
mod contract;
mod conversation;
mod deliveries;
mod git_http;
mod manifest;
mod objects;
mod pulls;
mod seed;
mod server;
mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use jobs::clock::Clock;
use tokio_util::sync::CancellationToken;
use url::Url;

pub use access::other_key;
pub use deliveries::{Delivered, Delivery, ReviewPart, Suite};
pub use seed::HEAD_BRANCH;
pub use server::{Answered, Failure, Fault};
pub use state::{CheckRun, Comment, Level, Recorded, Review};

use state::State;

/// The secret that signs webhooks.
pub const WEBHOOK_SECRET: &str = "a secret that only tests know";
/// The app's id, beyond 32 bits.
pub const APP_ID: i64 = 4_300_000_001;
/// The one installation that `seed` makes, beyond 32 bits.
pub const INSTALLATION: i64 = 4_300_000_777;

/// A running simulated GitHub; it ends when it is dropped.
pub struct SimulatedGitHub {
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What the server and the test look at together.
struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    contract: contract::Contract,
    /// When set, a contents permission is never more than read.
    read_only: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// GitHub's time, in milliseconds since 1970.
    fn now(&self) -> i64 {
        self.clock.now()
    }
}

impl SimulatedGitHub {
    /// Starts on a free port of loopback, on threads of its own, with an app and no repositories.
    pub fn start(clock: Arc<dyn Clock>) -> Result<Self> {
        crate::install_crypto();
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new()?),
            clock,
            contract: contract::Contract::load()?,
            read_only: AtomicBool::new(false),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (served, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::Builder::new().name("simulated github".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = server::serve(listener, served) => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Self { shared, address, stop, thread: Some(thread) })
    }

    /// The REST API's base, as an enterprise server has it.
    pub fn api(&self) -> Url {
        format!("http://{}/api/v3", self.address).parse().expect("an address makes a URL")
    }

    /// Where repositories are cloned from.
    pub fn web(&self) -> Url {
        format!("http://{}", self.address).parse().expect("an address makes a URL")
    }

    /// The app's private key in PEM form.
    pub fn private_key(&self) -> &'static str {
        &access::key().private
    }

    /// Fails requests from now on; see [`Fault`].
    pub fn fail(&self, fault: Fault) {
        self.shared.state().faults.push(fault);
    }

    /// The next answer is the last of the primary rate limit, which is renewed after so many seconds.
    pub fn spend_rate_limit(&self, seconds: i64) {
        let until = self.shared.now().div_euclid(1000) + seconds;
        self.shared.state().limit_spent_until = Some(until);
    }

    /// Faults that did not happen yet.
    pub fn faults_left(&self) -> usize {
        self.shared.state().faults.iter().map(|fault| fault.times).sum()
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// Requests that would have changed something that a clone sees: refs and git objects.
    pub fn writes(&self) -> Vec<Recorded> {
        let written = |request: &Recorded| {
            (request.path.contains("/git/") && request.method != "GET")
                || request.path.ends_with("git-receive-pack")
        };
        self.requests().into_iter().filter(written).collect()
    }

    /// Takes every write permission for contents from tokens that are minted from now on.
    pub fn hold_contents_to_read(&self) {
        self.shared.read_only.store(true, Ordering::SeqCst);
    }

    /// Invalidates every token that was minted.
    pub fn revoke_tokens(&self) {
        self.shared.state().tokens.clear();
    }

    /// The check runs on a commit, oldest first.
    pub fn check_runs(&self, repository: &str, commit: &str) -> Vec<CheckRun> {
        let state = self.shared.state();
        let runs = state.repositories.get(repository).map(|found| found.check_runs.as_slice());
        runs.unwrap_or_default().iter().filter(|run| run.head_sha == commit).cloned().collect()
    }

    /// The comments of a pull request or issue, oldest first.
    pub fn comments(&self, repository: &str, number: i64) -> Vec<Comment> {
        let state = self.shared.state();
        let comments = state.repositories.get(repository).map(|found| found.comments.as_slice());
        comments.unwrap_or_default().iter().filter(|comment| comment.number == number).cloned().collect()
    }

    /// The bare repository itself.
    pub fn git(&self, repository: &str) -> Result<crate::git::BareRepository> {
        let state = self.shared.state();
        Ok(state.repositories.get(repository).context("no such repository")?.git.clone())
    }
}

impl Drop for SimulatedGitHub {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was printed by it; the test fails by what it misses.
            let _ended = thread.join();
        }
    }
}
