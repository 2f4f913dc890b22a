//! What people do on the local forge: open repositories and pull requests, comment, click, push,
//! close. Each deed changes the forge and gives the signed webhook that tells of it.

use std::path::Path;

use http::{HeaderMap, HeaderValue};
use jobs::changeset::{FileMode, FileNow, FileState};
use jobs::event::{CheckActionEvent, CommentEvent, Event, PullRequestChange, SenderKind};
use jobs::forge::{Account, CommentPlace, Repository, Role, Subject};
use jobs::id::CommitId;

use super::git::{Bare, Expected, Moved, NewCommit, Person, tree_id};
use super::state::{Openness, PullRequestRow, RepositoryState};
use super::{LocalComment, LocalError, LocalForge, repository, rows, rows_mut};
use crate::authenticate::{DELIVERY_HEADER, EVENT_HEADER, SIGNATURE_HEADER};

/// A webhook request, ready to be sent to the door.
#[derive(Clone, Debug)]
pub struct SignedDelivery {
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// A file of a seeded repository.
#[derive(Clone, Debug)]
pub struct SeedFile {
    pub path: String,
    pub mode: FileMode,
    pub content: Vec<u8>,
}

impl SeedFile {
    /// A regular text file.
    pub fn text(path: &str, content: &str) -> Self {
        Self { path: path.to_owned(), mode: FileMode::Regular, content: content.as_bytes().to_vec() }
    }
}

/// A repository with one open pull request.
#[derive(Clone, Debug)]
pub struct SeedRepository {
    pub owner: String,
    pub name: String,
    /// Everything on the base branch `main`.
    pub base: Vec<SeedFile>,
    /// What the pull request's branch adds or changes.
    pub head: Vec<SeedFile>,
    pub head_branch: String,
    pub title: String,
    /// Login of the pull request's author.
    pub author: String,
    pub roles: Vec<(String, Role)>,
}

/// What was seeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seeded {
    pub repository: Repository,
    pub pull_request: i64,
    pub base: CommitId,
    pub head: CommitId,
}

/// The base branch of seeded repositories.
const MAIN: &str = "main";

impl LocalForge {
    /// Makes a repository and its pull request.
    pub fn seed(&self, seed: SeedRepository) -> Result<Seeded, LocalError> {
        let repository = repository(&seed.owner, &seed.name);
        let path = self.repository_path(&repository)?;
        self.state.change(|state| {
            if state.repository(&seed.owner, &seed.name).is_some() {
                return Err(LocalError::Exists(format!("repository {repository}")));
            }
            self.clear_unfinished(&path)?;
            let author = state.account_or_new(&seed.author);
            let roles = seed.roles.iter().map(|(login, role)| (state.account_or_new(login).id, *role));
            let roles = roles.collect();
            let number = 1;
            let bare = Bare::create(&path, MAIN)?;
            let (base, head) = self.seed_commits(&bare, &seed, &author, number)?;
            state.repositories.push(RepositoryState {
                owner: seed.owner.clone(),
                name: seed.name.clone(),
                default_branch: MAIN.to_owned(),
                roles,
                pull_requests: vec![PullRequestRow {
                    number,
                    title: seed.title.clone(),
                    open: Openness::Open,
                    base_branch: MAIN.to_owned(),
                    head_branch: seed.head_branch.clone(),
                    author,
                }],
                comments: Vec::new(),
                check_runs: Vec::new(),
            });
            Ok(Seeded { repository: repository.clone(), pull_request: number, base, head })
        })
    }

    /// Takes away a repository that was being seeded when the process ended: the state knows none.
    fn clear_unfinished(&self, path: &Path) -> Result<(), LocalError> {
        if !super::is_folder(path) {
            return Ok(());
        }
        let failed = |source| LocalError::Disk { doing: "clear", folder: path.to_owned(), source };
        std::fs::remove_dir_all(path).map_err(failed)
    }

    fn seed_commits(
        &self,
        bare: &Bare,
        seed: &SeedRepository,
        author: &Account,
        number: i64,
    ) -> Result<(CommitId, CommitId), LocalError> {
        let person = person(author);
        let write = |parent, tree, message: &str| {
            let at = self.clock.now();
            bare.write_commit(&NewCommit { parent, tree, message, person: &person, at })
        };
        let tree = bare.write_tree(None, &states(&seed.base))?;
        let base = write(None, tree, "First version\n")?;
        let tree = bare.write_tree(Some(&tree_id(&tree)?), &states(&seed.head))?;
        let head = write(Some(&base), tree, &format!("{}\n", seed.title))?;
        bare.move_branch(MAIN, Expected::Nothing, &base, &[])?;
        bare.move_branch(&seed.head_branch, Expected::Nothing, &head, &[pull_ref(number)])?;
        Ok((base, head))
    }

    /// Gives an account a role from now on.
    pub fn set_role(&self, repository: &Repository, login: &str, role: Role) -> Result<(), LocalError> {
        self.state.change(|state| {
            let account = state.account_or_new(login);
            let roles = &mut rows_mut(state, repository)?.roles;
            roles.retain(|(id, _)| *id != account.id);
            roles.push((account.id, role));
            Ok(())
        })
    }

    /// A person comments on a pull request.
    pub fn comment_as(
        &self,
        login: &str,
        repository: &Repository,
        number: i64,
        body: &str,
    ) -> Result<SignedDelivery, LocalError> {
        let (comment_id, sender) = self.state.change(|state| {
            let author = state.account_or_new(login);
            let id = state.next_id();
            pull_request(rows(state, repository)?, number)?;
            rows_mut(state, repository)?.comments.push(LocalComment {
                id,
                number,
                author: Some(author.clone()),
                body: body.to_owned(),
                key: None,
            });
            Ok((id, author))
        })?;
        let event = Event::Comment(CommentEvent {
            repository: repository.clone(),
            subject: Subject::PullRequest { number },
            comment_id,
            body: body.to_owned(),
            sender,
            sender_kind: SenderKind::Person,
            place: CommentPlace::Conversation,
            app: None,
        });
        Ok(self.deliver("issue_comment", &event))
    }

    /// A person clicks a button of a check run, or its re-run link (`rerun`).
    pub fn click_as(
        &self,
        login: &str,
        repository: &Repository,
        check_run_id: i64,
        action: &str,
    ) -> Result<SignedDelivery, LocalError> {
        let (sender, external_id) = self.state.change(|state| {
            let account = state.account_or_new(login);
            let runs = &rows(state, repository)?.check_runs;
            let found = runs.iter().find(|run| run.id == check_run_id);
            let run = found.ok_or_else(|| LocalError::Missing(format!("check run {check_run_id}")))?;
            Ok((account, run.check.external_id.clone()))
        })?;
        let event = Event::CheckAction(CheckActionEvent {
            repository: repository.clone(),
            check_run_id,
            external_id: Some(external_id),
            action: action.to_owned(),
            sender,
            sender_kind: SenderKind::Person,
        });
        Ok(self.deliver("check_run", &event))
    }

    /// A person pushes files to a pull request's branch.
    pub fn push_as(
        &self,
        login: &str,
        repository: &Repository,
        number: i64,
        files: &[SeedFile],
    ) -> Result<(CommitId, SignedDelivery), LocalError> {
        let (row, account) = self.state.change(|state| {
            let account = state.account_or_new(login);
            Ok((pull_request(rows(state, repository)?, number)?.clone(), account))
        })?;
        let bare = self.bare(repository)?;
        let head = self.branch_head(repository, &row.head_branch)?;
        let before = self.commit(repository, &head)?;
        let tree = bare.write_tree(Some(&before.tree), &states(files))?;
        let person = person(&account);
        let (message, at) = ("More work\n", self.clock.now());
        let new = NewCommit { parent: Some(&head), tree, message, person: &person, at };
        let commit = bare.write_commit(&new)?;
        match bare.move_branch(&row.head_branch, Expected::Head(&head), &commit, &[pull_ref(number)])? {
            Moved::Yes => {}
            Moved::No => return Err(LocalError::Exists(format!("another head of {}", row.head_branch))),
        }
        let change = PullRequestChange::HeadMoved;
        let event = Event::PullRequest { repository: repository.clone(), number, change };
        Ok((commit, self.deliver("pull_request", &event)))
    }

    /// Somebody closes a pull request.
    pub fn close(&self, repository: &Repository, number: i64) -> Result<SignedDelivery, LocalError> {
        self.state.change(|state| {
            let rows = rows_mut(state, repository)?;
            let found = rows.pull_requests.iter_mut().find(|row| row.number == number);
            found.ok_or_else(|| no_pull_request(number))?.open = Openness::Closed;
            Ok(())
        })?;
        let change = PullRequestChange::Closed;
        let event = Event::PullRequest { repository: repository.clone(), number, change };
        Ok(self.deliver("pull_request", &event))
    }

    /// An event as a signed request with a new delivery id.
    pub fn deliver(&self, name: &'static str, event: &Event) -> SignedDelivery {
        let body = serde_json::to_vec(event).expect("an event has only strings and numbers");
        self.sign(name, &uuid::Uuid::new_v4().to_string(), body)
    }

    /// A request with this body, signed; `delivery` must be fit for a header.
    pub fn sign(&self, name: &'static str, delivery: &str, body: Vec<u8>) -> SignedDelivery {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(EVENT_HEADER, HeaderValue::from_static(name));
        let texts =
            [(DELIVERY_HEADER, delivery.to_owned()), (SIGNATURE_HEADER, self.webhook_secret.sign(&body))];
        for (header, text) in texts {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(header, value);
            }
        }
        SignedDelivery { headers, body }
    }
}

/// The ref that shows a pull request's head.
pub(super) fn pull_ref(number: i64) -> String {
    format!("refs/pull/{number}/head")
}

/// The row of a pull request.
pub(super) fn pull_request(rows: &RepositoryState, number: i64) -> Result<&PullRequestRow, LocalError> {
    rows.pull_requests.iter().find(|row| row.number == number).ok_or_else(|| no_pull_request(number))
}

fn no_pull_request(number: i64) -> LocalError {
    LocalError::Missing(format!("pull request {number}"))
}

fn person(account: &Account) -> Person {
    Person { name: account.login.clone(), email: format!("{}@local.invalid", account.login) }
}

fn states(files: &[SeedFile]) -> Vec<FileState> {
    let state = |file: &SeedFile| FileState {
        path: file.path.clone(),
        now: FileNow::File { mode: file.mode, content: file.content.clone() },
    };
    files.iter().map(state).collect()
}
