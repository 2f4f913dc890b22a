//! `apply`: a person's yes by the command line, on the local forge.

use std::process::ExitCode;
use std::sync::Arc;

use jobs::authorization::PushResult;
use jobs::forge::Account;
use jobs::id::{AuthorizationId, CommitId, RunId};
use jobs::store::{authorizations, runs};
use webhooks::authorize::{Authorized, authorize};
use webhooks::report;

use super::{Usage, config_at, print, run_id};
use crate::cli::Apply;
use crate::service::Service;

pub async fn run(arguments: &Apply) -> anyhow::Result<ExitCode> {
    let id = run_id(&arguments.run)?;
    let config = config_at(&arguments.place)?;
    crate::service::open_existing_database(&config).await?.close().await;
    let service = Arc::new(Service::open(config).await?);
    let commit = push(&service, &id, &arguments.login).await?;
    print(&format!("pushed as commit {commit}\n"));
    Ok(ExitCode::SUCCESS)
}

/// Records the yes of a local account and sees the push through.
pub async fn push(service: &Service, run: &RunId, login: &str) -> anyhow::Result<CommitId> {
    let authorization = record(service, run, login).await?;
    let reporting = service.reporting();
    loop {
        let recorded = authorizations::find(&service.db, &authorization).await?;
        match recorded.and_then(|recorded| recorded.result) {
            Some(PushResult::Pushed { commit }) => return Ok(commit),
            Some(PushResult::Refused { why }) => anyhow::bail!("nothing was pushed: {why}"),
            Some(PushResult::Declined { by }) => {
                anyhow::bail!("nothing was pushed: `{by}` declined the patch")
            }
            Some(PushResult::Uncertain { .. }) | None => {}
        }
        // A running service may have taken the message; then this finds nothing, and looks again.
        if report::work_one(&reporting).await? == report::Worked::Nothing {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

async fn record(service: &Service, run: &RunId, login: &str) -> anyhow::Result<AuthorizationId> {
    let view = runs::view(&service.db, run).await?;
    let view =
        view.ok_or_else(|| Usage(format!("there is no run {run}; `whipstitch status` lists the runs")))?;
    let Some(account) = local_account(service, login)? else {
        let advice = "on GitHub, press Apply on the check run or comment `/whipstitch apply`";
        return Err(Usage(format!("the local forge has no account `{login}`; {advice}")).into());
    };
    let forge = service.forges.of(&view.job().repository)?;
    match authorize(&service.db, forge, run, &account, "cli", service.clock.as_ref()).await? {
        Authorized::New(id) | Authorized::Known(id) => Ok(id),
    }
}

/// An account of the local forge: whoever may read its folder may act as anyone on it.
fn local_account(service: &Service, login: &str) -> anyhow::Result<Option<Account>> {
    match &service.local {
        Some(local) => Ok(local.login(&local.login_token(login))?),
        None => Ok(None),
    }
}
