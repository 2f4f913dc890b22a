//! Secrets that came into a report by way of a log, a diff or a message: masked before anything is cut.
//!
//! What is masked: the operator's own secrets wherever they stand, private keys, the forms in which
//! well-known services give out tokens, passwords in URLs, and secret or random values in
//! environment form (`NAME=value`).

use secrecy::{ExposeSecret as _, SecretString};

/// What stands in a secret's place.
const MASKED: &str = "[masked]";
/// A configured secret that is shorter would mask ordinary words.
const SHORTEST_SECRET: usize = 6;

/// Beginnings of tokens, and how many token characters must follow at least.
const FORMS: [(&str, usize); 18] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("sk-", 20),
    ("sk_live_", 16),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-", 40),
];
/// Parts of a variable's name that say that its value is secret.
const SECRET_NAMES: [&str; 7] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "_KEY"];

/// What must not be shown. Its `Debug` shows none of it.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    secrets: Vec<SecretString>,
}

impl Mask {
    /// A mask that also knows the operator's own secrets.
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let secrets =
            secrets.into_iter().filter(|secret| secret.expose_secret().len() >= SHORTEST_SECRET).collect();
        Self { secrets }
    }

    /// The text without its secrets.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.expose_secret(), MASKED);
        }
        text = without_private_keys(&text);
        for (form, least) in FORMS {
            text = without_form(&text, form, least, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        }
        let in_jwt = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        text = without_form(&text, "eyJ", 60, in_jwt);
        let lines: Vec<String> =
            text.split('\n').map(|line| without_assignments(&without_url_passwords(line))).collect();
        lines.join("\n")
    }
}

/// Masks from `-----BEGIN .. PRIVATE KEY-----` to its end, or to the end of the text.
fn without_private_keys(text: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(label) = rest.find("PRIVATE KEY-----") {
        let begins = rest[..label].rfind("-----BEGIN ").filter(|at| !rest[*at..label].contains('\n'));
        let body = label + "PRIVATE KEY-----".len();
        let Some(begin) = begins else {
            kept.push_str(&rest[..body]);
            rest = &rest[body..];
            continue;
        };
        kept.push_str(&rest[..begin]);
        kept.push_str(MASKED);
        rest = &rest[body..];
        rest = match rest.find("PRIVATE KEY-----") {
            Some(end) => &rest[end + "PRIVATE KEY-----".len()..],
            None => "",
        };
    }
    kept.push_str(rest);
    kept
}

/// Masks each token that begins with `form`, unless the form stands within a word.
fn without_form(text: &str, form: &str, least: usize, belongs: impl Fn(char) -> bool) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(form) {
        let within = rest[..at].chars().next_back().or(kept.chars().next_back());
        let within = within.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let tail = &rest[at + form.len()..];
        let length = tail.find(|c| !belongs(c)).unwrap_or(tail.len());
        let end = at + form.len() + length;
        if !within && length >= least {
            kept.push_str(&rest[..at]);
            kept.push_str(MASKED);
        } else {
            kept.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    kept.push_str(rest);
    kept
}

/// Masks the password of `scheme://user:password@host`.
fn without_url_passwords(line: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find("://") {
        let start = at + 3;
        let end = rest[start..].find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?'));
        let authority = &rest[start..end.map_or(rest.len(), |end| start + end)];
        match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
            Some((user, host)) => {
                kept.push_str(&rest[..start]);
                kept.push_str(&format!("{user}:{MASKED}@{host}"));
            }
            None => kept.push_str(&rest[..start + authority.len()]),
        }
        rest = &rest[start + authority.len()..];
    }
    kept.push_str(rest);
    kept
}

/// Masks values in environment form whose name says that they are secret, or that look random.
fn without_assignments(line: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find('=') {
        let in_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let name = &rest[rest[..at].rfind(|c| !in_name(c)).map_or(0, |last| {
            // The character before the name may have several bytes.
            last + rest[last..].chars().next().map_or(1, char::len_utf8)
        })..at];
        let tail = &rest[at + 1..];
        let quote = tail.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => tail[1..].split(quote).next().unwrap_or_default(),
            None => tail
                .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'))
                .next()
                .unwrap_or_default(),
        };
        let start = at + 1 + usize::from(quote.is_some());
        kept.push_str(&rest[..start]);
        kept.push_str(if is_secret(name, value) { MASKED } else { value });
        rest = &rest[start + value.len()..];
    }
    kept.push_str(rest);
    kept
}

fn is_secret(name: &str, value: &str) -> bool {
    if name.len() < 3 || value.starts_with('$') || value.contains(MASKED) {
        return false;
    }
    let named = SECRET_NAMES.iter().any(|part| name.contains(part));
    (named && value.len() >= 6) || (value.len() >= 24 && entropy(value) >= 4.0)
}

/// Shannon's entropy in bits per byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|share| -share * share.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_secrets_of_every_form_are_masked() {
        let mask = Mask::new(vec!["our own webhook secret".into(), "abc".into()]);
        let ghs = format!("ghs_{}", "a1B2".repeat(9));
        let jwt = format!("eyJ{}.eyJ{}.{}", "a".repeat(30), "b".repeat(30), "c".repeat(30));
        for (given, shown) in [
            ("x our own webhook secret y".to_owned(), "x [masked] y"),
            (format!("token {ghs}."), "token [masked]."),
            (format!("Authorization: Bearer {jwt}"), "Authorization: Bearer [masked]"),
            ("AKIAIOSFODNN7EXAMPLE".into(), "[masked]"),
            ("https://ada:hunter22@host.example/x".into(), "https://ada:[masked]@host.example/x"),
            ("DATABASE_PASSWORD=hunter22 next".into(), "DATABASE_PASSWORD=[masked] next"),
            ("export API_TOKEN=\"a b c d e\" && x".into(), "export API_TOKEN=\"[masked]\" && x"),
            ("SALT=q7Zk2LmX9vBt4RwY8sNcJd3F".into(), "SALT=[masked]"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nz".into(), "[masked]\nz"),
            ("a\n-----BEGIN PRIVATE KEY-----\nMII".into(), "a\n[masked]"),
        ] {
            assert_eq!(mask.apply(&given), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays_as_it_is() {
        let mask = Mask::new(vec!["abc".into()]);
        let digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        for text in [
            &format!("sha256={digest} seal {digest}"),
            "abc RUSTFLAGS=-Dwarnings PATH=/usr/local/bin:/usr/bin a == b",
            "ask-someone-else-about-this-please sk-short",
            "let x = y; é=ß KEY=$TOKEN https://host.example/a@b:c",
            "PRIVATE KEY----- without a beginning",
        ] {
            assert_eq!(mask.apply(text), text);
        }
    }
}
