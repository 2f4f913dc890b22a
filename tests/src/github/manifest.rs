//! GitHub's manifest flow: the page that makes an app from a manifest, and the code that is changed
//! for its id and secrets, once.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::server::Reply;
use super::{APP_ID, Shared, SimulatedGitHub, WEBHOOK_SECRET, access};

/// What each event needs to be listened to, as GitHub's pages have it.
const EVENTS: [(&str, &[&str]); 8] = [
    ("check_run", &["checks"]),
    ("check_suite", &["checks"]),
    ("issue_comment", &["issues", "pull_requests"]),
    ("issues", &["issues"]),
    ("pull_request", &["pull_requests"]),
    ("pull_request_review", &["pull_requests"]),
    ("pull_request_review_comment", &["pull_requests"]),
    ("push", &["contents"]),
];

impl SimulatedGitHub {
    /// The manifest of the app that was handed out.
    pub fn manifest(&self) -> Option<Value> {
        self.shared.state().manifest.clone()
    }
}

pub(super) fn is_page(path: &str) -> bool {
    path == "/settings/apps/new" || path.starts_with("/organizations/")
}

/// The person pressed the button: the app is made, and the browser is sent back with a code.
pub(super) fn page(shared: &Shared, parts: &Parts, body: &Bytes) -> Response {
    let pairs = |text: &[u8]| url::form_urlencoded::parse(text).into_owned().collect::<Vec<_>>();
    let member = |pairs: &[(String, String)], name: &str| {
        pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone())
    };
    let state = member(&pairs(parts.uri.query().unwrap_or_default().as_bytes()), "state");
    let manifest = member(&pairs(body), "manifest")
        .and_then(|text| serde_json::from_str::<Value>(&text).ok())
        .unwrap_or_default();
    let to = match check(&manifest) {
        Ok(to) => to,
        Err(wrong) => return plain(StatusCode::UNPROCESSABLE_ENTITY, wrong),
    };
    let code = uuid::Uuid::new_v4().simple().to_string();
    shared.state().manifests.insert(code.clone(), manifest);
    let mut to = to;
    to.query_pairs_mut().append_pair("code", &code).append_pair("state", &state.unwrap_or_default());
    let mut response = plain(StatusCode::FOUND, String::new());
    response.headers_mut().insert(header::LOCATION, to.as_str().parse().expect("a URL is a plain header"));
    response
}

/// Where the browser goes back to, if GitHub would take the manifest.
fn check(manifest: &Value) -> Result<url::Url, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let name = text(&manifest["name"]).ok_or("name is missing")?;
    if name.is_empty() || name.chars().count() > 34 {
        return Err("name is too long (maximum is 34 characters)".to_owned());
    }
    for url in [&manifest["url"], &manifest["hook_attributes"]["url"]] {
        let url: url::Url = text(url).and_then(|url| url.parse().ok()).ok_or("url must be a valid URL")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("url must be a valid URL".to_owned());
        }
    }
    for event in manifest["default_events"].as_array().into_iter().flatten() {
        let known = EVENTS.iter().find(|(name, _)| event.as_str() == Some(name));
        let (_, needed) = known.ok_or_else(|| format!("default_events: {event} is not supported"))?;
        if !needed.iter().any(|name| manifest["default_permissions"][name].is_string()) {
            return Err(format!("default_events: {event} needs one of {needed:?}"));
        }
    }
    text(&manifest["redirect_url"]).and_then(|url| url.parse().ok()).ok_or_else(|| "redirect_url".to_owned())
}

/// `POST app-manifests/{code}/conversions`, by nobody in particular.
pub(super) fn convert(shared: &Shared, code: &str) -> Result<Reply, Reply> {
    let mut state = shared.state();
    let manifest = state.manifests.remove(code).ok_or_else(|| Reply::error(404, "Not Found"))?;
    state.webhook = manifest["hook_attributes"]["url"].as_str().and_then(|url| url.parse().ok());
    let reply = json!({
        "id": APP_ID,
        "slug": "whipstitch-test",
        "node_id": "MDExOkludGVncmF0aW9uMQ==",
        "name": manifest["name"],
        "html_url": "http://127.0.0.1/apps/whipstitch-test",
        "permissions": manifest["default_permissions"],
        "events": manifest["default_events"],
        "client_id": "Iv1.8a61f9b3a7aba766",
        "client_secret": "1726be1638095a19edd134c77bde3aa2ece1e5d8",
        "webhook_secret": WEBHOOK_SECRET,
        "pem": access::key().private,
    });
    state.manifest = Some(manifest);
    Ok(Reply::json(201, reply))
}

fn plain(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}
