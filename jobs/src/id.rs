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

/// A UUIDv7 whose 26 bits after the time count up, so that ids which one process makes in the same
/// millisecond sort in the order in which they were made; 48 random bits tell processes apart.
fn new_uuid(now_ms: i64) -> uuid::Uuid {
    static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let ms = u64::try_from(now_ms).unwrap_or(0);
    let place = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed) & 0x03ff_ffff;
    let mut tail = [0; 10];
    // The builder puts version and variant over the upper bits of the first and the third byte.
    tail[..2].copy_from_slice(&((place >> 14) as u16).to_be_bytes());
    tail[2..4].copy_from_slice(&((place & 0x3fff) as u16).to_be_bytes());
    tail[4..].copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[10..]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_sort_as_they_were_made() {
        let made: Vec<_> = (0..40_000).map(|_| MessageId::fresh(1_800_000_000_000)).collect();
        assert!(made.is_sorted());
        assert!(MessageId::fresh(1_800_000_000_001) > made[39_999]);
        for id in &made[..3] {
            let uuid: uuid::Uuid = id.as_str().parse().unwrap();
            assert_eq!(uuid.get_version_num(), 7);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(id.as_str().parse::<MessageId>().unwrap(), *id);
        }
    }

    #[test]
    fn an_id_has_exactly_one_text() {
        let run = RunId::fresh(0);
        for other in [run.as_str().to_uppercase(), run.as_str().replace('-', ""), format!("{{{run}}}")] {
            assert!(other.parse::<RunId>().is_err(), "{other}");
        }
        assert!("A".repeat(40).parse::<CommitId>().is_err());
        assert!("a".repeat(41).parse::<TreeId>().is_err());
        let job = JobId::of(Digest::of("job"));
        assert_eq!(job.as_str().parse::<JobId>().unwrap(), job);
        assert_eq!(job.digest(), Digest::of("job"));
    }
}
