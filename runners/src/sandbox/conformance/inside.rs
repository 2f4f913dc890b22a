//! The probe as a program: tries every wall, or one bomb, and prints what it found.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use super::raw::{Child, in_child};
use super::{Facts, Found, Outcome, Probe, bombs, probes, short, workspace};

/// A probe that takes longer has met something that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Does what the arguments say, and gives the exit code.
pub fn main(arguments: &[String]) -> i32 {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["walls"] => facts().and_then(|facts| walls(&facts)),
        ["plant"] => facts().and_then(|facts| workspace::plant(&facts)),
        ["daemon"] => daemon(),
        ["bomb", name] => match bombs::BOMBS.iter().find(|bomb| bomb.name == *name) {
            Some(bomb) => say(&bomb.act()),
            None => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        },
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            drop(writeln!(io::stderr(), "the probe failed: {error}"));
            3
        }
    }
}

fn facts() -> io::Result<Facts> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// One line of JSON each.
fn walls(facts: &Facts) -> io::Result<()> {
    for probe in probes() {
        let outcome = attempt(probe, facts);
        let (group, name, rule) = (probe.group.to_owned(), probe.name.to_owned(), probe.rule.to_owned());
        say(&Found { group, name, rule, outcome })?;
    }
    Ok(())
}

/// In a process of its own, which a success may change as it likes.
fn attempt(probe: &Probe, facts: &Facts) -> Outcome {
    let act = || serde_json::to_vec(&(probe.attempt)(facts)).unwrap_or_default();
    match in_child(PATIENCE, act) {
        Ok(Child::Said(said)) => serde_json::from_slice(&said)
            .unwrap_or_else(|error| Outcome::NotTried(format!("it said nothing: {error}"))),
        Ok(Child::Killed(libc::SIGSYS)) => Outcome::Contained("ended by the filter".to_owned()),
        Ok(Child::Killed(signal)) => Outcome::NotTried(format!("ended by signal {signal}")),
        Ok(Child::Hung) => Outcome::NotTried("it hung".to_owned()),
        Err(error) => Outcome::NotTried(short(&error)),
    }
}

fn say(value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

/// Leaves a process behind that listens to nobody and holds a lock for as long as it lives.
fn daemon() -> io::Result<()> {
    let locked = std::fs::File::create(format!("{}/locked", crate::sandbox::WORKSPACE))?;
    locked.lock()?;
    if super::raw::fork()?.is_some() {
        return Ok(());
    }
    rustix::process::setsid()?;
    if super::raw::fork()?.is_none() {
        use rustix::process::Signal;
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            super::raw::ignore(signal);
        }
        std::thread::sleep(Duration::from_secs(600));
    }
    Ok(())
}
