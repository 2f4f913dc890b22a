//! Who asks: the app by its JWT, or a token that can do some things in some repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use super::server::Reply;
use super::state::{Level, Token};
use super::{APP_ID, Shared};

/// The app's key pair in PEM form, made once per process so that no key is kept in a file.
pub(super) struct Key {
    pub private: String,
    pub public: String,
}

pub(super) fn key() -> &'static Key {
    static KEY: OnceLock<Key> = OnceLock::new();
    KEY.get_or_init(make_key)
}

/// The private key of some other app, in PEM form.
pub fn other_key() -> String {
    make_key().private
}

fn make_key() -> Key {
    let pair = KeyPair::generate(KeySize::Rsa2048).expect("the machine has randomness");
    let private: Pkcs8V1Der = pair.as_der().expect("a fresh key has a PKCS#8 form");
    let public: PublicKeyX509Der = pair.public_key().as_der().expect("a fresh key has an X.509 form");
    Key { private: pem("PRIVATE KEY", private.as_ref()), public: pem("PUBLIC KEY", public.as_ref()) }
}

fn pem(label: &str, der: &[u8]) -> String {
    let digits = STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..digits.len()).step_by(64).map(|at| &digits[at..digits.len().min(at + 64)]).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Checks a JWT as GitHub does: RS256 by the app's key, issued in the past, ending within ten minutes.
pub(super) fn check_app(shared: &Shared, bearer: Option<&str>) -> Result<(), Reply> {
    let refuse = |message: &str| Reply::error(401, message);
    let jwt = bearer.ok_or_else(|| refuse("Requires authentication"))?;
    let mut validation = Validation::new(Algorithm::RS256);
    validation.validate_exp = false;
    validation.required_spec_claims.clear();
    let public = DecodingKey::from_rsa_pem(key().public.as_bytes()).expect("our own public key is one");
    let claims = jsonwebtoken::decode::<Value>(jwt, &public, &validation)
        .map_err(|_| refuse("A JSON web token could not be decoded"))?
        .claims;
    let now = shared.now().div_euclid(1000);
    let number = |name: &str| claims[name].as_i64();
    let issuer = claims["iss"].as_i64().or_else(|| claims["iss"].as_str()?.parse().ok());
    match (number("iat"), number("exp")) {
        _ if issuer != Some(APP_ID) => Err(Reply::error(404, "Integration not found")),
        (Some(issued), _) if issued > now => Err(refuse(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        )),
        (Some(_), Some(ends)) if ends <= now => Err(refuse(
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
        )),
        (Some(_), Some(ends)) if ends > now + 600 => {
            Err(refuse("'Expiration time' claim ('exp') is too far in the future"))
        }
        (Some(_), Some(_)) => Ok(()),
        _ => Err(refuse("Missing claims")),
    }
}

/// The app, as its settings on GitHub have it: permissions and events.
pub(super) fn show_app(shared: &Shared) -> Reply {
    let state = shared.state();
    let permissions = state.app_permissions.iter().map(|(name, level)| (name, level.name()));
    Reply::json(
        200,
        json!({
            "id": APP_ID,
            "slug": "whipstitch-test",
            "name": "Whipstitch test",
            "permissions": permissions.collect::<BTreeMap<_, _>>(),
            "events": state.app_events,
            "installations_count": state.installations.len(),
        }),
    )
}

/// Where the app is installed, and what each owner has granted.
pub(super) fn list_installations(shared: &Shared) -> Reply {
    let state = shared.state();
    let shown = state.installations.iter().map(|(id, installation)| {
        let granted = installation.permissions.iter().map(|(name, level)| (name, level.name()));
        json!({
            "id": id,
            "account": { "login": installation.account, "type": "Organization" },
            "app_id": APP_ID,
            "permissions": granted.collect::<BTreeMap<_, _>>(),
            "suspended_at": Value::Null,
        })
    });
    Reply::json(200, shown.collect())
}

/// Mints an installation token for the repositories and permissions that the body names.
pub(super) fn mint(shared: &Shared, installation: i64, body: &Value) -> Result<Reply, Reply> {
    let now = shared.now();
    let mut state = shared.state();
    let granted = state.installations.get(&installation).ok_or_else(|| Reply::error(404, "Not Found"))?;
    let mut repositories = granted.repositories.clone();
    if let Some(names) = body["repositories"].as_array() {
        repositories.clear();
        for name in names.iter().filter_map(Value::as_str) {
            let full = format!("{}/{name}", granted.account);
            if !granted.repositories.contains(&full) {
                return Err(Reply::error(
                    422,
                    "There is at least one repository that does not exist or is not accessible to the parent installation.",
                ));
            }
            repositories.insert(full);
        }
    }
    let mut permissions = granted.permissions.clone();
    if let Some(asked) = body["permissions"].as_object() {
        permissions = BTreeMap::from([("metadata".to_owned(), Level::Read)]);
        for (name, level) in asked {
            let level = level.as_str().and_then(Level::named);
            let level = level.ok_or_else(|| Reply::error(422, "Invalid permission level"))?;
            if granted.permissions.get(name).is_none_or(|most| *most < level) {
                return Err(Reply::error(
                    422,
                    "The permissions requested are not granted to this installation.",
                ));
            }
            permissions.insert(name.clone(), level);
        }
    }
    if shared.read_only.load(Ordering::SeqCst) {
        permissions.entry("contents".to_owned()).and_modify(|level| *level = Level::Read);
    }
    let secret = format!("ghs_{}", uuid::Uuid::new_v4().simple());
    let expires_at = now + 3_600_000;
    let names: BTreeMap<_, _> = permissions.iter().map(|(name, level)| (name, level.name())).collect();
    let reply = json!({
        "token": secret,
        "expires_at": time(expires_at),
        "permissions": names,
        "repository_selection": "selected",
    });
    state.tokens.insert(secret, Token { repositories, permissions, expires_at });
    Ok(Reply::json(201, reply))
}

/// The token that a request carries, when it is one that still lives.
pub(super) fn check_token(shared: &Shared, bearer: Option<&str>) -> Result<Token, Reply> {
    let refuse = || Reply::error(401, "Bad credentials");
    let token = shared.state().tokens.get(bearer.ok_or_else(refuse)?).cloned().ok_or_else(refuse)?;
    if token.expires_at <= shared.now() { Err(refuse()) } else { Ok(token) }
}

/// What GitHub's pages ask of a token for each operation: any one of these permissions.
pub(super) fn required(method: &str, rest: &[&str]) -> &'static [(&'static str, Level)] {
    use Level::{Read, Write};
    match (method, rest) {
        ("GET", ["check-runs", ..] | ["commits", _, "check-runs"]) => &[("checks", Read)],
        (_, ["check-runs", ..]) => &[("checks", Write)],
        ("GET", ["pulls", ..]) => &[("pull_requests", Read)],
        (_, ["pulls", ..]) => &[("pull_requests", Write)],
        ("GET", ["issues", ..]) => &[("issues", Read), ("pull_requests", Read)],
        (_, ["issues", ..]) => &[("issues", Write), ("pull_requests", Write)],
        ("GET", ["contents", ..] | ["git", ..]) => &[("contents", Read)],
        (_, ["contents", ..] | ["git", ..]) => &[("contents", Write)],
        _ => &[("metadata", Read)],
    }
}

/// Whether the token may do this in the repository: 404 when it may not see it, 403 when it lacks
/// the permission.
pub(super) fn allow(
    token: &Token,
    repository: &str,
    readable_by_all: bool,
    needed: &[(&str, Level)],
) -> Result<(), Reply> {
    let reads_only = needed.iter().all(|(_, level)| *level == Level::Read);
    if !token.repositories.contains(repository) {
        // A public repository can be read by everyone; writing to one that the token does not cover
        // is refused as for anybody without a right.
        return match (readable_by_all, reads_only) {
            (true, true) => Ok(()),
            (true, false) => Err(Reply::error(403, "Resource not accessible by integration")),
            (false, _) => Err(Reply::error(404, "Not Found")),
        };
    }
    let allowed = needed
        .iter()
        .any(|(name, level)| token.permissions.get(*name).is_some_and(|granted| granted >= level));
    if allowed { Ok(()) } else { Err(Reply::error(403, "Resource not accessible by integration")) }
}

/// RFC 3339 in seconds.
pub(super) fn time(ms: i64) -> String {
    jiff::Timestamp::from_second(ms.div_euclid(1000)).map(|at| at.to_string()).unwrap_or_default()
}

/// A set of names, for seeds.
pub(super) fn set(names: &[String]) -> BTreeSet<String> {
    names.iter().cloned().collect()
}
