//! What the store does in a second, on both databases: durable deliveries, claims, journal appends.
//!
//! `cargo bench -p jobs` uses a new SQLite file in the temporary folder, and the PostgreSQL server of
//! `TEST_POSTGRES_URL` where it is set (a database named `whipstitch_bench`, which must not exist).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and ends at the first fault")]

use std::time::Instant;

use jobs::check::{Check, Tool};
use jobs::digest::Digest;
use jobs::event::Event;
use jobs::forge::{Account, ForgeKind, PushTarget, Repository, Role, Subject};
use jobs::job::{AgentSpec, Goal, Guard, JobSpec, Limits, Request};
use jobs::step::{StepKind, StepState};
use jobs::store::deliveries::{Delivery, DeliveryKey};
use jobs::store::steps::NewStep;
use jobs::store::{Accepted, Db, Decision, Ingest, Signed, accept, journal, runs, steps};
use sqlx::Connection as _;

const NOW: i64 = 1_800_000_000_000;
const LEASE: i64 = 3_600_000;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}", folder.path().join("bench.db").display())).await.unwrap();
        measure("sqlite", &db).await;
        db.close().await;
        if let Ok(server) = std::env::var("TEST_POSTGRES_URL") {
            let mut admin = sqlx::PgConnection::connect(&server).await.unwrap();
            sqlx::query("CREATE DATABASE whipstitch_bench").execute(&mut admin).await.unwrap();
            let mut url: url::Url = server.parse().unwrap();
            url.set_path("whipstitch_bench");
            let db = Db::open(url.as_str()).await.unwrap();
            measure("postgresql", &db).await;
            db.close().await;
            sqlx::query("DROP DATABASE whipstitch_bench WITH (FORCE)").execute(&mut admin).await.unwrap();
        }
    });
}

async fn measure(database: &str, db: &Db) {
    let print = |what: &str, count: usize, begun: Instant| {
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        println!("{database:<11} {what:<52} {rate:>9.0} /s");
    };

    for at_once in [1, 64] {
        let begun = Instant::now();
        let count = deliver(db, at_once, 100 * at_once).await;
        print(&format!("deliveries made durable, {at_once} at once"), count, begun);
    }

    let begun = Instant::now();
    for number in 0..400 {
        admit(db, number).await;
    }
    print("jobs admitted (job, run, message)", 400, begun);

    for workers in [1, 12] {
        let begun = Instant::now();
        let count = claim(db, workers, 200).await;
        print(&format!("runs claimed, {workers} at once"), count, begun);
    }

    admit(db, 400).await;
    let run = runs::claim(db, "bench", LEASE, NOW).await.unwrap().unwrap();
    let begun = Instant::now();
    for _ in 0..300 {
        journal::append(db, &run.run, run.fence, &line(), NOW).await.unwrap();
    }
    print("journal lines appended, one run", 300, begun);
    let begun = Instant::now();
    for _ in 0..300 {
        let state = StepState::Begun;
        let step = NewStep { kind: StepKind::Verify, iteration: 0, state, entry: line(), at: NOW };
        steps::append(db, &run.run, run.fence, step).await.unwrap();
    }
    print("steps appended (with their journal lines), one run", 300, begun);
    let begun = Instant::now();
    for _ in 0..100 {
        runs::view(db, &run.run).await.unwrap().unwrap();
    }
    print("views of a run with 300 steps", 100, begun);
}

async fn deliver(db: &Db, at_once: usize, count: usize) -> usize {
    let (ingest, task) = Ingest::start(db.clone());
    let senders: Vec<_> = (0..at_once)
        .map(|sender| {
            let ingest = ingest.clone();
            tokio::spawn(async move {
                for number in 0..count / at_once {
                    let id = format!("{at_once}-{sender}-{number}");
                    let key = DeliveryKey { forge: ForgeKind::Github, id };
                    let body = vec![b'x'; 8 << 10];
                    ingest
                        .record(Delivery { key, event: Event::Ping, body, received_at: NOW })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    drop(ingest);
    task.await.unwrap();
    count
}

async fn claim(db: &Db, workers: usize, count: usize) -> usize {
    let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(count));
    let claimers: Vec<_> = (0..workers)
        .map(|worker| {
            let (db, left) = (db.clone(), left.clone());
            tokio::spawn(async move {
                use std::sync::atomic::Ordering::SeqCst;
                while left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                    while runs::claim(&db, &worker.to_string(), LEASE, NOW).await.unwrap().is_none() {}
                }
            })
        })
        .collect();
    for claimer in claimers {
        claimer.await.unwrap();
    }
    count
}

async fn admit(db: &Db, number: usize) {
    let decision = Decision::Admit { spec: Box::new(spec(number)), semantic_key: number.to_string() };
    accept(db, Accepted { delivery: None, decision, messages: Vec::new(), now: NOW }).await.unwrap();
}

fn line() -> Signed {
    Signed { bytes: vec![b'{'; 400], signature: [0; 64] }
}

fn spec(number: usize) -> JobSpec {
    let commit = |what: &str| Digest::of(format!("{what} {number}")).to_string()[..40].to_owned();
    JobSpec {
        repository: Repository {
            forge: ForgeKind::Github,
            owner: "octo".to_owned(),
            name: "widgets".to_owned(),
            installation: 7,
        },
        subject: Subject::PullRequest { number: 5 },
        goal: Goal::Repair,
        head: commit("head").parse().unwrap(),
        tree: commit("tree").parse().unwrap(),
        base: commit("base").parse().unwrap(),
        fetch_ref: "refs/pull/5/head".to_owned(),
        push_target: PushTarget::Branch { name: "topic".to_owned() },
        base_branch: None,
        checks: vec![Check::new("tests", Tool::CargoTest, &["cargo", "test"])],
        limits: Limits::default(),
        agent: AgentSpec::Fixers,
        guard: Guard::default(),
        request: Request {
            actor: Account { id: 1, login: "ada".to_owned() },
            role: Role::Write,
            origin: format!("comment/{number}"),
            text: Digest::of("/whipstitch fix"),
        },
    }
}
