//! Databases and rows for the store's tests: each test runs on SQLite and on PostgreSQL.

use sqlx::{AssertSqlSafe, Connection as _};

use crate::check::{Check, Tool};
use crate::clock::Millis;
use crate::digest::Digest;
use crate::event::{Event, PullRequestChange};
use crate::forge::{Account, ForgeKind, PushTarget, Repository, Role, Subject};
use crate::id::RunId;
use crate::job::{AgentSpec, Goal, Guard, JobSpec, Limits, Request};
use crate::message::Address;

use super::deliveries::{Delivery, DeliveryKey};
use super::{Acceptance, Accepted, Db, Decision, Signed, accept, runs};

/// The moment at which tests begin.
pub const START: Millis = 1_800_000_000_000;
/// The lease that tests take.
pub const LEASE: Millis = 60_000;

/// Runs `test` on a new SQLite file, and on a new PostgreSQL database where `TEST_POSTGRES_URL` names
/// a server. Where CI promises one, its absence is a failure.
///
/// The PostgreSQL database of a failed test stays, to be looked at.
pub async fn each_db(test: impl AsyncFn(Db)) {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&sqlite_url(&folder)).await.unwrap();
    test(db.clone()).await;
    db.close().await;
    let Some(server) = postgres_server() else { return };
    let name = format!("whipstitch_{}", uuid::Uuid::new_v4().simple());
    let mut admin = sqlx::PgConnection::connect(server.as_str()).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut admin).await.unwrap();
    let mut url = server.clone();
    url.set_path(&name);
    let db = Db::open(url.as_str()).await.unwrap();
    test(db.clone()).await;
    db.close().await;
    let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
    sqlx::query(drop).execute(&mut admin).await.unwrap();
}

pub fn sqlite_url(folder: &tempfile::TempDir) -> String {
    format!("sqlite://{}", folder.path().join("test.db").display())
}

/// The same PostgreSQL database as another node sees it; `None` for SQLite, which has one node.
pub async fn second_node(db: &Db) -> Option<Db> {
    const SQL: &str = "SELECT CAST(current_database() AS TEXT)";
    let server = db.is_postgres().then(postgres_server).flatten()?;
    let mut tx = db.read().await.unwrap();
    let (name,) = fetch_optional!(tx, (String,), SQL).unwrap().unwrap();
    let mut url = server;
    url.set_path(&name);
    Some(Db::open(url.as_str()).await.unwrap())
}

fn postgres_server() -> Option<url::Url> {
    match std::env::var("TEST_POSTGRES_URL") {
        Ok(url) => Some(url.parse().expect("TEST_POSTGRES_URL is a postgres:// URL")),
        Err(_) => {
            let promised = std::env::var_os("WHIPSTITCH_CI").is_some_and(|value| value == "1");
            assert!(!promised, "CI must name a PostgreSQL server in TEST_POSTGRES_URL");
            None
        }
    }
}

pub fn repository() -> Repository {
    Repository {
        forge: ForgeKind::Local,
        owner: "octo".to_owned(),
        name: "widgets".to_owned(),
        installation: 7,
    }
}

pub fn address() -> Address {
    Address { repository: repository(), subject: Subject::PullRequest { number: 5 } }
}

pub fn account(login: &str) -> Account {
    Account { id: 42, login: login.to_owned() }
}

/// A job that was asked for by `origin`, on a commit of its own.
pub fn spec(origin: &str) -> JobSpec {
    JobSpec {
        repository: repository(),
        subject: Subject::PullRequest { number: 5 },
        goal: Goal::Repair,
        head: Digest::of(origin).to_string()[..40].parse().unwrap(),
        tree: "b".repeat(40).parse().unwrap(),
        base: "c".repeat(40).parse().unwrap(),
        fetch_ref: "refs/pull/5/head".to_owned(),
        push_target: PushTarget::Branch { name: "topic".to_owned() },
        base_branch: None,
        checks: vec![Check::new("tests", Tool::CargoTest, &["cargo", "test"])],
        limits: Limits::default(),
        agent: AgentSpec::Fixers,
        guard: Guard::default(),
        request: Request {
            actor: account("ada"),
            role: Role::Write,
            origin: origin.to_owned(),
            text: Digest::of("/whipstitch fix"),
        },
    }
}

/// Something signed; the store does not look into it.
pub fn signed(text: &str) -> Signed {
    Signed { bytes: text.as_bytes().to_vec(), signature: [7; 64] }
}

pub fn delivery(id: &str) -> Delivery {
    Delivery {
        key: DeliveryKey { forge: ForgeKind::Local, id: id.to_owned() },
        event: Event::PullRequest { repository: repository(), number: 5, change: PullRequestChange::Closed },
        body: b"{}".to_vec(),
        received_at: START,
    }
}

pub fn admit(origin: &str, semantic_key: &str, now: Millis) -> Accepted {
    Accepted {
        delivery: None,
        decision: Decision::Admit { spec: Box::new(spec(origin)), semantic_key: semantic_key.to_owned() },
        messages: Vec::new(),
        now,
    }
}

/// A queued run, unlike any other.
pub async fn queue(db: &Db, origin: &str, now: Millis) -> RunId {
    match accept(db, admit(origin, origin, now)).await.unwrap() {
        Acceptance::Queued { run, .. } => run,
        other => panic!("{other:?}"),
    }
}

/// A claimed run, unlike any other.
pub async fn running(db: &Db, origin: &str, now: Millis) -> runs::Claimed {
    let run = queue(db, origin, now).await;
    let claimed = runs::claim(db, "node", LEASE, now).await.unwrap().unwrap();
    assert_eq!(claimed.run, run);
    claimed
}
