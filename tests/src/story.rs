//! A whole service around one repository with one pull request: the real door, admission and reports,
//! before the simulated GitHub or the local forge. What a runner would do is scripted (`scripted`).
//!
//! Nothing runs by itself: a story sends something, lets the workers work until nothing is left, and
//! looks at what the forge shows.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use jobs::artifacts::Artifacts;
use jobs::authorization::PushResult;
use jobs::clock::ManualClock;
use jobs::forge::{ForgeKind, Repository, Role};
use jobs::id::RunId;
use jobs::run::RunState;
use jobs::store::{Db, Ingest, RunSummary, RunView, runs};
use receipts::Signer;
use webhooks::forge::{CheckStatus, Forge, Forges, Inbound};
use webhooks::github::{GitHub, GitHubConfig};
use webhooks::local::{LocalForge, SeedFile, SeedRepository, SignedDelivery};
use webhooks::receive::{Door, router};
use webhooks::{admission, report};

use crate::git::BareRepository;
use crate::github::{self, Delivery, HEAD_BRANCH, INSTALLATION, SimulatedGitHub};

/// The moment at which stories begin, in milliseconds since 1970.
pub const START: i64 = 1_800_000_000_000;
/// The repository of every story.
pub const FULL: &str = "acme/anvil";
/// The fork of stories that have one.
pub const FORK: &str = "forker/anvil";
/// The seed of the key that signs receipts.
pub const SEED: [u8; 32] = [7; 32];

/// Who has which role in every story; `author` opened the pull request.
pub const PEOPLE: [(&str, &str, Role); 4] = [
    ("ada", "write", Role::Write),
    ("grace", "maintain", Role::Maintain),
    ("rita", "read", Role::Read),
    ("author", "read", Role::Read),
];

const BASE: [(&str, &str); 2] =
    [("Cargo.toml", "[package]\nname = \"anvil\"\n"), ("src/lib.rs", "pub fn one() -> u32 { 1 }\n")];
const HEAD: [(&str, &str); 1] = [("src/lib.rs", "pub fn one() -> u32 { 2 }\n")];

/// The forge of a story.
pub enum Stage {
    GitHub(SimulatedGitHub),
    Local(LocalForge),
}

/// Which forge a story is played on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    GitHub,
    Local,
}

/// One service with its forge.
pub struct World {
    pub stage: Stage,
    pub clock: ManualClock,
    pub db: Db,
    pub repository: Repository,
    pub number: i64,
    pub admission: admission::Context,
    pub report: report::Context,
    pub folder: tempfile::TempDir,
    /// The app itself, where the forge is GitHub.
    pub app: Option<GitHub>,
    pub ingest: Ingest,
    ledger: Ledger,
    door: SocketAddr,
}

/// A webhook request.
#[derive(Clone, Debug)]
pub struct Post {
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A check run as people see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    pub id: i64,
    pub external_id: String,
    /// `queued`, `in_progress`, or the conclusion.
    pub state: String,
    pub title: String,
    pub summary: String,
    pub text: String,
    pub buttons: Vec<String>,
}

/// Names the file in which stories keep what they wrote, where one wants to know of all of them at once.
/// Every token that they mint may then read contents and never write them.
pub const LEDGER: &str = "WHIPSTITCH_STORY_LEDGER";

/// What the stories of a process wrote, one line each.
struct Ledger(Option<std::path::PathBuf>);

impl Ledger {
    fn open() -> Self {
        Self(std::env::var_os(LEDGER).map(Into::into))
    }

    const fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    fn note(&self, line: &str) {
        use std::io::Write as _;
        let Some(path) = &self.0 else { return };
        let mut file =
            std::fs::OpenOptions::new().append(true).create(true).open(path).expect("the ledger can be kept");
        file.write_all(format!("{line}\n").as_bytes()).expect("the ledger can be kept");
    }
}

/// Plays a story on both forges.
pub async fn each_forge(story: impl AsyncFn(World)) {
    for on in [On::GitHub, On::Local] {
        story(World::new(on).await.expect("the story's world is made")).await;
    }
}

impl World {
    /// A fresh world.
    pub async fn new(on: On) -> Result<Self> {
        match on {
            On::GitHub => {
                let clock = ManualClock::at(START);
                let github = SimulatedGitHub::start(Arc::new(clock.clone()))?;
                github.seed_repository(FULL, &BASE)?;
                for (login, role, _) in PEOPLE {
                    github.set_role(FULL, login, role)?;
                }
                let head: Vec<_> = HEAD.iter().map(|(path, text)| (*path, Some(*text))).collect();
                let (number, _) = github.open_pull(FULL, FULL, "author", &head)?;
                Self::on_github(github, clock, number).await
            }
            On::Local => Self::on_local().await,
        }
    }

    /// A world before a GitHub whose pull request comes from a fork that lets maintainers push.
    pub async fn with_fork() -> Result<Self> {
        let clock = ManualClock::at(START);
        let github = SimulatedGitHub::start(Arc::new(clock.clone()))?;
        github.seed_repository(FULL, &BASE)?;
        for (login, role, _) in PEOPLE {
            github.set_role(FULL, login, role)?;
        }
        github.seed_fork(FULL, FORK)?;
        let head: Vec<_> = HEAD.iter().map(|(path, text)| (*path, Some(*text))).collect();
        let (number, _) = github.open_pull(FULL, FORK, "author", &head)?;
        Self::on_github(github, clock, number).await
    }

    /// A world before a GitHub that the story has seeded itself.
    pub async fn on_github(github: SimulatedGitHub, clock: ManualClock, number: i64) -> Result<Self> {
        let app = GitHub::new(
            GitHubConfig {
                api: github.api(),
                web: github.web(),
                app_id: github::APP_ID,
                private_key: github.private_key().into(),
                webhook_secret: github::WEBHOOK_SECRET.into(),
            },
            Arc::new(clock.clone()),
        )?;
        let repository = Repository {
            forge: ForgeKind::Github,
            owner: "acme".into(),
            name: "anvil".into(),
            installation: INSTALLATION,
        };
        let (forge, inbound) = (Arc::new(app.clone()), Arc::new(app.clone()));
        let folder = tempfile::tempdir()?;
        let place = (repository, number);
        let world = Self::open(Stage::GitHub(github), clock, folder, forge, inbound, place).await?;
        Ok(Self { app: Some(app), ..world })
    }

    async fn on_local() -> Result<Self> {
        crate::install_crypto();
        let (clock, folder) = (ManualClock::at(START), tempfile::tempdir()?);
        let home = folder.path().join("forge");
        let forge = LocalForge::open_with_clock(home, "a local secret".into(), Arc::new(clock.clone()))?;
        let files =
            |files: &[(&str, &str)]| files.iter().map(|(path, text)| SeedFile::text(path, text)).collect();
        let seeded = forge.seed(SeedRepository {
            owner: "acme".into(),
            name: "anvil".into(),
            base: files(&BASE),
            head: files(&HEAD),
            head_branch: HEAD_BRANCH.into(),
            title: "Change it".into(),
            author: "author".into(),
            roles: PEOPLE.iter().map(|(login, _, role)| ((*login).to_owned(), *role)).collect(),
        })?;
        let place = (seeded.repository, seeded.pull_request);
        let (told, inbound) = (Arc::new(forge.clone()), Arc::new(forge.clone()));
        Self::open(Stage::Local(forge), clock, folder, told, inbound, place).await
    }

    async fn open(
        stage: Stage,
        clock: ManualClock,
        folder: tempfile::TempDir,
        forge: Arc<dyn Forge>,
        inbound: Arc<dyn Inbound>,
        (repository, number): (Repository, i64),
    ) -> Result<Self> {
        let db = Db::open(&format!("sqlite://{}", folder.path().join("whipstitch.db").display())).await?;
        let forges = Forges::new(vec![forge]);
        let shared = Arc::new(clock.clone());
        let (ingest, _task) = Ingest::start(db.clone());
        let door = Door::new(vec![(repository.forge, inbound)], ingest.clone(), shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, router(door)).await });
        let report = report::Context {
            db: db.clone(),
            forges: forges.clone(),
            artifacts: Artifacts::open(folder.path().join("artifacts"))?,
            bundles: folder.path().join("bundles"),
            signer: Arc::new(Signer::from_seed(&SEED)),
            clock: shared.clone(),
            node: "story".into(),
            public_url: Some("https://whipstitch.example".parse()?),
            mask: report::Mask::new(vec!["a very secret value".into()]),
        };
        let mut admission = admission::Context::new(db.clone(), forges, shared, "story");
        admission.public_url = report.public_url.clone();
        let ledger = Ledger::open();
        if let Stage::GitHub(github) = &stage {
            if ledger.is_kept() {
                github.hold_contents_to_read();
                ledger.note("a story on GitHub");
            }
            github.set_webhook(format!("http://{address}/webhooks/github").parse()?);
        }
        let app = None;
        Ok(Self {
            stage,
            clock,
            db,
            repository,
            number,
            admission,
            report,
            folder,
            app,
            ingest,
            ledger,
            door: address,
        })
    }

    /// The simulated GitHub of this world.
    pub fn github(&self) -> &SimulatedGitHub {
        match &self.stage {
            Stage::GitHub(github) => github,
            Stage::Local(_) => panic!("this story is on the local forge"),
        }
    }

    /// A person comments; the request is not sent yet.
    pub fn comment(&self, login: &str, body: &str) -> Post {
        match &self.stage {
            Stage::GitHub(github) => {
                Post::of_github(&github.comment(FULL, self.number, login, body).expect("a comment"))
            }
            Stage::Local(forge) => Post::of_local(
                &forge.comment_as(login, &self.repository, self.number, body).expect("a comment"),
            ),
        }
    }

    /// A person clicks a button; the request is not sent yet.
    pub fn click(&self, login: &str, check_run: i64, button: &str) -> Post {
        match &self.stage {
            Stage::GitHub(github) => {
                Post::of_github(&github.press(FULL, check_run, login, button).expect("a click"))
            }
            Stage::Local(forge) => {
                Post::of_local(&forge.click_as(login, &self.repository, check_run, button).expect("a click"))
            }
        }
    }

    /// Somebody pushes one more commit to the pull request's branch; the webhook is not sent yet.
    pub fn push(&self, text: &str) -> Post {
        match &self.stage {
            Stage::GitHub(github) => {
                github.push_files(FULL, HEAD_BRANCH, &[("src/lib.rs", Some(text))]).expect("a push");
                Post::of_github(
                    &github.pull_request_event(FULL, self.number, "synchronize").expect("an event"),
                )
            }
            Stage::Local(forge) => {
                let files = [SeedFile::text("src/lib.rs", text)];
                let pushed = forge.push_as("author", &self.repository, self.number, &files).expect("a push");
                Post::of_local(&pushed.1)
            }
        }
    }

    /// Somebody closes the pull request; the webhook is not sent yet.
    pub fn close(&self) -> Post {
        match &self.stage {
            Stage::GitHub(github) => {
                github.close_pull(FULL, self.number).expect("it is closed");
                Post::of_github(&github.pull_request_event(FULL, self.number, "closed").expect("an event"))
            }
            Stage::Local(forge) => {
                Post::of_local(&forge.close(&self.repository, self.number).expect("it is closed"))
            }
        }
    }

    /// Sends a request through the door; gives the status.
    pub async fn send(&self, post: &Post) -> u16 {
        let url = format!("http://{}/webhooks/{}", self.door, self.repository.forge.name());
        let mut request = reqwest::Client::new().post(url).body(post.body.clone());
        for (name, value) in &post.headers {
            request = request.header(name, value);
        }
        request.send().await.expect("the door answers").status().as_u16()
    }

    /// Sends a request and lets the workers work until nothing is left.
    pub async fn deliver(&self, post: &Post) {
        let status = self.send(post).await;
        assert!((200..300).contains(&status), "the door answered {status}");
        self.settle().await;
    }

    /// A person comments, and all that follows happens.
    pub async fn say(&self, login: &str, body: &str) {
        self.deliver(&self.comment(login, body)).await;
    }

    /// Lets the workers work until nothing is left that may be done now.
    pub async fn settle(&self) {
        while self.settle_once().await {}
    }

    async fn settle_once(&self) -> bool {
        let decided = admission::work_one(&self.admission).await.expect("the store works");
        let told = self.tell_once().await;
        decided != admission::Worked::Nothing || told != report::Worked::Nothing
    }

    /// Tells the forge one message, and holds the one promise of every story: nothing is written to a
    /// repository before a person's yes is recorded.
    pub async fn tell_once(&self) -> report::Worked {
        let written = |world: &Self| match &world.stage {
            Stage::GitHub(github) => github.writes().len(),
            Stage::Local(_) => 0,
        };
        let before = written(self);
        let told = report::work_one(&self.report).await.expect("the store works");
        if written(self) > before {
            let mut authorized = false;
            for run in self.runs().await {
                let recorded = self.view(&run.id).await.authorizations;
                let is_yes =
                    |result: &Option<PushResult>| !matches!(result, Some(PushResult::Declined { .. }));
                authorized |= recorded.iter().any(|recorded| is_yes(&recorded.result));
            }
            self.ledger.note(if authorized { "authorized" } else { "unauthorized" });
            assert!(authorized, "a write was attempted before any authorization");
        }
        told
    }

    /// Lets time pass, with the workers at work, until nothing waits any more or `ms` are over.
    pub async fn wait(&self, ms: i64) {
        for _ in 0..ms.div_euclid(1_000) {
            self.clock.advance(1_000);
            self.settle().await;
        }
    }

    /// All runs, newest first.
    pub async fn runs(&self) -> Vec<RunSummary> {
        runs::list(&self.db, 1_000).await.expect("the store works")
    }

    /// The newest run's state.
    pub async fn state(&self) -> RunState {
        self.runs().await.first().expect("there is a run").state.clone()
    }

    /// All that belongs to a run.
    pub async fn view(&self, run: &RunId) -> RunView {
        runs::view(&self.db, run).await.expect("the store works").expect("there is such a run")
    }

    /// The check runs on a commit, oldest first.
    pub fn checks_on(&self, commit: &str) -> Vec<Shown> {
        match &self.stage {
            Stage::GitHub(github) => {
                github.check_runs(FULL, commit).into_iter().map(Shown::of_github).collect()
            }
            Stage::Local(forge) => {
                let commit = commit.parse().expect("a commit's id");
                let found = forge.check_runs(&self.repository, &commit).expect("the forge is readable");
                found.into_iter().map(Shown::of_local).collect()
            }
        }
    }

    /// The one check run on a commit.
    pub fn check_on(&self, commit: &str) -> Shown {
        let mut checks = self.checks_on(commit);
        assert_eq!(checks.len(), 1, "{checks:#?}");
        checks.remove(0)
    }

    /// What the app has commented, oldest first.
    pub fn replies(&self) -> Vec<String> {
        match &self.stage {
            Stage::GitHub(github) => {
                let comments = github.comments(FULL, self.number).into_iter();
                comments.filter(|comment| comment.by_app).map(|comment| comment.body).collect()
            }
            Stage::Local(forge) => {
                let comments = forge.comments(&self.repository, self.number).expect("the forge is readable");
                comments
                    .into_iter()
                    .filter(|comment| comment.author.is_none())
                    .map(|comment| comment.body)
                    .collect()
            }
        }
    }

    /// The only reply so far.
    pub fn reply(&self) -> String {
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "{replies:#?}");
        replies.remove(0)
    }

    /// The bare repository itself.
    pub fn git(&self) -> BareRepository {
        match &self.stage {
            Stage::GitHub(github) => github.git(FULL).expect("the repository exists"),
            Stage::Local(forge) => {
                BareRepository::open(&forge.repository_path(&self.repository).expect("a plain name"))
            }
        }
    }

    /// Where requests are sent to.
    pub const fn door(&self) -> SocketAddr {
        self.door
    }

    /// The pull request's head, also of a fork's.
    pub fn pull_head(&self) -> String {
        let shown = self.git().resolve(&format!("refs/pull/{}/head", self.number)).expect("git works");
        shown.expect("the pull request exists")
    }

    /// The commit that the pull request's branch shows.
    pub fn head(&self) -> String {
        let shown = self.git().resolve(&format!("refs/heads/{HEAD_BRANCH}")).expect("git works");
        shown.expect("the branch exists")
    }

    /// Gives a person a role from now on.
    pub fn set_role(&self, login: &str, role: Role) {
        match &self.stage {
            Stage::GitHub(github) => {
                github.set_role(FULL, login, role.name()).expect("the repository exists");
            }
            Stage::Local(forge) => {
                forge.set_role(&self.repository, login, role).expect("the repository exists");
            }
        }
    }
}

impl Post {
    /// GitHub's request.
    pub fn of_github(delivery: &Delivery) -> Self {
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("x-github-delivery", delivery.guid.clone()),
            ("x-github-event", delivery.event.clone()),
            ("x-hub-signature-256", delivery.signature()),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Self { headers, body: delivery.body.clone().into_bytes() }
    }

    fn of_local(delivery: &SignedDelivery) -> Self {
        let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.to_string(), value.to_str().expect("a plain header").to_owned())
        };
        Self { headers: delivery.headers.iter().map(text).collect(), body: delivery.body.clone() }
    }

    /// The same with another value of a header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.headers.retain(|(header, _)| header != name);
        changed.headers.push((name.to_owned(), value.to_owned()));
        changed
    }

    /// The same without a header.
    pub fn without(&self, name: &str) -> Self {
        let mut changed = self.clone();
        changed.headers.retain(|(header, _)| header != name);
        changed
    }

    /// The same body under a new delivery id, as anybody could send it again.
    pub fn under_a_fresh_id(&self) -> Self {
        self.with("x-github-delivery", &uuid::Uuid::new_v4().to_string())
    }
}

impl Shown {
    fn of_github(run: github::CheckRun) -> Self {
        let button = |action: &serde_json::Value| action["identifier"].as_str().map(str::to_owned);
        Self {
            id: run.id,
            external_id: run.external_id,
            state: run.conclusion.unwrap_or(run.status),
            title: run.title,
            summary: run.summary,
            text: run.text,
            buttons: run.actions.iter().filter_map(button).collect(),
        }
    }

    fn of_local(run: webhooks::local::LocalCheckRun) -> Self {
        let check = run.check;
        let state = match check.status {
            CheckStatus::Queued => "queued",
            CheckStatus::InProgress => "in_progress",
            CheckStatus::Completed { conclusion, .. } => conclusion.name(),
        };
        Self {
            id: run.id,
            external_id: check.external_id,
            state: state.to_owned(),
            title: check.title,
            summary: check.summary,
            text: check.text.unwrap_or_default(),
            buttons: check.actions.into_iter().map(|action| action.identifier).collect(),
        }
    }
}

/// The run that a story is about, as its id.
pub fn newest(runs: &[RunSummary]) -> Result<RunId> {
    Ok(runs.first().context("there is no run")?.id.clone())
}
