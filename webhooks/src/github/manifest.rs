//! Making the GitHub App itself, by GitHub's manifest flow: what the app asks for, and what GitHub
//! hands out for it, once.
//!
//! The person who sets the app up is sent to GitHub with a manifest; GitHub sends them back with a
//! code that is good for one hour and one use, and the code is changed for the app's id and secrets.

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use url::Url;

use super::client::{Client, Request};
use super::error::ApiError;
use super::read::unreadable;
use super::route;
use crate::forge::ForgeError;

/// The least that the app works with, as `(permission, level)`.
pub const PERMISSIONS: [(&str, &str); 5] = [
    ("checks", "write"),
    ("contents", "write"),
    ("issues", "write"),
    ("metadata", "read"),
    ("pull_requests", "write"),
];
/// What a push to `.github/workflows` needs on top, where the operator wants such pushes.
pub const WORKFLOWS: (&str, &str) = ("workflows", "write");
/// The events that the app listens to. Those about its installations come by themselves.
pub const EVENTS: [&str; 8] = [
    "check_run",
    "check_suite",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
];
/// GitHub takes names of so many characters.
const MOST_NAME: usize = 34;

/// Whether the app may ever change workflow files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workflows {
    Never,
    Allowed,
}

/// What the person who sets the app up has chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// GitHub as browsers know it: `https://github.com`, or an enterprise server's root.
    pub web: Url,
    /// The organisation that is to own the app; the person's own account without one.
    pub organization: Option<String>,
    /// How GitHub and people reach this service.
    pub public_url: Url,
    pub workflows: Workflows,
}

impl Wish {
    /// The permissions that are asked for.
    pub fn permissions(&self) -> Vec<(&'static str, &'static str)> {
        let more = match self.workflows {
            Workflows::Never => None,
            Workflows::Allowed => Some(WORKFLOWS),
        };
        PERMISSIONS.into_iter().chain(more).collect()
    }

    /// The manifest. GitHub comes back to `redirect`.
    pub fn manifest(&self, redirect: &Url) -> Value {
        let host = self.public_url.host_str().unwrap_or_default();
        let name: String = format!("Whipstitch {host}").chars().take(MOST_NAME).collect();
        let permissions: Map<String, Value> =
            self.permissions().into_iter().map(|(name, level)| (name.to_owned(), level.into())).collect();
        json!({
            "name": name.trim_end_matches(['.', '-', ' ']),
            "url": self.public_url,
            "description": "Repairs pull requests in sealed containers and proves what it did. Pushes nothing without a yes.",
            "hook_attributes": { "url": below(&self.public_url, &["webhooks", "github"]), "active": true },
            "redirect_url": redirect,
            "public": false,
            "default_permissions": permissions,
            "default_events": EVENTS,
        })
    }

    /// Where the manifest is sent to by the person's browser.
    pub fn page(&self, state: &str) -> Url {
        let mut page = match &self.organization {
            Some(organization) => {
                below(&self.web, &["organizations", organization, "settings", "apps", "new"])
            }
            None => below(&self.web, &["settings", "apps", "new"]),
        };
        page.query_pairs_mut().append_pair("state", state);
        page
    }

    /// The REST API of this GitHub.
    pub fn api(&self) -> Url {
        api_of(&self.web)
    }
}

/// The REST API behind a GitHub as browsers know it.
pub fn api_of(web: &Url) -> Url {
    let host = web.host_str().unwrap_or_default();
    if host == "github.com" || host.ends_with(".ghe.com") {
        let mut api = web.clone();
        // The host was just read from this URL, so that it can be replaced.
        let _replaced = api.set_host(Some(&format!("api.{host}")));
        api.set_path("");
        return api;
    }
    below(web, &["api", "v3"])
}

/// What GitHub hands out for a new app.
#[derive(Clone, Debug)]
pub struct NewApp {
    pub id: i64,
    pub slug: String,
    /// The app's page on GitHub, where it is installed.
    pub page: Url,
    pub client_id: String,
    pub private_key: SecretString,
    pub webhook_secret: SecretString,
    pub client_secret: SecretString,
}

/// Changes the code that GitHub sent back for the app. A second time GitHub does not know it.
///
/// Must be called within a tokio runtime.
pub async fn convert(api: &Url, code: &str) -> Result<NewApp, ForgeError> {
    Ok(convert_at(&Client::new(api)?, code).await?)
}

async fn convert_at(client: &Client, code: &str) -> Result<NewApp, ApiError> {
    let what = "the code of the new app";
    let path = format!("/app-manifests/{}/conversions", route::escape(code));
    let answer = client.send_openly(&Request::create(path, Value::Null, what)).await?.body;
    let text = |name: &str| {
        let found = answer[name].as_str().filter(|text| !text.is_empty());
        found.ok_or_else(|| unreadable(what, &format!("there is no {name} in it")))
    };
    let page = text("html_url")?;
    Ok(NewApp {
        id: answer["id"].as_i64().ok_or_else(|| unreadable(what, "there is no id in it"))?,
        slug: text("slug")?.to_owned(),
        page: page.parse().map_err(|error| unreadable(what, &format!("its page {page}: {error}")))?,
        client_id: text("client_id")?.to_owned(),
        private_key: text("pem")?.into(),
        webhook_secret: text("webhook_secret")?.into(),
        client_secret: text("client_secret")?.into(),
    })
}

fn below(base: &Url, parts: &[&str]) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(parts);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(workflows: Workflows) -> Wish {
        Wish {
            web: "https://github.com".parse().unwrap(),
            organization: None,
            public_url: "https://repair.example.org/whip/".parse().unwrap(),
            workflows,
        }
    }

    #[test]
    fn the_manifest_asks_for_the_least_and_for_workflows_only_when_wanted() {
        let redirect = "https://repair.example.org/whip/setup/done".parse().unwrap();
        let least = wish(Workflows::Never).manifest(&redirect);
        insta::assert_snapshot!(serde_json::to_string_pretty(&least).unwrap());
        let more = wish(Workflows::Allowed).manifest(&redirect);
        assert_eq!(more["default_permissions"]["workflows"], "write");
        assert_eq!(more["default_permissions"].as_object().unwrap().len(), 6);
    }

    #[test]
    fn the_page_is_the_owners_and_carries_the_state() {
        let own = wish(Workflows::Never);
        assert_eq!(own.page("s t").as_str(), "https://github.com/settings/apps/new?state=s+t");
        let theirs = Wish {
            web: "https://ghe.example/git/".parse().unwrap(),
            organization: Some("a/cme".into()),
            ..own
        };
        assert_eq!(
            theirs.page("s").as_str(),
            "https://ghe.example/git/organizations/a%2Fcme/settings/apps/new?state=s"
        );
    }

    #[test]
    fn the_api_stands_where_each_kind_of_github_has_it() {
        for (web, api) in [
            ("https://github.com/", "https://api.github.com/"),
            ("https://acme.ghe.com", "https://api.acme.ghe.com/"),
            ("https://ghe.example", "https://ghe.example/api/v3"),
            ("http://127.0.0.1:3000/", "http://127.0.0.1:3000/api/v3"),
        ] {
            assert_eq!(api_of(&web.parse().unwrap()).as_str(), api);
        }
    }
}
