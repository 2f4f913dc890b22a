//! `outbox`: what could not be told to a forge, and another try.

use std::process::ExitCode;

use jobs::clock::{Clock as _, SystemClock};
use jobs::id::MessageId;
use jobs::store::Db;
use jobs::store::outbox::{self, DeadLetter, Resent};

use super::{Usage, config_at, print};
use crate::cli::Outbox;
use crate::service;
use crate::show::inert;

/// So many are shown, or sent again by `all`, at once.
const MOST: u32 = 500;

pub async fn run(arguments: &Outbox) -> anyhow::Result<ExitCode> {
    let db = service::open_existing_database(&config_at(&arguments.place)?).await?;
    let letters = outbox::dead_letters(&db, MOST).await?;
    match arguments.resend.as_deref() {
        None if arguments.json => {
            let lines: Vec<_> = letters.iter().map(json).collect();
            print(&format!("{}\n", serde_json::to_string_pretty(&lines)?));
        }
        None if letters.is_empty() => print("nothing was given up\n"),
        None => letters.iter().for_each(|letter| print(&line(letter))),
        Some("all") => {
            for letter in &letters {
                resend(&db, &letter.id).await?;
            }
            print(&format!("{} messages\n", letters.len()));
        }
        Some(text) => {
            let id =
                text.parse().map_err(|error| Usage(format!("{error}; `whipstitch outbox` lists them")))?;
            resend(&db, &id).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn resend(db: &Db, id: &MessageId) -> anyhow::Result<()> {
    match outbox::resend(db, id, SystemClock.now()).await? {
        Resent::Pending => print(&format!("{id} will be sent again\n")),
        Resent::Overtaken => print(&format!("{id} stays as it is: a later message tells the same run\n")),
        Resent::Unknown => {
            let advice = "`whipstitch outbox` lists those that were given up";
            return Err(Usage(format!("no message {id} was given up; {advice}")).into());
        }
    }
    Ok(())
}

fn line(letter: &DeadLetter) -> String {
    let number = letter.address.subject.number().map_or(String::new(), |number| format!("#{number}"));
    let repository = &letter.address.repository;
    let (kind, attempts, error) = (letter.body.kind(), letter.attempts, inert(&letter.error));
    format!("{}  {kind:<9}  {repository}{number}  after {attempts} attempts: {error}\n", letter.id)
}

fn json(letter: &DeadLetter) -> serde_json::Value {
    serde_json::json!({
        "id": letter.id.as_str(),
        "kind": letter.body.kind(),
        "repository": letter.address.repository.to_string(),
        "number": letter.address.subject.number(),
        "run": letter.body.run().map(jobs::id::RunId::as_str),
        "attempts": letter.attempts,
        "error": letter.error,
        "given_up_at": letter.given_up_at,
    })
}
