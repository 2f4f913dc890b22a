//! Who we are to GitHub: the app's own short JWT, and installation tokens that can do one thing.
//!
//! A token is minted for one repository and one [`Use`] and carries no permission that this use
//! does not need, so that reading code can never write it. Tokens live in memory alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use jobs::clock::Clock;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::client::{Answer, Client, DEFAULT_WAIT, LONGEST_WAIT, Refused, Request};
use super::error::ApiError;

/// How far the JWT's `iat` lies back, against clocks that run ahead.
const ISSUED_BACK_SECONDS: i64 = 60;
/// How far the JWT's `exp` lies ahead; GitHub takes at most ten minutes.
const EXPIRES_AHEAD_SECONDS: i64 = 9 * 60;
/// A token is renewed while it still has this long to live, so that no request outlives it.
const SPARE_MS: i64 = 5 * 60_000;

/// A limit that comes this soon after the last one is one more in a row.
const STRIKES_KEPT_MS: i64 = 10 * 60_000;

/// What a token is for. Each names the least permissions that GitHub asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Use {
    /// Look up roles and the repository itself.
    Look,
    /// Read code: files, commits, clones.
    ReadCode,
    /// Read pull requests.
    ReadPullRequest,
    /// Create and update check runs.
    Checks,
    /// Read an issue.
    ReadIssue,
    /// Comment on an issue.
    CommentOnIssue,
    /// Comment on a pull request, review it, or open one.
    PullRequest,
    /// Push an authorized patch. Only the push asks for it.
    Push,
    /// Push an authorized patch that touches workflow files.
    PushWorkflows,
}

impl Use {
    fn permissions(self) -> Value {
        match self {
            Use::Look => json!({ "metadata": "read" }),
            Use::ReadCode => json!({ "contents": "read" }),
            Use::ReadPullRequest => json!({ "pull_requests": "read" }),
            Use::Checks => json!({ "checks": "write" }),
            Use::ReadIssue => json!({ "issues": "read" }),
            Use::CommentOnIssue => json!({ "issues": "write" }),
            Use::PullRequest => json!({ "pull_requests": "write" }),
            Use::Push => json!({ "contents": "write" }),
            Use::PushWorkflows => json!({ "contents": "write", "workflows": "write" }),
        }
    }
}

/// The identity of the GitHub App.
#[derive(Clone)]
pub struct AppIdentity {
    /// The app's numeric id; also filters its check runs.
    pub id: i64,
    key: EncodingKey,
}

impl std::fmt::Debug for AppIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppIdentity").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The private key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the GitHub App's private key is not an RSA key in PEM form; download a new one from the app's settings page"
)]
pub struct BadKey(#[source] jsonwebtoken::errors::Error);

impl AppIdentity {
    /// The app with this id and the private key that GitHub gave out for it, in PEM form.
    pub fn new(id: i64, private_key: &SecretString) -> Result<Self, BadKey> {
        let key = EncodingKey::from_rsa_pem(private_key.expose_secret().as_bytes()).map_err(BadKey)?;
        Ok(Self { id, key })
    }

    /// A JWT that is good from a minute before `now_ms` until nine minutes after it.
    fn jwt(&self, now_ms: i64) -> Result<SecretString, ApiError> {
        let now = now_ms.div_euclid(1000);
        let claims = json!({
            "iss": self.id.to_string(),
            "iat": now - ISSUED_BACK_SECONDS,
            "exp": now + EXPIRES_AHEAD_SECONDS,
        });
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key)
            .map(SecretString::from)
            .map_err(|error| ApiError::Unauthorized {
                what: "signing in as the app".to_owned(),
                message: error.to_string(),
            })
    }
}

/// One minted token, and when it is to be renewed.
#[derive(Clone, Debug)]
struct Token {
    secret: SecretString,
    expires_at: i64,
}

/// A limit that GitHub has told.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// By this machine's clock.
    until: i64,
    /// How many limits followed each other.
    strikes: u32,
}

/// Which token: installation, repository, use. The repository is part of it because a token is
/// confined to one.
type Key = (i64, String, Use);
type Minting = Shared<BoxFuture<'static, Result<Token, ApiError>>>;

/// Makes credentials and keeps them while they are good.
#[derive(Clone)]
pub struct Credentials {
    client: Client,
    identity: AppIdentity,
    clock: Arc<dyn Clock>,
    /// GitHub's time minus ours, learned from a refused JWT.
    skew_ms: Arc<AtomicI64>,
    /// Until when each installation is to be left alone.
    limits: Arc<Mutex<HashMap<i64, Limit>>>,
    /// Finished and unfinished mintings: whoever comes while one is under way waits for the same.
    tokens: Arc<Mutex<HashMap<Key, Minting>>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Credentials of `identity` for the GitHub behind `client`.
    pub fn new(client: Client, identity: AppIdentity, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            identity,
            clock,
            skew_ms: Arc::default(),
            limits: Arc::default(),
            tokens: Arc::default(),
        }
    }

    /// The app's numeric id.
    pub fn app_id(&self) -> i64 {
        self.identity.id
    }

    /// This machine's time, in milliseconds since 1970.
    pub fn clock_now(&self) -> i64 {
        self.clock.now()
    }

    fn now(&self) -> i64 {
        self.clock.now() + self.skew_ms.load(Ordering::Relaxed)
    }

    /// Sends `request` as the app. A 401 sets the clock by GitHub's Date header once and asks once
    /// more, because a wrong clock is what makes a good key fail.
    pub async fn send_as_app(&self, request: &Request) -> Result<Answer, ApiError> {
        let refused = match self.client.send(request, &self.identity.jwt(self.now())?).await {
            Ok(answer) => return Ok(answer),
            Err(refused) => refused,
        };
        let (ApiError::Unauthorized { .. }, Some(date)) = (&refused.error, refused.date) else {
            return Err(refused.error);
        };
        let skew = date - self.clock.now();
        self.skew_ms.store(skew, Ordering::Relaxed);
        tracing::warn!(
            skew_ms = skew,
            "GitHub refused the app's JWT; asking once more with the time of its answer"
        );
        Ok(self.client.send(request, &self.identity.jwt(self.now())?).await?)
    }

    /// Sends `request` with a token of `installation` that can do `purpose` in `repository` and
    /// nothing else. A token that was refused is replaced once: a 401 did nothing.
    pub async fn send(
        &self,
        installation: i64,
        repository: &str,
        purpose: Use,
        request: &Request,
    ) -> Result<Answer, ApiError> {
        self.check_limit(installation, request)?;
        let sent = self.send_with_token(installation, repository, purpose, request).await;
        self.note_limit(installation, &sent);
        sent
    }

    async fn send_with_token(
        &self,
        installation: i64,
        repository: &str,
        purpose: Use,
        request: &Request,
    ) -> Result<Answer, ApiError> {
        let key = (installation, repository.to_owned(), purpose);
        let token = self.token(&key).await?;
        match self.client.send(request, &token.secret).await {
            Err(Refused { error: ApiError::Unauthorized { .. }, .. }) => {}
            other => return Ok(other?),
        }
        self.forget(&key, &token);
        let token = self.token(&key).await?;
        Ok(self.client.send(request, &token.secret).await?)
    }

    /// An installation that GitHub has limited is left alone until its time, whoever asks.
    fn check_limit(&self, installation: i64, request: &Request) -> Result<(), ApiError> {
        let now = self.clock.now();
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        match limits.get(&installation) {
            Some(limit) if limit.until > now => {
                let wait = Duration::from_millis(u64::try_from(limit.until - now).unwrap_or_default());
                Err(ApiError::RateLimited { what: request.what().to_owned(), wait })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Remembers a limit, and doubles the wait of one that follows another where GitHub names none.
    fn note_limit(&self, installation: i64, sent: &Result<Answer, ApiError>) {
        let now = self.clock.now();
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        match sent {
            Err(ApiError::RateLimited { wait, .. }) => {
                let strikes = limits.get(&installation).map_or(0, |limit| limit.strikes);
                let wait = match *wait {
                    DEFAULT_WAIT => DEFAULT_WAIT.saturating_mul(1 << strikes.min(6)).min(LONGEST_WAIT),
                    wait => wait,
                };
                let until = now.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
                limits.insert(installation, Limit { until, strikes: strikes + 1 });
            }
            Ok(Answer { spent_for: Some(wait), .. }) => {
                let until = now.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
                limits.insert(installation, Limit { until, strikes: 0 });
            }
            Ok(Answer { spent_for: None, .. }) => {
                if limits.get(&installation).is_some_and(|limit| limit.until + STRIKES_KEPT_MS < now) {
                    limits.remove(&installation);
                }
            }
            // A failure of another kind says nothing about limits.
            Err(_) => {}
        }
    }

    /// A token for a clone: it can read the code of one repository.
    pub async fn clone_token(&self, installation: i64, repository: &str) -> Result<SecretString, ApiError> {
        let key = (installation, repository.to_owned(), Use::ReadCode);
        Ok(self.token(&key).await?.secret)
    }

    async fn token(&self, key: &Key) -> Result<Token, ApiError> {
        let minting = self.minting(key);
        let result = minting.clone().await;
        if result.is_err() {
            self.forget_minting(key, &minting);
        }
        result
    }

    /// The minting that is good now or under way, else a new one.
    fn minting(&self, key: &Key) -> Minting {
        let now = self.now();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, minting| match minting.peek() {
            None => true,
            Some(Ok(token)) => token.expires_at - SPARE_MS > now,
            Some(Err(_)) => false,
        });
        if let Some(minting) = tokens.get(key) {
            return minting.clone();
        }
        let this = self.clone();
        let owned = key.clone();
        let minting = async move { this.mint(owned).await }.boxed().shared();
        tokens.insert(key.clone(), minting.clone());
        minting
    }

    async fn mint(self, (installation, repository, purpose): Key) -> Result<Token, ApiError> {
        let what = format!("a token for {repository} in installation {installation}");
        let body = json!({ "repositories": [repository], "permissions": purpose.permissions() });
        let path = format!("/app/installations/{installation}/access_tokens");
        let answer = self.send_as_app(&Request::create(path, body, what.clone())).await?;
        let unreadable = |why: &str| ApiError::Unreadable { what: what.clone(), why: why.to_owned() };
        let secret = answer.body["token"].as_str().ok_or_else(|| unreadable("there is no token in it"))?;
        let expires_at = answer.body["expires_at"]
            .as_str()
            .and_then(|text| text.parse::<jiff::Timestamp>().ok())
            .ok_or_else(|| unreadable("there is no expires_at in it"))?
            .as_millisecond();
        Ok(Token { secret: SecretString::from(secret), expires_at })
    }

    fn forget(&self, key: &Key, refused: &Token) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let same = tokens.get(key).and_then(|minting| minting.peek()).is_some_and(|minted| {
            minted.as_ref().is_ok_and(|token| token.secret.expose_secret() == refused.secret.expose_secret())
        });
        if same {
            tokens.remove(key);
        }
    }

    fn forget_minting(&self, key: &Key, failed: &Minting) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.get(key).is_some_and(|minting| minting.ptr_eq(failed)) {
            tokens.remove(key);
        }
    }
}
