use jobs::changeset::{FileMode, FileNow, FileState};
use jobs::clock::ManualClock;
use jobs::event::PullRequestChange;
use jobs::forge::{PullRequestState, PushTarget, Role};

use super::git::{Expected, Moved, NewCommit, Person};
use super::*;
use crate::forge::{
    Branch, CheckAction, CheckRun, CheckStatus, Comment, Conclusion, Forge, ForgeError, MAX_TEXT_BYTES,
};

struct World {
    folder: tempfile::TempDir,
    forge: LocalForge,
    seeded: Seeded,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let forge = LocalForge::open_with_clock(folder.path(), "a secret".into(), clock).unwrap();
    let seeded = forge.seed(seed()).unwrap();
    World { folder, forge, seeded }
}

fn seed() -> SeedRepository {
    SeedRepository {
        owner: "acme".into(),
        name: "anvil".into(),
        base: vec![SeedFile::text("Cargo.toml", "[package]\n"), SeedFile::text("src/lib.rs", "1\n")],
        head: vec![SeedFile::text("src/lib.rs", "2\n"), SeedFile::text("src/deep/er/mod.rs", "3\n")],
        head_branch: "change".into(),
        title: "A change".into(),
        author: "author".into(),
        roles: vec![("maintainer".into(), Role::Maintain), ("author".into(), Role::Read)],
    }
}

fn check(external_id: &str, head: &CommitId) -> CheckRun {
    CheckRun {
        external_id: external_id.into(),
        name: "whipstitch".into(),
        head: head.clone(),
        status: CheckStatus::Queued,
        title: "Queued".into(),
        summary: "s".into(),
        text: None,
        annotations: Vec::new(),
        actions: Vec::new(),
        details_url: None,
        started_at: None,
    }
}

#[tokio::test]
async fn a_seeded_repository_is_read_through_the_forge() {
    let World { folder: _folder, forge, seeded } = world();
    let forge: &dyn Forge = &forge;
    let repository = &seeded.repository;
    let pull = forge.pull_request(repository, 1).await.unwrap();
    assert_eq!(pull.state, PullRequestState::Open);
    assert_eq!((&pull.head, &pull.base), (&seeded.head, &seeded.base));
    assert_eq!(pull.push_target, PushTarget::Branch { name: "change".into() });
    let head = forge.commit(repository, &pull.head).await.unwrap();
    assert_eq!(head.parents, std::slice::from_ref(&seeded.base));
    assert_eq!(forge.root_names(repository, &head.tree).await.unwrap(), ["Cargo.toml", "src"]);
    let file = async |commit, path: &str| forge.file(repository, commit, path).await.unwrap();
    assert_eq!(file(&seeded.head, "src/lib.rs").await.unwrap(), b"2\n");
    assert_eq!(file(&seeded.base, "src/lib.rs").await.unwrap(), b"1\n");
    assert_eq!(file(&seeded.head, "src/deep/er/mod.rs").await.unwrap(), b"3\n");
    assert_eq!(file(&seeded.head, "src/deep").await, None);
    assert_eq!(file(&seeded.head, "nothing").await, None);
    let (branch, base) = forge.default_branch(repository).await.unwrap();
    assert_eq!((branch.name.as_str(), base), ("main", seeded.base));
}

#[tokio::test]
async fn an_account_without_a_role_has_none() {
    let World { folder: _folder, forge, seeded } = world();
    let role = async |id, login: &str| {
        forge.permission(&seeded.repository, &Account { id, login: login.into() }).await.unwrap()
    };
    let maintainer = forge.login(&forge.login_token("maintainer")).unwrap().unwrap();
    assert_eq!(role(maintainer.id, "maintainer").await, Role::Maintain);
    assert_eq!(role(9_999, "maintainer").await, Role::None, "a login alone gives no role");
    forge.set_role(&seeded.repository, "maintainer", Role::Read).unwrap();
    assert_eq!(role(maintainer.id, "maintainer").await, Role::Read);
}

#[test]
fn a_login_token_is_good_for_its_account_alone() {
    let World { folder: _folder, forge, .. } = world();
    let token = forge.login_token("maintainer");
    assert_eq!(forge.login(&token).unwrap().unwrap().login, "maintainer");
    let digits = token.rsplit_once('.').unwrap().1;
    for wrong in ["", ".", "maintainer", &format!("author.{digits}"), &token[..token.len() - 1]] {
        assert_eq!(forge.login(wrong).unwrap(), None, "{wrong:?}");
    }
    assert_eq!(forge.login(&forge.login_token("nobody")).unwrap(), None);
}

#[test]
fn a_delivery_of_the_forge_is_authentic_and_understood() {
    let World { folder: _folder, forge, seeded } = world();
    let sent = forge.comment_as("author", &seeded.repository, 1, "/whipstitch fix").unwrap();
    let authentic = forge.authenticate(&sent.headers, sent.body.clone().into()).unwrap();
    let Event::Comment(comment) = forge.parse(&authentic) else { panic!("a comment was sent") };
    assert_eq!((comment.sender.login.as_str(), comment.body.as_str()), ("author", "/whipstitch fix"));
    assert_eq!(forge.comments(&seeded.repository, 1).unwrap()[0].id, comment.comment_id);
    let mut other = sent.body;
    other[0] = b' ';
    assert_eq!(forge.authenticate(&sent.headers, other.into()).unwrap_err(), Unauthentic::WrongSignature);
}

#[test]
fn d10_a_body_that_is_no_event_is_ignored_with_a_reason() {
    let World { folder: _folder, forge, .. } = world();
    let strange = Event::PullRequest {
        repository: Repository { owner: "..".into(), ..repository("a", "b") },
        number: 1,
        change: PullRequestChange::Closed,
    };
    let strange = serde_json::to_vec(&strange).unwrap();
    for body in [&b"{}"[..], b"null", b"[1", b"{\"kind\":\"comment\",\"sender\":null}", &strange] {
        let sent = forge.sign("issue_comment", "1", body.to_vec());
        let authentic = forge.authenticate(&sent.headers, sent.body.into()).unwrap();
        assert!(matches!(forge.parse(&authentic), Event::Ignored { .. }));
    }
}

#[tokio::test]
async fn a_check_run_is_found_by_its_external_id_on_its_commit() {
    let World { folder, forge, seeded } = world();
    let repository = &seeded.repository;
    let first = forge.put_check(repository, &check("run", &seeded.head)).await.unwrap();
    let mut done = check("run", &seeded.head);
    done.status = CheckStatus::Completed { conclusion: Conclusion::Success, at: 5 };
    assert_eq!(forge.put_check(repository, &done).await.unwrap(), first);
    assert_ne!(forge.put_check(repository, &check("run", &seeded.base)).await.unwrap(), first);
    // Another process sees the same.
    let again = LocalForge::open(folder.path(), "a secret".into()).unwrap();
    let runs = again.check_runs(repository, &seeded.head).unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((&runs[0].check, runs[0].revisions), (&done, 2));
}

#[tokio::test]
async fn r3_a_check_run_over_the_limits_is_refused() {
    let World { folder: _folder, forge, seeded } = world();
    let action = CheckAction {
        label: "Apply".into(),
        description: "Push the patch".into(),
        identifier: "apply".into(),
    };
    let mut cases = vec![check("run", &seeded.head); 4];
    cases[0].summary = "x".repeat(MAX_TEXT_BYTES + 1);
    cases[1].actions = vec![action.clone(); 4];
    cases[2].actions = vec![CheckAction { label: "x".repeat(21), ..action.clone() }];
    cases[3].actions = vec![CheckAction { description: "x".repeat(41), ..action }];
    for case in cases {
        let refused = forge.put_check(&seeded.repository, &case).await.unwrap_err();
        assert!(matches!(refused, ForgeError::Refused { .. }), "{refused}");
    }
}

#[tokio::test]
async fn a_comment_with_the_same_key_is_updated() {
    let World { folder: _folder, forge, seeded } = world();
    let comment = |body: &str| Comment { key: "reply/1".into(), body: body.into() };
    let first = Forge::comment(&forge, &seeded.repository, &pull(1), &comment("one")).await.unwrap();
    let second = Forge::comment(&forge, &seeded.repository, &pull(1), &comment("two")).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(forge.comments(&seeded.repository, 1).unwrap()[0].body, "two");
    let missing = Forge::comment(&forge, &seeded.repository, &pull(7), &comment("x")).await.unwrap_err();
    assert!(matches!(missing, ForgeError::NotFound { .. }));
}

#[test]
fn a_branch_moves_only_from_the_expected_head() {
    let World { folder: _folder, forge, seeded } = world();
    let bare = forge.bare(&seeded.repository).unwrap();
    let tree = bare
        .write_tree(
            None,
            &[FileState {
                path: "run".into(),
                now: FileNow::File { mode: FileMode::Executable, content: b"x".to_vec() },
            }],
        )
        .unwrap();
    let person = Person { name: "a".into(), email: "a@local.invalid".into() };
    let commit = bare
        .write_commit(&NewCommit { parent: Some(&seeded.head), tree, message: "m\n", person: &person, at: 0 })
        .unwrap();
    let moved = bare.move_branch("change", Expected::Head(&seeded.base), &commit, &[]).unwrap();
    assert_eq!(moved, Moved::No);
    assert_eq!(forge.branch_head(&seeded.repository, "change").unwrap(), seeded.head);
    let moved = bare.move_branch("change", Expected::Head(&seeded.head), &commit, &[]).unwrap();
    assert_eq!(moved, Moved::Yes);
    assert_eq!(forge.branch_head(&seeded.repository, "change").unwrap(), commit);
    let moved = bare.move_branch("change", Expected::Nothing, &seeded.base, &[]).unwrap();
    assert_eq!(moved, Moved::No);
}

#[tokio::test]
async fn a_persons_push_moves_the_pull_requests_head_and_its_ref() {
    let World { folder: _folder, forge, seeded } = world();
    let files = [SeedFile::text("src/lib.rs", "4\n")];
    let (commit, _) = forge.push_as("author", &seeded.repository, 1, &files).unwrap();
    let bare = forge.bare(&seeded.repository).unwrap();
    assert_eq!(bare.show("refs/pull/1/head").unwrap(), Some(commit.clone()));
    let branch = Branch { repository: seeded.repository.clone(), name: "change".into() };
    assert_eq!(Forge::branch_head(&forge, &branch).await.unwrap(), Some(commit));
    let gone = Branch { name: "gone".into(), ..branch };
    assert_eq!(Forge::branch_head(&forge, &gone).await.unwrap(), None);
}

#[test]
fn git_itself_finds_the_repository_whole() {
    let World { folder: _folder, forge, seeded } = world();
    let path = forge.repository_path(&seeded.repository).unwrap();
    let git = std::process::Command::new("git")
        .args(["-C", path.to_str().unwrap(), "fsck", "--strict", "--full"])
        .output()
        .unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
}

#[test]
fn a_repository_is_seeded_once_and_stays_in_its_folder() {
    let World { folder: _folder, forge, .. } = world();
    assert!(matches!(forge.seed(seed()), Err(LocalError::Exists(_))));
    for owner in ["..", ".", "", "a/b", "a\0", ".git"] {
        let escaping = SeedRepository { owner: owner.into(), ..seed() };
        assert!(matches!(forge.seed(escaping), Err(LocalError::Unusable(_))), "{owner:?}");
    }
}

#[test]
fn d2_the_forge_does_not_open_with_an_empty_secret() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(LocalForge::open(folder.path(), " ".into()), Err(LocalError::Secret(_))));
}

fn pull(number: i64) -> jobs::forge::Subject {
    jobs::forge::Subject::PullRequest { number }
}
