//! A run's receipts on their way out of the database and into a verifier's hands.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jobs::artifacts::Artifacts;
use jobs::check::{Check, Tool};
use jobs::digest::Digest;
use jobs::forge::{Account, ForgeKind, PushTarget, Repository, Role, Subject};
use jobs::id::{CommitId, RunId};
use jobs::job::{AgentSpec, Goal, Guard, JobSpec, Limits, Request};
use jobs::store::receipts::{NewReceipt, ReceiptKind, append};
use jobs::store::{Acceptance, Accepted, Db, Decision, accept, runs};
use receipts::{Apply, Authorize, Open, RunChain, Seal, SealOutcome, Signed, Signer, Timestamp};
use runners::edit::apply_patch;
use runners::workspace::{Entry, Mode, NewCommit, Objects, Tree, TreePath};

const NOW: i64 = 1_800_000_000_000;
const DIFF: &[u8] = b"--- a/fare\n+++ b/fare\n@@ -1 +1 @@\n-half\n+whole\n";

fn whipstitch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whipstitch"))
        .args(arguments)
        .env_remove("WHIPSTITCH_CONFIG")
        .env_remove("WHIPSTITCH_SIGNING_KEY")
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn first_line(output: &Output) -> String {
    text(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

/// A repository whose file the run repaired.
struct Repaired {
    objects: Objects,
    base: CommitId,
    before: Tree,
    after: Tree,
}

impl Repaired {
    fn new(folder: &Path) -> Self {
        let objects = Objects::init(folder).unwrap();
        let path = TreePath::parse("fare").unwrap();
        let entries = BTreeMap::from([(path, Entry::new(Mode::Regular, b"half\n".to_vec()))]);
        let before = Tree::new(entries, None).unwrap();
        let after = apply_patch(DIFF, &before).unwrap().tree;
        for tree in [&before, &after] {
            objects.write_tree(tree).unwrap();
        }
        let mut repaired = Self { base: "0".repeat(40).parse().unwrap(), objects, before, after };
        repaired.base = repaired.commit(&repaired.before, None, "Halve the fare\n");
        repaired.show(&repaired.base);
        repaired
    }

    fn commit(&self, tree: &Tree, parent: Option<&CommitId>, message: &str) -> CommitId {
        let commit = NewCommit {
            tree: tree.id().clone(),
            parents: parent.cloned().into_iter().collect(),
            name: "A".to_owned(),
            email: "a@example.org".to_owned(),
            seconds: 1_800_000_000,
            message: message.to_owned(),
        };
        self.objects.write_commit(&commit).unwrap()
    }

    /// Points the one branch at a commit.
    fn show(&self, commit: &CommitId) {
        std::fs::write(self.objects.folder().join("refs/heads/main"), format!("{commit}\n")).unwrap();
    }
}

/// A service's folder with one sealed run in its database.
struct World {
    folder: tempfile::TempDir,
    repaired: Repaired,
    run: RunId,
    key: String,
    seal: String,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repaired = Repaired::new(&folder.path().join("repository"));
        let signer = app::keys::make(&folder.path().join("signing.key")).unwrap();
        let artifacts = Artifacts::open(folder.path().join("artifacts")).unwrap();
        let diff = artifacts.put(DIFF).unwrap();
        let file = folder.path().join("whipstitch.db");
        let db = Db::open(&format!("sqlite://{}", file.display())).await.unwrap();
        let run = queue(&db, &repaired).await;
        let fence = runs::claim(&db, "node", 60_000, NOW).await.unwrap().unwrap().fence;
        let signed = chain(&signer, &repaired, &run);
        let seal = signed[2].digest_hex();
        let decided = decision(&signer, &run, signed[2].digest());
        let kinds = [ReceiptKind::Open, ReceiptKind::Apply, ReceiptKind::Seal, ReceiptKind::Authorize];
        for (kind, Signed { bytes, signature }) in kinds.into_iter().zip(signed.into_iter().chain([decided]))
        {
            let diff = (kind == ReceiptKind::Apply).then_some(diff);
            let signed = jobs::store::Signed { bytes, signature };
            append(&db, &run, fence, &NewReceipt { kind, signed, diff }, NOW).await.unwrap();
        }
        db.close().await;
        Self { key: hex::encode(signer.public_key()), folder, repaired, run, seal }
    }

    fn export(&self, form: &str) -> (Output, PathBuf) {
        let to = self.folder.path().join(format!("out-{form}"));
        let at = |path: &Path| path.to_str().unwrap().to_owned();
        let (to_text, data) = (at(&to), at(self.folder.path()));
        let run = self.run.as_str();
        (whipstitch(&["receipts", "export", run, "--as", form, "--to", &to_text, "--dir", &data]), to)
    }
}

async fn queue(db: &Db, repaired: &Repaired) -> RunId {
    let job = JobSpec {
        repository: Repository {
            forge: ForgeKind::Local,
            owner: "demo".to_owned(),
            name: "fares".to_owned(),
            installation: 0,
        },
        subject: Subject::Checkout,
        goal: Goal::Repair,
        head: repaired.base.clone(),
        tree: repaired.before.id().clone(),
        base: repaired.base.clone(),
        fetch_ref: "HEAD".to_owned(),
        push_target: PushTarget::Nowhere { why: "a test".to_owned() },
        base_branch: None,
        checks: vec![Check::new("tests", Tool::Pytest, &["pytest"])],
        limits: Limits::default(),
        agent: AgentSpec::Fixers,
        guard: Guard::default(),
        request: Request {
            actor: Account { id: 1, login: "maintainer".to_owned() },
            role: Role::Maintain,
            origin: "cli".to_owned(),
            text: Digest::of("fix"),
        },
    };
    let decision = Decision::Admit { spec: Box::new(job), semantic_key: "once".to_owned() };
    match accept(db, Accepted { delivery: None, decision, messages: Vec::new(), now: NOW }).await.unwrap() {
        Acceptance::Queued { run, .. } => run,
        other => panic!("{other:?}"),
    }
}

fn chain(signer: &Signer, repaired: &Repaired, run: &RunId) -> Vec<Signed> {
    let at = Timestamp::from_unix(NOW / 1000);
    let (before, after) = (repaired.before.id().as_str(), repaired.after.id().as_str());
    let open = Open {
        run: *run.chain().as_bytes(),
        actor: "local:maintainer/1",
        reason: "asked for by a comment",
        as_of: at,
        issued_at: at,
        job: [3; 32],
        base: repaired.base.as_str(),
    };
    let (mut chain, opened) = RunChain::open(signer, &open).unwrap();
    let apply = Apply {
        actor: "agent:replay/1",
        reason: "within the admitted bounds",
        as_of: at,
        issued_at: at,
        diff: DIFF,
        journal_ref: [4; 32],
        tree_before: before,
        tree_after: after,
    };
    let applied = chain.apply(signer, &apply).unwrap();
    let seal = Seal {
        actor: "whipstitch",
        reason: "every check passed",
        as_of: at,
        issued_at: at,
        tree_after: after,
        journal_head: [5; 32],
        outcome: SealOutcome::Succeeded,
    };
    vec![opened, applied, chain.seal(signer, &seal).unwrap()]
}

fn decision(signer: &Signer, run: &RunId, seal: [u8; 32]) -> Signed {
    let yes = Authorize {
        run: *run.chain().as_bytes(),
        seal,
        actor: "local:maintainer/1",
        role: "maintain",
        reason: "authorized the verified patch",
        origin: "cli",
        issued_at: Timestamp::from_unix(NOW / 1000),
        diff: *Digest::of(DIFF).as_bytes(),
        head_commit: &"c".repeat(40),
    };
    receipts::authorize(signer, &yes).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_form_of_export_is_whole_and_verifies() {
    let world = World::new().await;
    let (output, bundle) = world.export("bundle");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(first_line(&output).starts_with("VALID_CHAIN run="), "{output:?}");
    assert_eq!(names(&bundle), ["0001.diff", "key.pub", "run.authorizations", "run.journal", "run.receipts"]);
    let lines = std::fs::read_to_string(bundle.join("run.receipts")).unwrap();
    assert!(lines.contains(&format!("\"base\":\"sha1:{}\"", world.repaired.base)), "{lines}");
    let path = bundle.to_str().unwrap();
    let verified = whipstitch(&["verify", path, "--key", &world.key, "--authorizations"]);
    assert!(
        text(&verified.stdout).contains("\nauthorizations VALID_RECEIPT\n"),
        "{}",
        text(&verified.stdout)
    );

    let (_, folder) = world.export("folder");
    assert_eq!(names(&folder).iter().filter(|name| name.ends_with(".sig")).count(), 3);
    let verified = whipstitch(&["verify", folder.to_str().unwrap(), "--key", &world.key]);
    let line = first_line(&verified);
    assert!(line.starts_with("VALID_CHAIN ") && line.contains(&world.seal), "{line}");

    let (_, dsse) = world.export("dsse");
    assert_eq!(names(&dsse), ["0000.dsse.json", "0001.diff", "0001.dsse.json", "0002.dsse.json", "key.pub"]);
    for name in names(&dsse).iter().filter(|name| name.ends_with(".dsse.json")) {
        std::fs::copy(dsse.join(name), bundle.join(name)).unwrap();
    }
    let verified = whipstitch(&["verify", path, "--key", &world.key, "--exports"]);
    assert!(
        text(&verified.stdout).contains("\nexports VALID_RECEIPT count=3\n"),
        "{}",
        text(&verified.stdout)
    );
}

#[tokio::test]
async fn an_export_goes_into_a_new_folder_and_of_a_known_run() {
    let world = World::new().await;
    let (first, _) = world.export("bundle");
    assert_eq!(first.status.code(), Some(0));
    let (again, to) = world.export("bundle");
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is not empty"), "{}", text(&again.stderr));
    let data = world.folder.path().to_str().unwrap();
    let other = RunId::fresh(NOW);
    let to = to.with_extension("other");
    let unknown = ["receipts", "export", other.as_str(), "--to", to.to_str().unwrap(), "--dir", data];
    assert_eq!(whipstitch(&unknown).status.code(), Some(2));
}

#[tokio::test]
async fn a_rotated_key_signs_no_statement_for_the_receipts_of_the_old_one() {
    let world = World::new().await;
    let file = world.folder.path().join("signing.key");
    assert_eq!(whipstitch(&["keys", "rotate", file.to_str().unwrap()]).status.code(), Some(0));
    let (output, to) = world.export("dsse");
    assert_eq!((output.status.code(), names(&to)), (Some(1), Vec::new()));
    assert!(text(&output.stderr).contains("no receipt that the service's key signed"), "{output:?}");
}

#[tokio::test]
async fn a_key_is_not_rotated_while_a_run_that_it_began_is_under_way() {
    let world = World::new().await;
    let file = world.folder.path().join("signing.key");
    let rotate = || whipstitch(&["keys", "rotate", file.to_str().unwrap()]);
    let before = std::fs::read(&file).unwrap();
    let url = format!("sqlite://{}", world.folder.path().join("whipstitch.db").display());
    let db = Db::open(&url).await.unwrap();
    // A run that nobody has begun has signed nothing yet.
    assert_eq!(runs::begun(&db).await.unwrap(), []);
    let fence = jobs::id::Fence(1);
    let line = jobs::store::Signed { bytes: b"{}".to_vec(), signature: [0; 64] };
    jobs::store::journal::append(&db, &world.run, fence, &line, NOW).await.unwrap();
    let refused = rotate();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains(world.run.as_str()), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

/// What `verify --repo` says of a run's bundle: exit code, the repository's line, and why.
fn against_repository(world: &World, bundle: &Path) -> (Option<i32>, String, String) {
    let repository = world.repaired.objects.folder().to_str().unwrap();
    let verified =
        whipstitch(&["verify", bundle.to_str().unwrap(), "--key", &world.key, "--repo", repository]);
    let line = text(&verified.stdout).lines().nth(1).unwrap_or_default().to_owned();
    (verified.status.code(), line, text(&verified.stderr))
}

#[tokio::test]
async fn trees_compose_in_the_repository_and_its_commits_are_what_was_verified() {
    let world = World::new().await;
    let (_, bundle) = world.export("bundle");
    let tree = world.repaired.after.id().to_string();
    let none = against_repository(&world, &bundle);
    assert_eq!(none, (Some(0), format!("repo VALID_TREE tree={tree} commits=0"), String::new()));

    let (run, seal, base) = (&world.run, &world.seal, Some(&world.repaired.base));
    let trailers = format!("Repair fare\n\nWhipstitch-Run: {run}\nWhipstitch-Receipt: sha256:{seal}\n");
    world.repaired.show(&world.repaired.commit(&world.repaired.after, base, &trailers));
    let pushed = against_repository(&world, &bundle);
    assert_eq!(pushed, (Some(0), format!("repo VALID_TREE tree={tree} commits=1"), String::new()));

    let other = RunId::fresh(NOW);
    let zeros = "0".repeat(64);
    let claims = [
        (&world.repaired.before, trailers.clone(), "repo E_TREE@2"),
        (&world.repaired.after, trailers.replace(seal.as_str(), &zeros), "repo E_EXPECTED@2"),
        (&world.repaired.after, trailers.replace(run.as_str(), other.as_str()), "repo E_RUN@2"),
        (&world.repaired.after, format!("{trailers}Whipstitch-Run: {other}\n"), "repo E_RUN@2"),
    ];
    for (tree, message, line) in claims {
        let commit = world.repaired.commit(tree, base, &message);
        world.repaired.show(&commit);
        let (code, found, why) = against_repository(&world, &bundle);
        assert_eq!((code, found.as_str()), (Some(1), line), "{message}");
        assert!(why.contains(commit.as_str()), "{why}");
    }
}

/// A bundle of a chain that a lying signer made, whose trees are not those of the repository.
fn lying(world: &World, before: &Tree, after: &Tree) -> PathBuf {
    let signer = app::keys::read(&world.folder.path().join("signing.key")).unwrap();
    let Repaired { objects, base, .. } = &world.repaired;
    let told = Repaired {
        objects: objects.clone(),
        base: base.clone(),
        before: before.clone(),
        after: after.clone(),
    };
    let folder = world.folder.path().join(format!("lying-{}-{}", before.id(), after.id()));
    std::fs::create_dir(&folder).unwrap();
    let lines = receipts::bundle::write(&chain(&signer, &told, &world.run));
    std::fs::write(folder.join("run.receipts"), lines).unwrap();
    std::fs::write(folder.join("0001.diff"), DIFF).unwrap();
    folder
}

#[tokio::test]
async fn a_chain_whose_trees_the_repository_does_not_give_is_told_by_receipt() {
    let world = World::new().await;
    let Repaired { before, after, .. } = &world.repaired;
    let whole = lying(&world, before, after);
    assert_eq!(against_repository(&world, &whole).0, Some(0));
    let cases =
        [(before, &Tree::empty(), "its diff gives tree"), (after, after, "the change before it gives tree")];
    for (before, after, said) in cases {
        let (code, line, why) = against_repository(&world, &lying(&world, before, after));
        assert_eq!((code, line.as_str()), (Some(1), "repo E_TREE@1"));
        assert!(why.contains(said), "{why}");
    }
}

#[tokio::test]
async fn a_repository_without_the_base_commit_allows_no_verdict() {
    let world = World::new().await;
    let (_, bundle) = world.export("bundle");
    let empty = world.folder.path().join("empty");
    Objects::init(&empty).unwrap();
    let (bundle, empty) = (bundle.to_str().unwrap(), empty.to_str().unwrap());
    let verified = whipstitch(&["verify", bundle, "--key", &world.key, "--repo", empty]);
    assert_eq!((verified.status.code(), text(&verified.stdout).as_str()), (Some(2), ""));
    assert!(text(&verified.stderr).contains("; fetch commit"), "{}", text(&verified.stderr));
}

#[tokio::test]
async fn receipts_of_every_key_that_the_first_one_leads_to_verify() {
    let world = World::new().await;
    let (_, bundle) = world.export("bundle");
    let file = world.folder.path().join("signing.key");
    whipstitch(&["keys", "rotate", file.to_str().unwrap()]);
    let after = lying(&world, &world.repaired.before, &world.repaired.after);
    let keyring = file.with_extension("keyring");
    let keyring = keyring.to_str().unwrap();
    for folder in [&bundle, &after] {
        let path = folder.to_str().unwrap();
        let verified = whipstitch(&["verify", path, "--key", &world.key, "--keyring", keyring]);
        assert!(first_line(&verified).starts_with("VALID_CHAIN "), "{verified:?}");
    }
    let alone = whipstitch(&["verify", after.to_str().unwrap(), "--key", &world.key]);
    assert_eq!(first_line(&alone), "E_KEYID@0");
    let stranger = hex::encode(Signer::from_seed(&[9; 32]).public_key());
    let path = bundle.to_str().unwrap();
    let verified = whipstitch(&["verify", path, "--key", &stranger, "--keyring", keyring]);
    assert_eq!((verified.status.code(), first_line(&verified).as_str()), (Some(1), "E_KEY@0"));
    assert!(text(&verified.stderr).contains("the keyring does not follow: E_KEYID@0"), "{verified:?}");
}

#[tokio::test]
async fn what_is_no_key_is_a_verdict_and_what_is_no_bundle_is_a_mistake() {
    let world = World::new().await;
    let (_, bundle) = world.export("bundle");
    let path = bundle.to_str().unwrap();
    let diff = bundle.join("0001.diff");
    let verified = whipstitch(&["verify", path, "--key", diff.to_str().unwrap()]);
    assert_eq!((verified.status.code(), first_line(&verified).as_str()), (Some(1), "E_KEY@0"));
    assert!(text(&verified.stderr).contains("not an Ed25519 public key"), "{verified:?}");
    for arguments in [
        [path, "--key", "no-such-file"],
        ["no-such-bundle", "--key", &world.key],
        ["/dev/null", "--key", &world.key],
        [path, "--key", &world.key.to_uppercase()],
    ] {
        let verified = whipstitch(&[&["verify"], &arguments[..]].concat());
        assert!(matches!(verified.status.code(), Some(1 | 2)), "{verified:?}");
        assert_eq!(text(&verified.stdout), "", "{verified:?}");
    }
    // A folder in the place of a diff is no diff.
    std::fs::remove_file(&diff).unwrap();
    std::fs::create_dir(&diff).unwrap();
    assert_eq!(first_line(&whipstitch(&["verify", path, "--key", &world.key])), "E_DIFF_LEN@1");
}
