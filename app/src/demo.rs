//! The whole path on one machine: a local forge with a broken pull request, a signed webhook, a sealed
//! repair, a check run with receipts; and, when asked, an authorized push.

mod seed;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jobs::id::{CommitId, RunId};
use jobs::job::AgentSpec;
use jobs::run::Outcome;
use jobs::store::runs;
use receipts::Expected;
use receipts::report::{Files, Request};
use runners::progress::Progress;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use webhooks::forge::{CheckRun, CheckStatus};
use webhooks::local::{LocalForge, Seeded, SignedDelivery};

use crate::cli::{Demo, DemoAgent};
use crate::commands::serve::cancel_at_signal;
use crate::commands::{self, outcome_words, print};
use crate::config::Config;
use crate::service::Service;
use crate::show::{self, Watcher};

pub use seed::{BRANCH, CONTRIBUTOR, MAINTAINER};

/// Runs the demo.
pub async fn run(arguments: &Demo) -> anyhow::Result<ExitCode> {
    let place = Place::make(arguments.dir.as_deref())?;
    let listener = tokio::net::TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another with --listen", arguments.listen))?;
    let mut config = Config::of_folder(&place.folder);
    config.server.listen = listener.local_addr()?;
    make_secret(&place.folder)?;
    let service = Arc::new(Service::open(config).await?);
    let local = service.local.clone().context("a demo has a local forge")?;
    let seeded = seed::seed(&local, arguments.agent)?;
    let agent = agent(&service, arguments.agent)?;
    print(&format!(
        "data folder  {}\nforge        {} pull request #{}, branch {BRANCH}, opened by {CONTRIBUTOR}\n\n",
        place.folder.display(),
        seeded.repository,
        seeded.pull_request,
    ));
    let cancel = CancellationToken::new();
    let (progress, watching) = broadcast::channel(1024);
    let serving = tokio::spawn(Arc::clone(&service).serve(listener, agent, progress, cancel.clone()));
    let stopping = tokio::spawn(cancel_at_signal(cancel.clone()));
    let shown = tokio::select! {
        shown = show(&service, &local, &seeded, arguments, watching) => shown,
        () = cancel.cancelled() => bail!("stopped before the run ended"),
    };
    if shown.is_ok() && !arguments.once {
        cancel.cancelled().await;
    }
    cancel.cancel();
    serving.await?.and(stopping.await.map_err(Into::into)).and(shown)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for a repair by a comment, watches it, and shows what came of it.
async fn show(
    service: &Service,
    local: &LocalForge,
    seeded: &Seeded,
    arguments: &Demo,
    watching: broadcast::Receiver<Progress>,
) -> anyhow::Result<()> {
    print(&format!("{MAINTAINER} comments: /whipstitch fix\n\n"));
    let comment = local.comment_as(MAINTAINER, &seeded.repository, seeded.pull_request, "/whipstitch fix")?;
    post(service, comment).await?;
    let run = watch(watching).await?;
    let check = completed(local, seeded).await?;
    print(&format!("\n{}\n", show::check_run(&check)));
    let view = runs::view(&service.db, &run).await?.context("the run is in the database")?;
    let jobs::run::RunState::Finished { outcome } = &view.run.state else { bail!("the run has no end") };
    prove(service, &run, &ALL)?;
    let expected = match arguments.agent {
        DemoAgent::Fixers | DemoAgent::Replay => "Succeeded",
        DemoAgent::ReplayWrong => "Failed",
    };
    ensure!(outcome_words(outcome) == expected, "the run should have ended as {expected}: {outcome:?}");
    let head = local.branch_head(&seeded.repository, BRANCH)?;
    ensure!(head == seeded.head, "the branch moved without an authorization");
    print(&format!("Nothing was pushed: {BRANCH} is still at {}.\n", short(&head)));
    match (outcome, arguments.apply) {
        (Outcome::Succeeded, true) => apply(service, local, seeded, &run).await?,
        (Outcome::Succeeded, false) if arguments.once => {
            print(&format!("\nauthorize  {}\n", command(service, &run)))
        }
        (Outcome::Succeeded, false) => say_how_to_apply(service, local, &run),
        (Outcome::Failed { .. } | Outcome::Halted { .. }, _) => print("No patch is offered.\n"),
    }
    Ok(())
}

/// Sends a delivery to the service's door, as a forge does.
async fn post(service: &Service, delivery: SignedDelivery) -> anyhow::Result<()> {
    let url = format!("http://{}/webhooks/local", service.config.server.listen);
    let sent = reqwest::Client::new().post(url).headers(delivery.headers).body(delivery.body).send().await?;
    ensure!(sent.status().is_success(), "the webhook was answered with {}", sent.status());
    Ok(())
}

/// Shows the run's progress until its end.
async fn watch(mut watching: broadcast::Receiver<Progress>) -> anyhow::Result<RunId> {
    let watcher = Watcher::default();
    loop {
        match watching.recv().await {
            Ok(progress) if watcher.see(&progress).is_some() => return Ok(progress.run),
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => bail!("the service ended before the run did"),
        }
    }
}

/// The check run, once the forge has its conclusion.
async fn completed(local: &LocalForge, seeded: &Seeded) -> anyhow::Result<CheckRun> {
    for _ in 0..600 {
        let found = local.check_runs(&seeded.repository, &seeded.head)?;
        if let Some(run) =
            found.into_iter().find(|run| matches!(run.check.status, CheckStatus::Completed { .. }))
        {
            return Ok(run.check);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the forge was not told the run's end within 30 s")
}

/// All that the bundle of a run holds when it has ended.
const ALL: Request<'static> = Request {
    keyring: None,
    expected: Expected { head: None, count: None },
    receipt: None,
    journal: true,
    authorizations: false,
    exports: true,
};

/// Verifies the bundle as anyone could, and says how.
fn prove(service: &Service, run: &RunId, request: &Request<'_>) -> anyhow::Result<()> {
    let (folder, key) = (service.bundle(run), service.signer.public_key());
    let report = receipts::report::verify(&Files::at(&folder), &key, request);
    let verdict = report.chain.verdict;
    let file = service.config.server.data_folder.join("key.pub");
    print(&format!(
        "receipts  {verdict}, {} of them{}\nbundle    {}\nverify    whipstitch verify {} --key {}\n\n",
        report.chain.rows.len(),
        report.lines[1..].iter().map(|line| format!("\n          {line}")).collect::<String>(),
        folder.display(),
        folder.display(),
        file.display(),
    ));
    ensure!(report.exit_code == 0, "the receipts do not verify: {}", report.lines.join("; "));
    Ok(())
}

/// Authorizes as the maintainer, pushes, and compares the branch with what was verified.
async fn apply(service: &Service, local: &LocalForge, seeded: &Seeded, run: &RunId) -> anyhow::Result<()> {
    let view = runs::view(&service.db, run).await?.context("the run is in the database")?;
    let verified = webhooks::offer::verified(&view)?.tree;
    print(&format!("\n{MAINTAINER} authorizes the patch.\n"));
    let commit = commands::apply::push(service, run, MAINTAINER).await?;
    let head = local.branch_head(&seeded.repository, BRANCH)?;
    ensure!(head == commit, "the branch shows {head} and not the pushed commit {commit}");
    let pushed = local.commit(&seeded.repository, &commit)?;
    ensure!(pushed.tree == verified, "the pushed tree {} is not the verified tree {verified}", pushed.tree);
    print(&format!(
        "Pushed {} to {BRANCH}: its tree {} is the same tree that was verified.\n",
        short(&commit),
        pushed.tree
    ));
    prove(service, run, &Request { authorizations: true, ..ALL })
}

/// How to authorize where no page is up.
fn command(service: &Service, run: &RunId) -> String {
    format!("whipstitch apply {run} --dir {}", service.config.server.data_folder.display())
}

fn say_how_to_apply(service: &Service, local: &LocalForge, run: &RunId) {
    let listen = service.config.server.listen;
    print(&format!(
        "\nrun page   http://{listen}/runs/{run}\nauthorize  http://{listen}/login?token={}&run={run}  (then press the button)\n      or   {}\n",
        local.login_token(MAINTAINER),
        command(service, run),
    ));
}

fn agent(service: &Service, agent: DemoAgent) -> anyhow::Result<Option<AgentSpec>> {
    let patch = match agent {
        DemoAgent::Fixers => return Ok(Some(AgentSpec::Fixers)),
        DemoAgent::Replay => seed::RIGHT_PATCH,
        DemoAgent::ReplayWrong => seed::WRONG_PATCH,
    };
    Ok(Some(AgentSpec::Replay { patch: service.artifacts.put(patch.as_bytes())? }))
}

fn make_secret(folder: &Path) -> anyhow::Result<()> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    crate::keys::write_secret(&folder.join("webhook.secret"), &hex::encode(secret))
}

fn short(commit: &CommitId) -> String {
    commit.as_str().chars().take(12).collect()
}

/// The demo's folder; it is kept, so that the bundle can be verified and the patch applied later.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn make(folder: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match folder {
            Some(folder) => {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                let mut entries =
                    std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
                if entries.next().is_some() {
                    let text = format!("{} is not empty; a demo needs a folder of its own", folder.display());
                    return Err(commands::Usage(text).into());
                }
                std::path::absolute(folder)?
            }
            None => tempfile::Builder::new().prefix("whipstitch-demo-").tempdir()?.keep(),
        };
        Ok(Self { folder })
    }
}
