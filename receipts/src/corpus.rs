//! The corpus of cases in `vectors/`, composed from fixed keys: good evidence, and each attack on it.
//!
//! A case says by hand which verdict it must have; the file records the whole line, and both verifiers
//! run the file.

mod bounds;
mod chains;
mod keyrings;
mod members;
mod parts;
mod tests;
mod world;

use std::collections::BTreeMap;

use crate::report::{Files, Report, Request, verify};

/// A file of a case: bytes, or one character many times (so that the corpus itself stays small).
#[derive(Clone)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    Repeat { before: String, unit: &'static str, times: usize, after: String },
}

impl Content {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Repeat { before, unit, times, after } => {
                [before.as_bytes(), unit.repeat(*times).as_bytes(), after.as_bytes()].concat()
            }
        }
    }
}

/// Evidence, what is asked of it, and the verdict.
pub(crate) struct Case {
    pub name: String,
    pub key: Vec<u8>,
    pub request: Request<'static>,
    /// Whether its file [`KEYRING`] is given as a keyring.
    pub keyring: bool,
    pub files: BTreeMap<String, Content>,
    /// The verdict's word of the last line.
    pub verdict: String,
}

/// The keyring's file in a case's files.
const KEYRING: &str = "signing.keyring";

impl Case {
    /// Verifies the case as a caller would.
    pub(crate) fn report(&self) -> Report {
        let keyring = self.keyring.then(|| self.files[KEYRING].bytes());
        verify(&self.evidence(), &self.key, &Request { keyring: keyring.as_deref(), ..self.request })
    }

    pub(crate) fn evidence(&self) -> Files {
        Files::Memory(self.files.iter().map(|(name, content)| (name.clone(), content.bytes())).collect())
    }

    /// The arguments of both verifiers' command lines after the bundle and the key.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let Request { keyring: _, expected, receipt, journal, authorizations, exports } = &self.request;
        if self.keyring {
            arguments.extend(["--keyring".to_owned(), KEYRING.to_owned()]);
        }
        if let Some(head) = expected.head {
            arguments.extend(["--expect-head".to_owned(), crate::key::hex(&head)]);
        }
        if let Some(count) = expected.count {
            arguments.extend(["--expect-count".to_owned(), count.to_string()]);
        }
        if let Some(seq) = receipt {
            arguments.extend(["--receipt".to_owned(), seq.to_string()]);
        }
        let parts = [(journal, "--journal"), (authorizations, "--authorizations"), (exports, "--exports")];
        arguments.extend(parts.into_iter().filter(|(asked, _)| **asked).map(|(_, name)| name.to_owned()));
        arguments
    }
}

/// All cases, in the order of the file.
pub(crate) fn cases() -> Vec<Case> {
    let world = world::World::new();
    let mut cases = chains::cases(&world);
    cases.extend(members::cases(&world));
    cases.extend(parts::cases(&world));
    cases.extend(keyrings::cases(&world));
    cases
}
