//! `cancel` and `resume`.

use std::process::ExitCode;

use jobs::clock::{Clock as _, SystemClock};
use jobs::run::HaltReason;
use jobs::store::runs::{self, HaltRequest, Halting};

use super::{config_at, print, run_id};
use crate::cli::OneRun;
use crate::service;

/// Who acts, as the rows name it.
const OPERATOR: &str = "the operator, by the command line";

pub async fn cancel(arguments: &OneRun) -> anyhow::Result<ExitCode> {
    let db = service::open_existing_database(&config_at(&arguments.place)?).await?;
    let id = run_id(&arguments.run)?;
    let request = HaltRequest { by: OPERATOR.to_owned(), reason: HaltReason::Cancelled(OPERATOR.to_owned()) };
    print(match runs::cancel(&db, &id, &request, SystemClock.now()).await? {
        Halting::Requested => "the run will stop at its next step\n",
        Halting::AlreadyFinished => "the run has ended already; nothing was changed\n",
    });
    Ok(ExitCode::SUCCESS)
}

pub async fn resume(arguments: &OneRun) -> anyhow::Result<ExitCode> {
    let db = service::open_existing_database(&config_at(&arguments.place)?).await?;
    runs::resume(&db, &run_id(&arguments.run)?, OPERATOR, SystemClock.now()).await?;
    print("the run is queued again; a launch whose result is unknown counts as lost\n");
    Ok(ExitCode::SUCCESS)
}
