use jobs::check::Tool;
use jobs::forge::ForgeKind;
use jobs::id::{Fence, RunId};
use jobs::job::Limits;
use jobs::run::{HaltReason, Phase, RunState};
use jobs::store::runs::HaltRequest;

use super::*;

fn account(id: i64, login: &str) -> Account {
    Account { id, login: login.into() }
}

fn asked(wish: Wish) -> Asked {
    Asked {
        wish,
        repository: Repository {
            forge: ForgeKind::Github,
            owner: "Acme".into(),
            name: "Anvil".into(),
            installation: 7,
        },
        subject: Subject::PullRequest { number: 5 },
        trigger: Trigger::Comment,
        app: None,
        actor: account(42, "ada"),
        origin: "comment/9".into(),
        text: Digest::of("/whipstitch fix"),
    }
}

fn found(role: Role) -> Found {
    Found {
        role,
        place: Place::PullRequest(PullRequest {
            number: 5,
            state: PullRequestState::Open,
            head: "a".repeat(40).parse().unwrap(),
            base: "c".repeat(40).parse().unwrap(),
            base_branch: "main".into(),
            push_target: PushTarget::Branch { name: "topic".into() },
            author: Some(account(1, "author")),
        }),
        tree: "b".repeat(40).parse().unwrap(),
        policy: Policy::default(),
        checks: vec![Check::new("tests", Tool::Pytest, &["pytest"])],
        agent: None,
        unfinished: Vec::new(),
    }
}

/// The pull request that was found, to be changed by a test.
fn pull_request(found: &mut Found) -> &mut PullRequest {
    match &mut found.place {
        Place::PullRequest(pull_request) => pull_request,
        Place::Issue { .. } => panic!("it is an issue"),
    }
}

fn admitted(asked: &Asked, found: Found) -> (JobSpec, String) {
    match admit(asked, found) {
        Admission::Admit { spec, semantic_key } => (*spec, semantic_key),
        Admission::Refuse(why) => panic!("{why}"),
    }
}

fn refused(asked: &Asked, found: Found) -> Option<Refused> {
    match admit(asked, found) {
        Admission::Admit { .. } => None,
        Admission::Refuse(why) => Some(why),
    }
}

fn running(asked: &Asked, at: Found) -> RunSummary {
    let (job, _) = admitted(asked, at);
    RunSummary {
        id: RunId::fresh(0),
        job_id: job.id(),
        job,
        state: RunState::Running { phase: Phase::Edit },
        fence: Fence(1),
        node: None,
        halt: None,
        created_at: 0,
        started_at: None,
        updated_at: 0,
        finished_at: None,
    }
}

#[test]
fn c9_the_least_role_of_the_policy_decides_over_every_role() {
    let roles = [Role::None, Role::Read, Role::Triage, Role::Write, Role::Maintain, Role::Admin];
    for least in roles {
        for has in roles {
            let mut found = found(has);
            found.policy.triggers.least_role = least;
            let why = refused(&asked(Wish::Fix), found);
            match why {
                None => assert!(has >= least, "{has:?} is less than {least:?}"),
                Some(Refused::Role { has: told, least: wanted, .. }) => {
                    assert!(has < least && told == has && wanted == least);
                }
                Some(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn an_author_without_a_role_may_ask_only_where_the_policy_says_so() {
    let mut own = asked(Wish::Fix);
    own.actor = account(1, "renamed since");
    assert!(matches!(refused(&own, found(Role::Read)), Some(Refused::Role { .. })));
    let mut open = found(Role::None);
    open.policy.triggers.author_may_ask = true;
    assert_eq!(refused(&own, open.clone()), None, "the id tells who it is, not the login");
    let mut other = asked(Wish::Fix);
    other.actor = account(2, "author");
    assert!(matches!(refused(&other, open.clone()), Some(Refused::Role { .. })), "a login alone is nobody");
    pull_request(&mut open).author = None;
    assert!(matches!(refused(&own, open), Some(Refused::Role { .. })), "a deleted author is nobody");
}

#[test]
fn each_reason_against_a_run_has_its_sentence() {
    let mut closed = found(Role::Write);
    pull_request(&mut closed).state = PullRequestState::Closed;
    let mut silent = found(Role::Write);
    silent.policy.triggers.comment = false;
    let mut empty = found(Role::Write);
    empty.checks.clear();
    let whys: Vec<String> = [found(Role::Read), silent, closed, empty]
        .into_iter()
        .map(|found| refused(&asked(Wish::Fix), found).unwrap().to_string())
        .collect();
    insta::assert_snapshot!(whys.join("\n"), @r"
    `ada` has the role `read` here, and `write` is the least that may ask for a run
    the base branch's policy does not let comments start a run
    it is closed
    no checks were found on the base branch; name some in `.github/whipstitch.toml` there, so that red and green mean something
    ");
}

#[test]
fn d9_no_job_is_made_on_a_closed_pull_request_whoever_asks() {
    for wish in [Wish::Fix, Wish::Try, Wish::Verify] {
        let mut closed = found(Role::Admin);
        pull_request(&mut closed).state = PullRequestState::Closed;
        assert_eq!(refused(&asked(wish), closed), Some(Refused::Closed));
    }
}

#[test]
fn one_run_at_a_time_works_on_a_commit_for_one_goal() {
    let first = running(&asked(Wish::Fix), found(Role::Write));
    let again = |wish, change: fn(&mut Found), run: RunSummary| {
        let mut asked = asked(wish);
        asked.origin = "comment/10".into();
        let mut found = found(Role::Write);
        found.unfinished = vec![run];
        change(&mut found);
        refused(&asked, found)
    };
    let same = |_: &mut Found| {};
    assert_eq!(again(Wish::Fix, same, first.clone()), Some(Refused::AtWork(first.id.clone())));
    assert_eq!(again(Wish::Try, same, first.clone()), Some(Refused::AtWork(first.id.clone())));
    assert_eq!(again(Wish::Verify, same, first.clone()), None, "another goal");
    let moved = |found: &mut Found| pull_request(found).head = "f".repeat(40).parse().unwrap();
    assert_eq!(again(Wish::Fix, moved, first.clone()), None, "another commit");
    let mut ending = first.clone();
    ending.halt = Some(HaltRequest { by: "ada".into(), reason: HaltReason::Cancelled("x".into()) });
    assert_eq!(again(Wish::Fix, same, ending), None, "one that was asked to stop is in nobody's way");
    let mut own = found(Role::Write);
    own.unfinished = vec![first];
    assert_eq!(refused(&asked(Wish::Fix), own), None, "the same comment again is the same job");
}

#[test]
fn d7_the_semantic_key_is_of_the_request_and_not_of_its_delivery() {
    let key = |change: fn(&mut Asked)| {
        let mut asked = asked(Wish::Fix);
        change(&mut asked);
        admitted(&asked, found(Role::Write)).1
    };
    let first = key(|_| {});
    assert_eq!(key(|asked| asked.repository.owner = "acme".into()), first, "forges ignore case");
    assert_eq!(key(|asked| asked.actor = account(8, "grace")), first, "a comment has one author");
    let others: [fn(&mut Asked); 5] = [
        |asked| asked.origin = "comment/10".into(),
        |asked| asked.wish = Wish::Try,
        |asked| asked.text = Digest::of("other words"),
        |asked| asked.repository.installation = 8,
        |asked| asked.repository.name = "bellows".into(),
    ];
    for other in others {
        assert_ne!(key(other), first);
    }
}

#[test]
fn h8_the_job_holds_the_bases_rules_and_the_exact_commit() {
    let mut given = found(Role::Maintain);
    given.policy.guard.least_role = Role::Admin;
    given.policy.limits = Limits { max_iterations: 2, ..Limits::default() };
    let (job, _) = admitted(&asked(Wish::Fix), given.clone());
    let tree = given.tree.clone();
    let shown = pull_request(&mut given);
    assert_eq!((&job.head, &job.base, &job.tree), (&shown.head, &shown.base, &tree));
    assert_eq!(job.base_branch.as_deref(), Some("main"));
    assert_eq!(
        (&job.checks, &job.limits, &job.guard),
        (&given.checks, &given.policy.limits, &given.policy.guard)
    );
    assert_eq!(job.fetch_ref, "refs/pull/5/head");
    assert_eq!((job.request.role, job.request.actor.login.as_str()), (Role::Maintain, "ada"));
    given.agent = Some(AgentSpec::Replay { patch: Digest::of("patch") });
    assert_eq!(
        admitted(&asked(Wish::Fix), given.clone()).0.agent,
        given.agent.unwrap(),
        "the operator's counts"
    );
}

#[test]
fn a_rehearsal_has_nowhere_to_push_to_and_a_deleted_fork_keeps_its_reason() {
    let (rehearsal, _) = admitted(&asked(Wish::Try), found(Role::Write));
    assert!(matches!(rehearsal.push_target, PushTarget::Nowhere { .. }));
    assert_eq!(rehearsal.goal, Goal::Repair);
    let mut fork = found(Role::Write);
    pull_request(&mut fork).push_target = PushTarget::Nowhere { why: "the fork was deleted".into() };
    let (job, _) = admitted(&asked(Wish::Fix), fork.clone());
    assert_eq!(job.push_target, pull_request(&mut fork).push_target);
    assert_eq!(admitted(&asked(Wish::Verify), fork).0.goal, Goal::Verify);
}

#[test]
fn d7_the_same_request_makes_the_same_job() {
    let (one, _) = admitted(&asked(Wish::Fix), found(Role::Write));
    let (two, _) = admitted(&asked(Wish::Fix), found(Role::Write));
    assert_eq!(one.id(), two.id());
}

#[test]
fn a_fork_that_takes_no_push_gets_a_pull_request_only_where_the_policy_says_so() {
    for (way, target) in [
        (ForkPatch::Artifact, PushTarget::Nowhere { why: "no".into() }),
        (ForkPatch::Suggestion, PushTarget::Nowhere { why: "no".into() }),
        (ForkPatch::PullRequest, PushTarget::NewPullRequest { base: "main".into() }),
    ] {
        let mut fork = found(Role::Write);
        pull_request(&mut fork).push_target = PushTarget::Nowhere { why: "no".into() };
        fork.policy.guard.fork_patch = way;
        assert_eq!(admitted(&asked(Wish::Fix), fork).0.push_target, target);
        let mut own = found(Role::Write);
        own.policy.guard.fork_patch = way;
        assert_eq!(
            admitted(&asked(Wish::Fix), own).0.push_target,
            PushTarget::Branch { name: "topic".into() },
            "a branch that takes a push gets one"
        );
    }
}

#[test]
fn an_issue_is_about_the_default_branch_and_its_patch_becomes_a_pull_request() {
    let mut issue = asked(Wish::Fix);
    issue.subject = Subject::Issue { number: 9 };
    let mut about = found(Role::Write);
    let head: CommitId = "d".repeat(40).parse().unwrap();
    about.place = Place::Issue { state: PullRequestState::Open, branch: "trunk".into(), head: head.clone() };
    let (job, _) = admitted(&issue, about.clone());
    assert_eq!((&job.head, &job.base, job.fetch_ref.as_str()), (&head, &head, "refs/heads/trunk"));
    assert_eq!(job.push_target, PushTarget::NewPullRequest { base: "trunk".into() });
    about.place = Place::Issue { state: PullRequestState::Closed, branch: "trunk".into(), head };
    assert_eq!(refused(&issue, about), Some(Refused::Closed));
}

#[test]
fn each_trigger_is_switched_by_the_bases_policy() {
    let by = |trigger: Trigger, change: fn(&mut Policy)| {
        let mut asked = asked(Wish::Fix);
        asked.trigger = trigger;
        let mut found = found(Role::Write);
        change(&mut found.policy);
        refused(&asked, found)
    };
    let default: fn(&mut Policy) = |_| {};
    assert_eq!(by(Trigger::Comment, default), None);
    assert_eq!(by(Trigger::Rerun, |policy| policy.triggers.comment = false), None);
    let label = || Trigger::Label("Repair Me".into());
    assert_eq!(by(label(), default), Some(Refused::Label("Repair Me".into())));
    assert_eq!(by(label(), |policy| policy.triggers.labels = vec!["repair me".into()]), None);
    assert_eq!(by(Trigger::FailedCheckSuite, default), Some(Refused::CheckSuites));
    assert_eq!(by(Trigger::FailedCheckSuite, |policy| policy.triggers.failed_check_suite = true), None);
}

#[test]
fn c6_an_app_may_ask_only_where_the_policy_lists_its_id() {
    let mut app = asked(Wish::Fix);
    app.app = Some(77);
    assert_eq!(refused(&app, found(Role::Admin)), Some(Refused::App(77)), "a role is no listing");
    let mut listed = found(Role::None);
    listed.policy.triggers.apps = vec![5, 77];
    assert_eq!(refused(&app, listed), None);
}
