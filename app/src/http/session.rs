//! Who is in front of the page: an account of the local forge, by the token that its folder's owner was given.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jobs::forge::Account;
use serde::Deserialize;

use super::Fault;
use crate::service::Service;

const COOKIE: &str = "whipstitch_session";

#[derive(Deserialize)]
pub struct Login {
    token: String,
    /// The run whose page follows.
    run: Option<jobs::id::RunId>,
}

/// Keeps a valid token in a cookie that no script and no other site can use.
pub async fn login(
    State(service): State<Arc<Service>>,
    Query(login): Query<Login>,
) -> Result<Response, Fault> {
    account_of(&service, &login.token)?.ok_or(Fault::NotSignedIn)?;
    let secure = if service.public_url.scheme() == "https" { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=86400{secure}", login.token);
    let to = login.run.map_or("/".to_owned(), |run| format!("/runs/{run}"));
    Ok((StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, to)]).into_response())
}

/// The account that a request's cookie names.
pub fn account(service: &Service, headers: &HeaderMap) -> Result<Option<Account>, Fault> {
    cookie(headers, COOKIE).map_or(Ok(None), |token| account_of(service, token))
}

/// The value of a request's cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then_some(value)
    })
}

fn account_of(service: &Service, token: &str) -> Result<Option<Account>, Fault> {
    // A header is made of it, so that only what a token is made of is let through.
    if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')) {
        return Ok(None);
    }
    match &service.local {
        Some(local) => local.login(token).map_err(|error| Fault::Unavailable(error.into())),
        None => Ok(None),
    }
}

/// Refuses a form that another site sent.
pub fn same_site(headers: &HeaderMap) -> Result<(), Fault> {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let from = text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    match from {
        Some(from) if from != host => Err(Fault::OtherSite),
        Some(_) | None => Ok(()),
    }
}
