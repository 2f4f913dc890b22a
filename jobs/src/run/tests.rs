//! The three state machines, printed whole.

use super::*;
use crate::digest::Digest;
use crate::launch::{LaunchEvent, LaunchState};
use crate::message::{MessageEvent, MessageState};

fn runs() -> (Vec<RunState>, Vec<RunEvent>) {
    let reason = HaltReason::Cancelled("asked".to_owned());
    let outcomes = [
        Outcome::Succeeded,
        Outcome::Failed { failure: Failure::NotRepaired("red".to_owned()) },
        Outcome::Halted { reason, requeue_recommended: false },
    ];
    let suspensions = [Suspension::UncertainLaunch, Suspension::Requested];
    let mut states = vec![RunState::Queued];
    states.extend(Phase::ALL.map(|phase| RunState::Running { phase }));
    states.extend(suspensions.clone().map(|why| RunState::Suspended { why }));
    states.extend(outcomes.clone().map(|outcome| RunState::Finished { outcome }));
    let mut events = vec![RunEvent::Claim, RunEvent::Resume, RunEvent::LeaseLost];
    events.extend(Phase::ALL.map(RunEvent::Enter));
    events.extend(suspensions.map(RunEvent::Suspend));
    events.extend(outcomes.map(RunEvent::Settle));
    (states, events)
}

/// One line per legal step; what is not printed is refused.
#[test]
fn the_state_machines_have_these_steps_and_no_others() {
    let mut lines = Vec::new();
    let (states, events) = runs();
    for from in &states {
        for event in &events {
            if let Ok(to) = from.clone().apply(event.clone()) {
                lines.push(format!("{from}: {event} -> {to}"));
            }
        }
    }
    let proposal = Some(Digest::of("patch"));
    let launches = [
        LaunchState::Intended,
        LaunchState::Started,
        LaunchState::Settled { proposal, tokens: 7 },
        LaunchState::Uncertain,
        LaunchState::Adopted { proposal },
        LaunchState::Abandoned { by: "ada".to_owned() },
    ];
    let launch_events = [
        LaunchEvent::Start,
        LaunchEvent::Settle(proposal, 7),
        LaunchEvent::Settle(None, 7),
        LaunchEvent::LeaseLost,
        LaunchEvent::Adopt(proposal),
        LaunchEvent::Adopt(None),
        LaunchEvent::Abandon("ada".to_owned()),
    ];
    for from in &launches {
        for event in &launch_events {
            if let Ok(to) = from.clone().apply(event.clone()) {
                lines.push(format!("{} launch: {event} -> {}", from.name(), to.name()));
            }
        }
    }
    let messages = [
        MessageState::Pending,
        MessageState::Sent { external_id: "1".to_owned() },
        MessageState::Dead { attempts: 12 },
    ];
    let message_events = [
        MessageEvent::Deliver { external_id: "1".to_owned() },
        MessageEvent::Postpone,
        MessageEvent::GiveUp { attempts: 12 },
        MessageEvent::Resend,
    ];
    for from in &messages {
        for event in &message_events {
            if let Ok(to) = from.clone().apply(event.clone()) {
                lines.push(format!("{} message: {event} -> {}", from.name(), to.name()));
            }
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    queued run: claim -> running run (provision)
    running run (provision): lease lost -> queued run
    running run (provision): enter provision -> running run (provision)
    running run (provision): enter bootstrap -> running run (bootstrap)
    running run (provision): enter navigate -> running run (navigate)
    running run (provision): enter edit -> running run (edit)
    running run (provision): enter verify -> running run (verify)
    running run (provision): enter repair -> running run (repair)
    running run (provision): suspend (uncertain launch) -> suspended run (uncertain launch)
    running run (provision): suspend (requested) -> suspended run (requested)
    running run (provision): settle (succeeded) -> finished run (succeeded)
    running run (provision): settle (failed) -> finished run (failed)
    running run (provision): settle (halted) -> finished run (halted)
    running run (bootstrap): lease lost -> queued run
    running run (bootstrap): enter bootstrap -> running run (bootstrap)
    running run (bootstrap): enter navigate -> running run (navigate)
    running run (bootstrap): enter edit -> running run (edit)
    running run (bootstrap): enter verify -> running run (verify)
    running run (bootstrap): enter repair -> running run (repair)
    running run (bootstrap): suspend (uncertain launch) -> suspended run (uncertain launch)
    running run (bootstrap): suspend (requested) -> suspended run (requested)
    running run (bootstrap): settle (succeeded) -> finished run (succeeded)
    running run (bootstrap): settle (failed) -> finished run (failed)
    running run (bootstrap): settle (halted) -> finished run (halted)
    running run (navigate): lease lost -> queued run
    running run (navigate): enter navigate -> running run (navigate)
    running run (navigate): enter edit -> running run (edit)
    running run (navigate): enter verify -> running run (verify)
    running run (navigate): enter repair -> running run (repair)
    running run (navigate): suspend (uncertain launch) -> suspended run (uncertain launch)
    running run (navigate): suspend (requested) -> suspended run (requested)
    running run (navigate): settle (succeeded) -> finished run (succeeded)
    running run (navigate): settle (failed) -> finished run (failed)
    running run (navigate): settle (halted) -> finished run (halted)
    running run (edit): lease lost -> queued run
    running run (edit): enter edit -> running run (edit)
    running run (edit): enter verify -> running run (verify)
    running run (edit): enter repair -> running run (repair)
    running run (edit): suspend (uncertain launch) -> suspended run (uncertain launch)
    running run (edit): suspend (requested) -> suspended run (requested)
    running run (edit): settle (succeeded) -> finished run (succeeded)
    running run (edit): settle (failed) -> finished run (failed)
    running run (edit): settle (halted) -> finished run (halted)
    running run (verify): lease lost -> queued run
    running run (verify): enter edit -> running run (edit)
    running run (verify): enter verify -> running run (verify)
    running run (verify): enter repair -> running run (repair)
    running run (verify): suspend (uncertain launch) -> suspended run (uncertain launch)
    running run (verify): suspend (requested) -> suspended run (requested)
    running run (verify): settle (succeeded) -> finished run (succeeded)
    running run (verify): settle (failed) -> finished run (failed)
    running run (verify): settle (halted) -> finished run (halted)
    running run (repair): lease lost -> queued run
    running run (repair): enter edit -> running run (edit)
    running run (repair): enter verify -> running run (verify)
    running run (repair): enter repair -> running run (repair)
    running run (repair): suspend (uncertain launch) -> suspended run (uncertain launch)
    running run (repair): suspend (requested) -> suspended run (requested)
    running run (repair): settle (succeeded) -> finished run (succeeded)
    running run (repair): settle (failed) -> finished run (failed)
    running run (repair): settle (halted) -> finished run (halted)
    suspended run (uncertain launch): resume -> queued run
    suspended run (requested): resume -> queued run
    intended launch: start -> started
    intended launch: settle (nothing) -> settled
    intended launch: lease lost -> uncertain
    started launch: settle (proposal) -> settled
    started launch: settle (nothing) -> settled
    started launch: lease lost -> uncertain
    uncertain launch: adopt -> adopted
    uncertain launch: adopt -> adopted
    uncertain launch: abandon -> abandoned
    pending message: deliver -> sent
    pending message: postpone -> pending
    pending message: give up -> dead
    dead message: resend -> pending
    "#);
}

#[test]
fn a_refusal_says_from_where_and_what() {
    let outcome = Outcome::Succeeded;
    let refused = RunState::Finished { outcome }.apply(RunEvent::Claim).unwrap_err();
    assert_eq!(refused.to_string(), "a finished run (succeeded) cannot take claim");
}

#[test]
fn states_are_kept_as_they_always_were() {
    let (states, _) = runs();
    let lines: Vec<_> = states.iter().map(|state| serde_json::to_string(state).unwrap()).collect();
    for (state, line) in states.iter().zip(&lines) {
        assert_eq!(&serde_json::from_str::<RunState>(line).unwrap(), state);
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"state":"queued"}
    {"state":"running","phase":"provision"}
    {"state":"running","phase":"bootstrap"}
    {"state":"running","phase":"navigate"}
    {"state":"running","phase":"edit"}
    {"state":"running","phase":"verify"}
    {"state":"running","phase":"repair"}
    {"state":"suspended","why":"uncertain-launch"}
    {"state":"suspended","why":"requested"}
    {"state":"finished","outcome":{"is":"succeeded"}}
    {"state":"finished","outcome":{"is":"failed","failure":{"is":"not-repaired","why":"red"}}}
    {"state":"finished","outcome":{"is":"halted","reason":{"is":"cancelled","why":"asked"},"requeue_recommended":false}}
    "#);
}
