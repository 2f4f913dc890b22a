//! Prints the Rust verifier's lines for `vectors/compare`: of the corpus, or of random mutations.
//!
//! `verdicts corpus FILE` prints a line per case. `verdicts mutations FILE COUNT SEED` takes the corpus's
//! good bundle, changes it COUNT times, and prints each as a case with its lines, for the other verifier.
#![expect(clippy::print_stdout, reason = "what it is for is printing")]
#![expect(clippy::unwrap_used, reason = "a tool for developers: a panic is its error message")]

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipts::report::{Files, Request, verify};
use serde_json::{Value, json};

type Bytes = BTreeMap<String, Vec<u8>>;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(&arguments[2]).unwrap()).unwrap();
    match arguments[1].as_str() {
        "corpus" => corpus(&cases),
        "mutations" => mutations(&cases, arguments[3].parse().unwrap(), arguments[4].parse().unwrap()),
        other => panic!("{other} is neither corpus nor mutations"),
    }
}

fn corpus(cases: &[Value]) {
    for case in cases {
        let files = files(case);
        let report = verify(&Files::Memory(files.clone()), &key(case), &request(case, &files));
        println!("{}\t{}\t{}", case["name"].as_str().unwrap(), report.exit_code, report.lines.join(" / "));
    }
}

fn key(case: &Value) -> [u8; 32] {
    let text = case["key"].as_str().unwrap();
    std::array::from_fn(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
}

fn files(case: &Value) -> Bytes {
    let bytes = |file: &Value| match file {
        Value::String(text) => text.clone().into_bytes(),
        file if file["base64"].is_string() => STANDARD.decode(file["base64"].as_str().unwrap()).unwrap(),
        file => {
            let unit = file["unit"].as_str().unwrap().repeat(file["times"].as_u64().unwrap() as usize);
            format!("{}{unit}{}", file["before"].as_str().unwrap(), file["after"].as_str().unwrap())
                .into_bytes()
        }
    };
    case["files"].as_object().unwrap().iter().map(|(name, file)| (name.clone(), bytes(file))).collect()
}

/// What the case's arguments ask for; its keyring is one of its files.
fn request<'a>(case: &Value, files: &'a Bytes) -> Request<'a> {
    let mut request = Request::default();
    let mut arguments = case["arguments"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    while let Some(word) = arguments.next() {
        match word {
            "--keyring" => request.keyring = Some(&files[arguments.next().unwrap()]),
            "--expect-head" => {
                let head = arguments.next().unwrap();
                request.expected.head = Some(key(&json!({ "key": head })));
            }
            "--expect-count" => request.expected.count = arguments.next().unwrap().parse().ok(),
            "--receipt" => request.receipt = arguments.next().unwrap().parse().ok(),
            "--journal" => request.journal = true,
            "--authorizations" => request.authorizations = true,
            "--exports" => request.exports = true,
            other => panic!("{other}"),
        }
    }
    request
}

/// xorshift64*: the same mutations for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % limit
    }
}

/// The good chain with its journal and its exports; all of it is asked for, so that no change may go unseen.
fn mutations(cases: &[Value], count: usize, seed: u64) {
    let named = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    let mut good = files(named("journal: good"));
    good.extend(files(named("exports: good")));
    let request = Request { journal: true, exports: true, ..Request::default() };
    let key_text = &named("good")["key"];
    let key = key(named("good"));
    let mut random = Random(seed.max(1));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for number in 0..count {
        let mut files = good.clone();
        while files == good {
            for _ in 0..=random.below(3) {
                mutate(&mut files, &mut random);
            }
        }
        let report = verify(&Files::Memory(files.clone()), &key, &request);
        assert!(report.exit_code != 0, "mutation {number} of seed {seed} is valid");
        let files: BTreeMap<_, _> =
            files.iter().map(|(name, bytes)| (name, json!({ "base64": STANDARD.encode(bytes) }))).collect();
        let line = json!({
            "name": format!("mutation {number} of seed {seed}"), "key": key_text, "arguments": ["--journal", "--exports"],
            "files": files, "lines": report.lines, "exit": report.exit_code,
        });
        writeln!(out, "{line}").unwrap();
    }
}

fn mutate(files: &mut Bytes, random: &mut Random) {
    let names: Vec<String> = files.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let mut name = names[random.below(names.len())].clone();
    // Half of all changes are to the chain itself.
    if random.below(2) == 0 && files.contains_key("run.receipts") {
        name = "run.receipts".to_owned();
    }
    if random.below(40) == 0 {
        files.remove(&name);
        return;
    }
    let bytes = files.get_mut(&name).unwrap();
    let lines = bytes.split_inclusive(|&byte| byte == b'\n').count();
    let at = random.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
    match random.below(9) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => drop(bytes.remove(at)),
        2 => bytes.insert(at, b"\"\\{}:,0aA\n\t\r \x00\xff\xef"[random.below(16)]),
        3 => bytes.truncate(at),
        4 if lines > 1 => swap_lines(bytes, random.below(lines), random.below(lines)),
        5 if lines > 1 => take_line(bytes, random.below(lines), 0),
        6 if lines > 1 => take_line(bytes, random.below(lines), 2),
        7 if !bytes.is_empty() => bytes[at] = b"0123456789abcdef\"\\{}"[random.below(20)],
        _ => bytes.extend_from_slice(b"{}\t00\n"),
    }
}

fn swap_lines(bytes: &mut Vec<u8>, a: usize, b: usize) {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.swap(a, b);
    *bytes = lines.concat();
}

/// The line is there `times` times afterwards.
fn take_line(bytes: &mut Vec<u8>, line: usize, times: usize) {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n').enumerate();
    *bytes = lines.flat_map(|(n, text)| text.repeat(if n == line { times } else { 1 })).collect();
}
