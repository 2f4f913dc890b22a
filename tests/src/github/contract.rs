//! GitHub's own description of its REST API, cut to what an app calls: every request is held to it.
//!
//! Only the part of JSON Schema that the description uses for request bodies is understood; another
//! keyword is an error when it is met, so that nothing passes unseen.

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The description.
pub(super) struct Contract(Value);

const DESCRIPTION: &str = include_str!("../../fixtures/github/contract.openapi.json");

/// Keywords that say nothing about what is valid.
const ANNOTATIONS: [&str; 7] =
    ["description", "example", "examples", "default", "title", "format", "deprecated"];

impl Contract {
    pub fn load() -> Result<Self> {
        Ok(Self(serde_json::from_str(DESCRIPTION).context("the description is JSON")?))
    }

    /// What is wrong with a request, if anything.
    pub fn check(&self, method: &str, path: &str, body: &Value) -> Result<(), String> {
        let operation = self
            .operation(method, path)
            .ok_or_else(|| format!("GitHub's description has no {method} {path}"))?;
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if schema.is_null() || (body.is_null() && operation["requestBody"]["required"] != true) {
            return Ok(());
        }
        self.valid(schema, body, "body")
    }

    /// The operation whose path pattern has the most literal parts.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let paths = self.0["paths"].as_object()?;
        paths
            .iter()
            .filter_map(|(pattern, operations)| {
                Some((literal_parts(pattern, path)?, operations.get(method.to_ascii_lowercase())?))
            })
            .max_by_key(|(literal, _)| *literal)
            .map(|(_, operation)| operation)
    }

    fn valid(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let rules = schema.as_object().ok_or_else(|| format!("{at}: the schema is no object"))?;
        if value.is_null() && rules.get("nullable") == Some(&Value::Bool(true)) {
            return Ok(());
        }
        for (keyword, rule) in rules {
            self.keyword(keyword, rule, rules, value, at)?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        keyword: &str,
        rule: &Value,
        rules: &serde_json::Map<String, Value>,
        value: &Value,
        at: &str,
    ) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{at}: {what}"));
        match keyword {
            "$ref" => {
                let pointer = rule.as_str().unwrap_or_default().trim_start_matches('#');
                let target = self.0.pointer(pointer).ok_or_else(|| format!("{at}: {pointer} is missing"))?;
                self.valid(target, value, at)
            }
            "type" if !has_type(rule, value) => wrong(format!("it is no {rule}: {value}")),
            "enum" if !rule.as_array().is_some_and(|allowed| allowed.contains(value)) => {
                wrong(format!("{value} is none of {rule}"))
            }
            "maxLength" => match (rule.as_u64(), value.as_str()) {
                (Some(most), Some(text)) if text.chars().count() as u64 > most => {
                    wrong(format!("longer than {most} characters"))
                }
                _ => Ok(()),
            },
            "maxItems" => match (rule.as_u64(), value.as_array()) {
                (Some(most), Some(items)) if items.len() as u64 > most => {
                    wrong(format!("more than {most} items"))
                }
                _ => Ok(()),
            },
            "required" => {
                let mut names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                match names.find(|name| value.is_object() && value.get(name).is_none()) {
                    Some(name) => wrong(format!("{name} is missing")),
                    None => Ok(()),
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        self.valid(schema, member, &format!("{at}.{name}"))?;
                    }
                }
                unknown_members(rule, rules, value, at)
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.valid(rule, item, &format!("{at}[{index}]"))?;
                }
                Ok(())
            }
            "anyOf" | "oneOf" => {
                let choices = rule.as_array().map(Vec::as_slice).unwrap_or_default();
                match choices.iter().any(|choice| self.valid(choice, value, at).is_ok()) {
                    true => Ok(()),
                    false => wrong(format!("none of the forms of {keyword} fits")),
                }
            }
            "type" | "enum" | "nullable" | "additionalProperties" => Ok(()),
            known if ANNOTATIONS.contains(&known) => Ok(()),
            unknown => wrong(format!("the check does not know the keyword {unknown}")),
        }
    }
}

/// GitHub ignores members that it does not know; a request of ours that has one is a mistake.
fn unknown_members(
    properties: &Value,
    rules: &serde_json::Map<String, Value>,
    value: &Value,
    at: &str,
) -> Result<(), String> {
    let open = rules.get("additionalProperties").is_some_and(|rule| *rule != Value::Bool(false));
    let unknown = value.as_object().into_iter().flatten().find(|(name, _)| properties.get(name).is_none());
    match unknown {
        Some((name, _)) if !open => Err(format!("{at}: GitHub does not know {name}")),
        _ => Ok(()),
    }
}

fn has_type(rule: &Value, value: &Value) -> bool {
    match rule.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => false,
    }
}

/// How many parts of `pattern` are literal where it fits `path`; a last `{ref}` or `{path}` takes the
/// rest with its slashes.
fn literal_parts(pattern: &str, path: &str) -> Option<usize> {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    let greedy = matches!(pattern.last(), Some(&("{ref}" | "{path}")));
    if path.len() < pattern.len() || (path.len() > pattern.len() && !greedy) {
        return None;
    }
    let mut literal = 0;
    for (expected, given) in pattern.iter().zip(&path) {
        if !expected.starts_with('{') {
            if expected != given {
                return None;
            }
            literal += 1;
        }
    }
    Some(literal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(method: &str, path: &str, body: Value) -> Result<(), String> {
        Contract::load().unwrap().check(method, path, &body)
    }

    #[test]
    fn what_github_would_refuse_is_refused() {
        let create = |body| check("POST", "/repos/a/b/check-runs", body);
        let valid = json!({ "name": "x", "head_sha": "0", "status": "queued", "actions": [
            { "label": "l", "description": "d", "identifier": "i" }
        ] });
        create(valid.clone()).unwrap();
        for (pointer, value, why) in [
            ("/head_sha", Value::Null, "it is no"),
            ("/status", json!("running"), "is none of"),
            ("/actions/0/label", json!("l".repeat(21)), "longer than 20"),
            ("/actions", json!(vec![valid["actions"][0].clone(); 4]), "more than 3"),
        ] {
            let mut body = valid.clone();
            *body.pointer_mut(pointer).unwrap() = value;
            let wrong = create(body).unwrap_err();
            assert!(wrong.contains(why), "{pointer}: {wrong}");
        }
        let mut unknown = valid.clone();
        unknown["output"] = json!({ "title": "t", "summary": "s", "colour": "red" });
        assert!(create(unknown).unwrap_err().contains("colour"));
        assert!(check("POST", "/repos/a/b/git/blobs", json!({})).unwrap_err().contains("content is missing"));
        assert!(check("PUT", "/repos/a/b/merges", json!({})).is_err());
        check("PATCH", "/repos/a/b/git/refs/heads/x/y", json!({ "sha": "0" })).unwrap();
    }
}
