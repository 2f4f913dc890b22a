//! What stands between this app and its work: its key, its clock, what it was granted, and whether
//! GitHub's webhooks arrive. Asks GitHub, changes nothing.

use serde_json::Value;

use super::GitHub;
use super::client::{Answer, Request};
use super::error::ApiError;
use super::manifest::{EVENTS, PERMISSIONS, WORKFLOWS};

/// A clock that is further off than this is said to be wrong.
const MOST_SKEW_MS: i64 = 30_000;
/// Installations that are looked at.
const MOST_INSTALLATIONS: usize = 100;
/// Deliveries that are looked at.
const DELIVERIES: usize = 30;

/// How a thing stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    Good,
    /// It works, and something is to be known or done.
    Weak,
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub name: &'static str,
    pub health: Health,
    /// What was found, in one line.
    pub found: String,
    /// What to do; empty where there is nothing.
    pub advice: String,
}

impl Finding {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, health: Health::Good, found: found.into(), advice: String::new() }
    }

    fn weak(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, health: Health::Weak, found: found.into(), advice: advice.into() }
    }

    fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, health: Health::Bad, found: found.into(), advice: advice.into() }
    }
}

impl GitHub {
    /// Looks at everything. What comes after a failure that hides it is left out.
    pub async fn health(&self) -> Vec<Finding> {
        let answer = match self.credentials.send_as_app(&Request::read("/app".into(), "the app")).await {
            Ok(answer) => answer,
            Err(error) => return vec![refused(self.credentials.app_id(), &error)],
        };
        let slug = answer.body["slug"].as_str().unwrap_or("?");
        let mut findings = vec![Finding::good(
            "key",
            format!("GitHub knows it as app {slug} ({})", self.credentials.app_id()),
        )];
        findings.push(clock(self.credentials.clock_now(), &answer));
        findings.push(permissions("permissions", "the app", &answer.body["permissions"], PAGE_ADVICE));
        findings.push(events(&answer.body["events"]));
        findings.extend(self.installations().await);
        findings.push(self.webhooks().await);
        findings
    }

    async fn installations(&self) -> Vec<Finding> {
        const NAME: &str = "installation";
        let path = format!("/app/installations?per_page={MOST_INSTALLATIONS}");
        let answer = self.credentials.send_as_app(&Request::read(path, "the app's installations")).await;
        let list = match &answer {
            Ok(answer) => answer.body.as_array().map(Vec::as_slice).unwrap_or_default(),
            Err(error) => return vec![Finding::bad(NAME, error.to_string(), "try again later")],
        };
        if list.is_empty() {
            let advice = "install it on the app's page on GitHub, and choose the repositories";
            return vec![Finding::bad(NAME, "the app is installed nowhere", advice)];
        }
        list.iter().map(installation).collect()
    }

    async fn webhooks(&self) -> Finding {
        const NAME: &str = "webhooks";
        let path = format!("/app/hook/deliveries?per_page={DELIVERIES}");
        let answer = self.credentials.send_as_app(&Request::read(path, "the app's deliveries")).await;
        let list = match &answer {
            Ok(answer) => answer.body.as_array().map(Vec::as_slice).unwrap_or_default(),
            Err(ApiError::NotFound { .. }) => {
                return Finding::bad(NAME, "the app has no webhook", "set its URL in the app's settings");
            }
            Err(error) => return Finding::bad(NAME, error.to_string(), "try again later"),
        };
        let Some(last) = list.first() else {
            return Finding::weak(
                NAME,
                "GitHub has sent nothing in the last three days",
                "comment on a pull request, or save the webhook's settings to have a ping sent",
            );
        };
        let arrived = |entry: &Value| matches!(entry["status_code"].as_i64(), Some(200..=299));
        let (at, event) = (word(&last["delivered_at"]), word(&last["event"]));
        let failed = list.iter().filter(|entry| !arrived(entry)).count();
        let said = match (last["status_code"].as_i64(), last["status"].as_str()) {
            (Some(code @ 1..), _) => format!("status {code}"),
            (_, Some(status)) => status.chars().filter(|c| !c.is_control()).take(80).collect(),
            (_, None) => "no answer".to_owned(),
        };
        if !arrived(last) {
            let advice = match last["status_code"].as_i64() {
                Some(401) => "the webhook secret differs: set the same one in the app's settings and here",
                Some(404) => {
                    "the address is another service's or lacks /webhooks/github; correct it in the app's settings"
                }
                Some(100..=499) => "see the delivery in the app's settings, under Advanced",
                Some(_) | None => {
                    "let GitHub reach the address in the app's settings: name, firewall, proxy and certificate; what was missed is taken in later"
                }
            };
            return Finding::bad(NAME, format!("the last delivery ({event}, {at}) failed: {said}"), advice);
        }
        let found = format!("the last delivery ({event}, {at}) arrived");
        match failed {
            0 => Finding::good(NAME, found),
            failed => Finding::weak(
                NAME,
                format!("{found}; {failed} of the last {} did not", list.len()),
                "a running service takes in what was missed",
            ),
        }
    }
}

fn refused(id: i64, error: &ApiError) -> Finding {
    let advice = match error {
        ApiError::Unauthorized { .. } => {
            "make a new private key in the app's settings and put its file in the place of the old one; also check the app's id and this machine's clock"
        }
        ApiError::NotFound { .. } => {
            "there is no app with this id behind this address; compare github.app_id and github.api_url with the app's settings"
        }
        ApiError::Unavailable { .. } => "check that this machine reaches github.api_url",
        ApiError::RateLimited { .. } => "wait, then try again",
        ApiError::Forbidden { .. } | ApiError::Rejected { .. } | ApiError::Unreadable { .. } => {
            "check that github.api_url is the REST API's address"
        }
    };
    Finding::bad("key", format!("app {id}: {error}"), advice)
}

fn clock(now: i64, answer: &Answer) -> Finding {
    const NAME: &str = "clock";
    match answer.date {
        None => Finding::weak(NAME, "GitHub's answer carries no time", "check this machine's clock yourself"),
        Some(theirs) if (now - theirs).abs() > MOST_SKEW_MS => Finding::weak(
            NAME,
            format!("this machine is {} s off GitHub's time", (now - theirs).div_euclid(1000)),
            "have the clock kept by NTP; until then each start costs one refused request",
        ),
        Some(theirs) => {
            let off = (now - theirs).abs().div_euclid(1000);
            Finding::good(NAME, format!("within {} s of GitHub's", off + 1))
        }
    }
}

const PAGE_ADVICE: &str = "set it under Permissions in the app's settings, then let the owners accept it";

fn permissions(name: &'static str, who: &str, granted: &Value, advice: &str) -> Finding {
    let has = |(permission, level): &(&str, &str)| match granted[permission].as_str() {
        Some("write" | "admin") => true,
        Some(given) => given == *level,
        None => false,
    };
    let missing: Vec<String> = PERMISSIONS
        .iter()
        .filter(|wanted| !has(wanted))
        .map(|(permission, level)| format!("{permission}: {level}"))
        .collect();
    let known = |name: &&String| PERMISSIONS.iter().chain([&WORKFLOWS]).any(|(known, _)| name == known);
    let more: Vec<String> = granted
        .as_object()
        .map(|members| members.keys().filter(|name| !known(name)).cloned().collect())
        .unwrap_or_default();
    if !missing.is_empty() {
        return Finding::bad(name, format!("{who} lacks {}", missing.join(", ")), advice);
    }
    let workflows = match has(&WORKFLOWS) {
        true => "and workflow files may be pushed",
        false => "workflow files cannot be pushed",
    };
    match more.is_empty() {
        true => Finding::good(name, format!("{who} has what is needed; {workflows}")),
        false => Finding::weak(
            name,
            format!("{who} also has {}, which is never used", more.join(", ")),
            "take it away in the app's settings",
        ),
    }
}

fn events(listed: &Value) -> Finding {
    let listed: Vec<&str> = listed.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let missing: Vec<&str> = EVENTS.into_iter().filter(|event| !listed.contains(event)).collect();
    match missing.is_empty() {
        true => Finding::good("events", format!("{} are sent", EVENTS.len())),
        false => Finding::bad(
            "events",
            format!("not sent: {}", missing.join(", ")),
            "tick them under Subscribe to events in the app's settings",
        ),
    }
}

fn installation(entry: &Value) -> Finding {
    let who = format!("{} ({})", word(&entry["account"]["login"]), entry["id"].as_i64().unwrap_or_default());
    if entry["suspended_at"].is_string() {
        return Finding::bad("installation", format!("{who} is suspended"), "its owner can lift that");
    }
    permissions(
        "installation",
        &who,
        &entry["permissions"],
        "its owner must accept the app's new permissions",
    )
}

/// A word of GitHub's, fit for a terminal.
fn word(value: &Value) -> String {
    let plain = |c: &char| c.is_ascii_graphic();
    value.as_str().unwrap_or("?").chars().filter(plain).take(60).collect()
}
