//! What GitHub answered when it did not do what was asked, in the few kinds that callers tell apart.

use std::time::Duration;

use crate::forge::ForgeError;

/// GitHub did not do what was asked.
///
/// Cheap to clone, because everyone who waits for one token gets the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The app's key or clock is not accepted, or a fresh token was refused.
    #[error("GitHub does not accept the credentials for {what}: {message}")]
    Unauthorized { what: String, message: String },
    /// 403 that is no rate limit: the app or its installation lacks a permission, or a rule forbids it.
    #[error("GitHub forbids {what}: {message}")]
    Forbidden { what: String, message: String },
    /// 404 or 410: it does not exist, or the installation cannot see it.
    #[error("GitHub does not know {what}")]
    NotFound { what: String },
    /// 409 or 422: the request was understood and refused.
    #[error("GitHub refuses {what} ({status}): {message}")]
    Rejected { what: String, status: u16, message: String },
    /// A primary or secondary rate limit. Nothing was done.
    #[error("GitHub limits the rate of requests; {what} may be asked again in {} s", wait.as_secs())]
    RateLimited { what: String, wait: Duration },
    /// 5xx, a timeout or a broken connection: whether it was done is not known.
    #[error("GitHub is out of reach for {what}: {why}")]
    Unavailable { what: String, why: String },
    /// An answer that is not what GitHub's description promises.
    #[error("cannot read GitHub's answer to {what}: {why}")]
    Unreadable { what: String, why: String },
}

impl From<ApiError> for ForgeError {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::NotFound { what } => ForgeError::NotFound { what },
            ApiError::RateLimited { what, wait } => ForgeError::RateLimited { what, retry_after: wait },
            ApiError::Unavailable { what, why } | ApiError::Unreadable { what, why } => {
                ForgeError::Unavailable { what, why }
            }
            ApiError::Unauthorized { what, message } => ForgeError::Refused {
                what,
                why: format!(
                    "the credentials are not accepted ({message}); check the app's id, its private key and this machine's clock"
                ),
            },
            ApiError::Forbidden { what, message } | ApiError::Rejected { what, message, .. } => {
                ForgeError::Refused { what, why: message }
            }
        }
    }
}
