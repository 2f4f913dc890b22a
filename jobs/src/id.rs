//! Ids as types, so that a run's id is never taken for a job's.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A text that does not have the form that an id must have.
#[derive(Debug, thiserror::Error)]
#[error("not a {kind}: {text:?}")]
pub struct NotAnId {
    /// What was expected.
    pub kind: &'static str,
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl NotAnId {
    fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.chars().take(80).collect() }
    }
}

/// A git object id as hex: 40 digits (SHA-1) or 64 (SHA-256), lowercase.
fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_uuid(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok_and(|id| id.hyphenated().to_string() == text)
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text form.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = NotAnId;
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(NotAnId::new($kind, text)) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAnId;
            fn try_from(text: String) -> Result<Self, NotAnId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A git commit, 40 or 64 lowercase hex digits.
    CommitId, "commit id of 40 or 64 lowercase hex digits", is_object_id
);
text_id!(
    /// A git tree, 40 or 64 lowercase hex digits.
    TreeId, "tree id of 40 or 64 lowercase hex digits", is_object_id
);
text_id!(
    /// One execution of a job: a UUIDv7.
    RunId, "run id (a UUID)", is_uuid
);
text_id!(
    /// One recorded intent to start an agent: a UUIDv7.
    LaunchId, "launch id (a UUID)", is_uuid
);
text_id!(
    /// A recorded yes of a person: a UUIDv7.
    AuthorizationId, "authorization id (a UUID)", is_uuid
);
text_id!(
    /// One thing to be told to a forge: a UUIDv7.
    MessageId, "message id (a UUID)", is_uuid
);
text_id!(
    /// What was admitted: `sha256:` and 64 lowercase hex digits of the canonical job.
    JobId, "job id (`sha256:` and 64 lowercase hex digits)",
    |text| text.strip_prefix("sha256:").is_some_and(|hex| hex.parse::<Digest>().is_ok())
);

macro_rules! fresh {
    ($($name:ident),*) => {$(
        impl $name {
            /// A new id whose time part is `now_ms`, milliseconds since 1970 UTC.
            pub fn fresh(now_ms: i64) -> Self {
                Self(new_uuid(now_ms).to_string())
            }
        }
    )*};
}
fresh!(RunId, LaunchId, AuthorizationId, MessageId);

fn new_uuid(now_ms: i64) -> uuid::Uuid {
    let ms = u64::try_from(now_ms).unwrap_or(0);
    let random: [u8; 16] = *uuid::Uuid::new_v4().as_bytes();
    let mut tail = [0; 10];
    tail.copy_from_slice(&random[..10]);
    uuid::Builder::from_unix_timestamp_millis(ms, &tail).into_uuid()
}

impl JobId {
    /// The id of the job whose canonical form has this digest.
    pub fn of(digest: Digest) -> Self {
        Self(format!("sha256:{digest}"))
    }

    /// The digest without its prefix.
    pub fn digest(&self) -> Digest {
        self.0["sha256:".len()..].parse().expect("the constructor checked the form")
    }
}

impl RunId {
    /// The run's name in receipts: 64 lowercase hex digits.
    pub fn chain(&self) -> Digest {
        Digest::of(format!("whipstitch run {}", self.0))
    }
}

/// The token that proves that a lease is not stale. Grows with each claim of the same run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Fence(pub i64);
