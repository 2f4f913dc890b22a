use proptest::strategy::Strategy as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::workspace::{Entry, Mode};

fn tree(files: &[(&str, &str)]) -> Tree {
    let entries = files.iter().map(|(path, content)| {
        (TreePath::parse(path).unwrap(), Entry::new(Mode::Regular, content.as_bytes()))
    });
    Tree::new(entries.collect(), None).unwrap()
}

fn ask(query: &str) -> RetrieveAsk {
    RetrieveAsk { query: query.to_owned(), passages: None }
}

fn places(found: &Retrieved) -> Vec<String> {
    found.passages.iter().map(|found| format!("{}:{}", found.path, found.first_line)).collect()
}

const FILES: [(&str, &str); 3] = [
    ("shop/cart.py", "class CartItem:\n    def total_amount(self): return self.price * self.count\n"),
    ("shop/user.py", "class UserAccount:\n    def loginName(self): return self.name\n"),
    ("README.md", "A shop where people log in and fill a cart.\n"),
];

#[tokio::test]
async fn words_of_identifiers_are_found() {
    let workspace = Workspace::open(None);
    let tree = tree(&FILES);
    let first = |query| places_of_first(&workspace, &tree, query);
    assert_eq!(first("the total amount of an item").await, "shop/cart.py:1");
    assert_eq!(first("login name of an account").await, "shop/user.py:1");
    assert_eq!(first("TotalAmount").await, "shop/cart.py:1");
    assert_eq!(first("people").await, "README.md:1");
    let none = workspace.retrieve(&tree, &ask("zebra")).await.unwrap();
    assert_eq!(none.text(), "nothing speaks of it\n");
    assert!(workspace.retrieve(&tree, &ask(" ")).await.is_err());
    assert!(workspace.retrieve(&tree, &ask(&"x".repeat(5_000))).await.is_err());
}

async fn places_of_first(workspace: &Workspace, tree: &Tree, query: &str) -> String {
    places(&workspace.retrieve(tree, &ask(query)).await.unwrap()).remove(0)
}

#[tokio::test]
async fn the_index_follows_the_tree() {
    let workspace = Workspace::open(None);
    workspace.retrieve(&tree(&FILES), &ask("cart")).await.unwrap();
    let changed = tree(&[FILES[0], ("shop/user.py", "class Zebra: pass\n")]);
    assert_eq!(places_of_first(&workspace, &changed, "zebra").await, "shop/user.py:1");
    let found = workspace.retrieve(&changed, &ask("people login account")).await.unwrap();
    assert_eq!(places(&found), [] as [String; 0]);
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let files: Vec<(String, String)> =
        (0..200).map(|at| (format!("f{at}.py"), "word and other words\n".repeat(200))).collect();
    let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    let all = RetrieveAsk { query: "word".to_owned(), passages: Some(usize::MAX) };
    let found = Workspace::open(None).retrieve(&tree(&files), &all).await.unwrap();
    assert!(found.passages.len() <= MAX_PASSAGES && found.passages.len() > 5);
    assert!(found.text().len() < MAX_ANSWER + 4_000);
}

/// Two workspaces whose files are made of the same words but for one that each has alone.
fn two() -> [(Workspace, Tree, &'static str); 2] {
    [("alpha", "mine_alone"), ("beta", "yours_alone")].map(|(name, secret)| {
        let content = format!("def shared_word(): return '{name} {secret}'\n");
        (Workspace::open(None), tree(&[("same.py", &content), (name, "shared word\n")]), secret)
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever is asked, the answer is made of the asker's own files.
    #[test]
    fn no_query_reaches_the_text_of_another_workspace(
        words in proptest::collection::vec(
            proptest::prop_oneof![
                "[a-z_]{1,12}".prop_map(|word| word),
                proptest::sample::select(vec!["mine_alone", "yours_alone", "shared_word", "alpha", "beta", "same.py"])
                    .prop_map(str::to_owned),
            ],
            1..8,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [left, right] = two();
        for ((workspace, tree, own), (_, _, foreign)) in [(&left, &right), (&right, &left)] {
            let found = runtime.block_on(workspace.retrieve(tree, &ask(&words.join(" ")))).unwrap();
            proptest::prop_assert!(!found.text().contains(foreign));
            for passage in &found.passages {
                let content = tree.read(&passage.path).unwrap();
                proptest::prop_assert!(String::from_utf8_lossy(&content).contains(&passage.text));
            }
            if words.iter().any(|word| word == own) {
                proptest::prop_assert!(found.text().contains(own), "its own text is reached");
            }
        }
    }
}

/// Even the tree of another workspace, handed in by mistake, is not reached through an index of it: the index
/// is built of what is handed in, under the handle that is asked.
#[tokio::test]
async fn one_workspace_does_not_see_what_another_one_has_indexed() {
    let [(left, left_tree, _), (right, right_tree, secret)] = two();
    right.retrieve(&right_tree, &ask(secret)).await.unwrap();
    let found = left.retrieve(&left_tree, &ask(secret)).await.unwrap();
    assert!(!found.text().contains(secret));
}

/// A stand-in for an embeddings endpoint: a text's vector counts three of its words.
struct Endpoint {
    address: std::net::SocketAddr,
    server: tokio::task::JoinHandle<()>,
    texts: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    async fn start(status: &'static str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let texts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&texts);
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let body = request(&mut stream).await;
                let input: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
                let vectors = input.iter().enumerate().map(|(index, text)| {
                    let count = |word: &str| text.to_lowercase().matches(word).count() as f32 + 0.01;
                    // What is bought is what is in the cart, to this model.
                    let embedding = [count("cart") + count("purchase"), count("user"), count("shop")];
                    serde_json::json!({ "index": index, "embedding": embedding })
                });
                let answer = serde_json::json!({ "data": vectors.collect::<Vec<_>>() }).to_string();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    answer.len()
                );
                stream.write_all((head + &answer).as_bytes()).await.unwrap();
                held(&seen).extend(input);
            }
        });
        Self { address, server, texts }
    }

    fn client(&self) -> Option<EmbeddingEndpoint> {
        let key = secrecy::SecretString::from("key-of-the-test");
        Some(EmbeddingEndpoint::new(&format!("http://{}/v1/", self.address), "small", Some(key)).unwrap())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn request(stream: &mut tokio::net::TcpStream) -> serde_json::Value {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 8192];
        let length = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            assert!(head.starts_with("post /v1/embeddings "), "{head}");
            assert!(head.contains("authorization: bearer key-of-the-test"), "{head}");
            return serde_json::from_str(body).unwrap();
        }
        assert!(length != "0", "a request has a body");
    }
}

#[tokio::test]
async fn embeddings_find_what_no_word_finds() {
    let endpoint = Endpoint::start("200 OK").await;
    let workspace = Workspace::open(endpoint.client());
    let found = workspace.retrieve(&tree(&FILES), &ask("purchases")).await.unwrap();
    assert_eq!(found.embeddings, Ranked::Took);
    assert_eq!(places(&found)[0], "shop/cart.py:1");
    let texts = held(&endpoint.texts).len();
    workspace.retrieve(&tree(&FILES), &ask("user")).await.unwrap();
    assert_eq!(held(&endpoint.texts).len(), texts + 1, "a passage is embedded once");
}

#[tokio::test]
async fn one_workspace_sends_the_endpoint_its_own_text_alone() {
    let endpoint = Endpoint::start("200 OK").await;
    let [(_, left_tree, left), (_, right_tree, right)] = two();
    let workspaces = [Workspace::open(endpoint.client()), Workspace::open(endpoint.client())];
    workspaces[0].retrieve(&left_tree, &ask("shared")).await.unwrap();
    assert!(!held(&endpoint.texts).iter().any(|text| text.contains(right)));
    held(&endpoint.texts).clear();
    let found = workspaces[1].retrieve(&right_tree, &ask("shared")).await.unwrap();
    assert!(!found.text().contains(left) && !held(&endpoint.texts).iter().any(|text| text.contains(left)));
}

#[tokio::test]
async fn without_an_answer_of_the_endpoint_the_words_rank_alone() {
    let endpoint = Endpoint::start("503 Service Unavailable").await;
    let found = Workspace::open(endpoint.client()).retrieve(&tree(&FILES), &ask("people")).await.unwrap();
    assert_eq!(places(&found), ["README.md:1"]);
    assert_eq!(found.embeddings, Ranked::Failed("the embeddings' endpoint answers 503".to_owned()));
}
