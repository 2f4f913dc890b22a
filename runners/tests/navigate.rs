//! What an agent is told of a tree, from the store's kept tags to the four questions.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jobs::forge::{ForgeKind, Repository};
use jobs::store::Db;
use jobs::verdict::{CheckOutcome, CheckResult, Checked, Report, TestFailure};
use runners::executor::navigate::{keep, kept};
use runners::navigate::retrieve::{RetrieveAsk, Workspace};
use runners::navigate::tools::{read_file, repo_map, retrieve, search};
use runners::navigate::{Focus, Gathered, Known, MapAsk, ReadAsk, RepoView, SearchAsk, Stop, gather};
use runners::workspace::{Entry, Mode, Tree, TreePath};

const FILES: [(&str, &str); 4] = [
    (
        "shop/order.py",
        "from shop.cart import Cart\n\nclass Order:\n    def total(self, cart: Cart):\n        return cart.amount()\n",
    ),
    ("shop/cart.py", "class Cart:\n    def amount(self):\n        return 1\n"),
    ("shop/unrelated.go", "package shop\n\nfunc Unrelated() {}\n"),
    (
        "tests/test_order.py",
        "from shop.order import Order\n\ndef test_total():\n    assert Order().total(None) == 2\n",
    ),
];

fn tree(files: &[(&str, &str)]) -> Tree {
    let entries = files.iter().map(|(path, content)| {
        (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, content.as_bytes()))
    });
    Tree::new(entries.collect(), None).unwrap()
}

fn in_time() -> Stop<'static> {
    Stop::in_time(Duration::from_secs(600))
}

fn repository(name: &str) -> Repository {
    Repository { forge: ForgeKind::Local, owner: "octo".to_owned(), name: name.to_owned(), installation: 1 }
}

/// What a run's Navigate step does.
async fn navigate(db: &Db, repository: &Repository, tree: &Tree) -> Gathered {
    let known = kept(db, repository, tree).await.unwrap();
    let gathered = gather(tree, &known, in_time());
    keep(db, repository, &gathered.fresh, 1).await.unwrap();
    gathered
}

#[tokio::test]
async fn a_second_run_reads_only_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&format!("sqlite://{}", folder.path().join("run.db").display())).await.unwrap();
    let widgets = repository("widgets");
    let first = navigate(&db, &widgets, &tree(&FILES)).await;
    assert_eq!((first.fresh.len(), first.known), (4, 0));
    let again = navigate(&db, &widgets, &tree(&FILES)).await;
    assert_eq!((again.fresh.len(), again.known), (0, 4));
    let mut files = FILES;
    files[1].1 = "class Cart:\n    def amount(self):\n        return 2\n";
    let changed = navigate(&db, &widgets, &tree(&files)).await;
    assert_eq!((changed.fresh.len(), changed.known), (1, 3));
    let text = |gathered: Gathered| {
        let view = RepoView::new(tree(&FILES), gathered.tags, Focus::default(), Workspace::open(None));
        repo_map(&view, &MapAsk::default()).text
    };
    assert_eq!(text(first), text(again), "what is kept draws the same map");
    let other = navigate(&db, &repository("gadgets"), &tree(&FILES)).await;
    assert_eq!((other.fresh.len(), other.known), (4, 0), "another repository's rows are not seen");
}

#[tokio::test]
async fn the_four_questions_answer_from_the_failure_on() {
    let tree = tree(&FILES);
    let tags = gather(&tree, &Known::default(), in_time()).tags;
    let view = RepoView::new(tree, tags, Focus::of(&failed()), Workspace::open(None));
    insta::assert_snapshot!(repo_map(&view, &MapAsk::default()).text, @"
    tests/test_order.py
        3 def test_total():
    shop/order.py
        3 class Order:
        4   def total(self, cart: Cart):
    shop/cart.py
        1 class Cart:
        2   def amount(self):
    shop/unrelated.go
        3 func Unrelated() {}
    ");
    let ask: SearchAsk = serde_json::from_str(r#"{"pattern": "amount\\(", "globs": ["shop/*.py"]}"#).unwrap();
    insta::assert_snapshot!(search(&view, &ask).unwrap().text(), @"
    shop/cart.py:2:     def amount(self):
    shop/order.py:5:         return cart.amount()
    ");
    let ask: ReadAsk = serde_json::from_str(r#"{"path": "shop/cart.py", "line": 2}"#).unwrap();
    insta::assert_snapshot!(read_file(&view, &ask).unwrap().text(), @"
         2	    def amount(self):
         3	        return 1
    ");
    let ask: RetrieveAsk = serde_json::from_str(r#"{"query": "what is unrelated", "passages": 1}"#).unwrap();
    insta::assert_snapshot!(retrieve(&view, &ask).await.unwrap().text(), @"
    shop/unrelated.go:1-3
    package shop

    func Unrelated() {}
    ");
    assert!(serde_json::from_str::<ReadAsk>(r#"{"path": "a", "root": "/"}"#).is_err());
}

#[tokio::test]
async fn after_an_edit_every_answer_is_of_the_new_tree() {
    let before = tree(&FILES);
    let tags = gather(&before, &Known::default(), in_time()).tags;
    let view = RepoView::new(before, tags, Focus::default(), Workspace::open(None));
    let ask = RetrieveAsk { query: "amount".to_owned(), passages: None };
    retrieve(&view, &ask).await.unwrap();
    let mut files = FILES;
    files[1].1 = "class Basket:\n    def weight(self):\n        return 1\n";
    let view = view.after(tree(&files), in_time());
    let map = repo_map(&view, &MapAsk::default()).text;
    assert!(map.contains("class Basket") && !map.contains("class Cart"), "{map}");
    let ask = RetrieveAsk { query: "basket".to_owned(), passages: None };
    assert_eq!(retrieve(&view, &ask).await.unwrap().passages[0].path.to_string(), "shop/cart.py");
}

fn failed() -> Checked {
    let failure = TestFailure {
        name: "tests/test_order.py::test_total".to_owned(),
        file: Some("tests/test_order.py".to_owned()),
        line: Some(4),
        message: "assert 1 == 2".to_owned(),
        excerpt: "where 1 = total(None)".to_owned(),
    };
    let tool = jobs::check::Tool::Pytest;
    let report =
        Report { outcome: CheckOutcome::Failed, failures: vec![failure], ..Report::inconclusive(tool, "") };
    let check =
        CheckResult { name: "pytest".to_owned(), exit_code: Some(1), duration_ms: 1, output: None, report };
    Checked { checks: vec![check] }
}
