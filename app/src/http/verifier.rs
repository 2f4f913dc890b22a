//! The page that verifies receipts in a reader's browser, served as the file that also works from disk.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const PAGE: &str = include_str!("../../../receipts/web/verify.html");

/// Lets exactly this page's script and style run, and lets the page reach nothing: not even this service.
static CONTENT_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src {}; style-src {}; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
        source_of("script"),
        source_of("style")
    )
});

pub async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, PAGE).into_response()
}

/// The source expression of the page's one element of this name; none where it has no such element.
fn source_of(element: &str) -> String {
    let text = || {
        let (_, rest) = PAGE.split_once(&format!("<{element}"))?;
        let (_, rest) = rest.split_once('>')?;
        Some(rest.split_once(&format!("</{element}>"))?.0)
    };
    match text() {
        Some(text) => format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text))),
        None => "'none'".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_all_that_the_page_runs() {
        for element in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{element}")).count(), 1, "{element}");
            assert_eq!(PAGE.matches(&format!("</{element}>")).count(), 1, "{element}");
        }
        assert!(!PAGE.contains(" style=") && !PAGE.contains(" src=") && !PAGE.contains(" onclick="));
        assert!(!CONTENT_POLICY.contains("unsafe"), "{}", *CONTENT_POLICY);
        assert_eq!(CONTENT_POLICY.matches("'sha256-").count(), 2);
    }

    #[tokio::test]
    async fn the_page_is_served_as_it_is_on_disk_under_its_own_policy() {
        let response = page().await;
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], CONTENT_POLICY.as_str());
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        assert_eq!(body, PAGE);
    }
}
