//! The demo's two repositories: one that does not compile, one with a logic bug.

use jobs::forge::Role;
use webhooks::local::{LocalError, LocalForge, SeedFile, SeedRepository, Seeded};

use crate::cli::DemoAgent;

/// Who opened the pull request, and who may authorize.
pub const CONTRIBUTOR: &str = "contributor";
pub const MAINTAINER: &str = "maintainer";
/// The pull request's branch.
pub const BRANCH: &str = "more";

/// Mends the logic bug, and does not.
pub const RIGHT_PATCH: &str = include_str!("../../demo/fares.patch");
pub const WRONG_PATCH: &str = include_str!("../../demo/fares-wrong.patch");

macro_rules! files {
    ($folder:literal: $($path:literal),+) => {
        vec![$(SeedFile::text($path, include_str!(concat!("../../demo/", $folder, "/", $path)))),+]
    };
}

/// Opens the repository that an agent's demo is about.
pub fn seed(local: &LocalForge, agent: DemoAgent) -> Result<Seeded, LocalError> {
    let seed = match agent {
        DemoAgent::Fixers => SeedRepository {
            name: "till".to_owned(),
            title: "Tell the customer the change".to_owned(),
            base: files!("till/base": "Cargo.toml", "Cargo.lock", "src/lib.rs", "tests/till.rs"),
            head: files!("till/head": "src/lib.rs", "tests/till.rs"),
            ..common()
        },
        DemoAgent::Replay | DemoAgent::ReplayWrong => SeedRepository {
            name: "fares".to_owned(),
            title: "Halve the fare from the fourth ride".to_owned(),
            base: files!("fares/base": "Cargo.toml", "Cargo.lock", "src/lib.rs", "tests/fares.rs"),
            head: files!("fares/head": "src/lib.rs", "tests/fares.rs"),
            ..common()
        },
    };
    local.seed(seed)
}

fn common() -> SeedRepository {
    SeedRepository {
        owner: "demo".to_owned(),
        name: String::new(),
        base: Vec::new(),
        head: Vec::new(),
        head_branch: BRANCH.to_owned(),
        title: String::new(),
        author: CONTRIBUTOR.to_owned(),
        roles: vec![(MAINTAINER.to_owned(), Role::Maintain), (CONTRIBUTOR.to_owned(), Role::Read)],
    }
}
