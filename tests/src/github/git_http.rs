//! Git over smart HTTP, by git's own `http-backend`, for tokens that may.

use std::process::Stdio;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use tokio::io::AsyncWriteExt as _;

use super::state::{Level, Visibility};
use super::{Shared, access};
use crate::git::ENVIRONMENT;

pub(super) async fn answer(
    shared: &Shared,
    parts: &Parts,
    body: Bytes,
    credential: Option<&str>,
) -> Response {
    let path = parts.uri.path();
    let query = parts.uri.query().unwrap_or_default();
    let Some((repository, rest)) = path.trim_start_matches('/').split_once(".git/") else {
        return plain(StatusCode::NOT_FOUND);
    };
    let pushes = rest == "git-receive-pack" || query.contains("service=git-receive-pack");
    if let Some(refused) = refusal(shared, repository, pushes, credential) {
        return refused;
    }
    let Some(folder) = shared.state().repositories.get(repository).map(|found| found.git.path().to_owned())
    else {
        return plain(StatusCode::NOT_FOUND);
    };
    let mut command = tokio::process::Command::new("git");
    command
        .arg("http-backend")
        .env_clear()
        .envs(ENVIRONMENT)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_PROJECT_ROOT", &folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{rest}"))
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("REMOTE_USER", "x-access-token")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    for (name, variable) in [
        ("content-type", "CONTENT_TYPE"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        if let Some(value) = parts.headers.get(name).and_then(|value| value.to_str().ok()) {
            command.env(variable, value);
        }
    }
    match run(command, body).await {
        Ok(output) => respond(&output),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

async fn run(mut command: tokio::process::Command, body: Bytes) -> std::io::Result<Vec<u8>> {
    let mut child = command.spawn()?;
    let mut input = child.stdin.take().ok_or_else(|| std::io::Error::other("stdin is piped"))?;
    let written = async move {
        // A backend that has read enough closes its end.
        let _enough = input.write_all(&body).await;
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), written);
    Ok(output?.stdout)
}

fn refusal(shared: &Shared, repository: &str, pushes: bool, credential: Option<&str>) -> Option<Response> {
    let visibility = shared.state().repositories.get(repository)?.visibility;
    let level = if pushes { Level::Write } else { Level::Read };
    if credential.is_none() && visibility == Visibility::Public && !pushes {
        return None;
    }
    let token = match access::check_token(shared, credential) {
        Ok(token) => token,
        Err(_) => {
            let mut response = plain(StatusCode::UNAUTHORIZED);
            let realm = header::HeaderValue::from_static("Basic realm=\"GitHub\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
            return Some(response);
        }
    };
    let public = visibility == Visibility::Public;
    match access::allow(&token, repository, public, &[("contents", level)]) {
        Ok(()) => None,
        Err(reply) => Some(plain(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::FORBIDDEN))),
    }
}

fn plain(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Turns a CGI answer into an HTTP one.
fn respond(output: &[u8]) -> Response {
    let Some(end) = output.windows(4).position(|window| window == b"\r\n\r\n") else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let mut builder = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        builder = match (name, value.split(' ').next().and_then(|code| code.parse::<u16>().ok())) {
            ("Status", Some(code)) => builder.status(code),
            _ => builder.header(name, value),
        };
    }
    let body = Body::from(output[end + 4..].to_vec());
    builder.body(body).unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
}
