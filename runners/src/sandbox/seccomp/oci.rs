//! The policy as a seccomp profile that OCI runtimes read.
//!
//! Runtimes compile it with libseccomp, whose filter ends a process that calls by an interface which is not
//! listed, and compares whole words: so every comparison of the lower half is written with a mask.

use serde_json::{Value, json};

use super::policy::{Condition, Rule, rules};

/// The profile, for `x86-64` and `aarch64`.
pub fn profile() -> Value {
    let syscalls: Vec<Value> = rules().iter().flat_map(entries).collect();
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": syscalls,
    })
}

/// One entry for each case, since the conditions of an entry must all be met.
fn entries(rule: &Rule) -> Vec<Value> {
    let entry = |arguments: Vec<Value>| {
        json!({
            "names": [rule.call.name],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": rule.answer.errno(),
            "args": arguments,
        })
    };
    if rule.cases.is_empty() {
        return vec![entry(Vec::new())];
    }
    rule.cases.iter().flat_map(|case| alternatives(case)).map(entry).collect()
}

/// Runtimes take several conditions on one argument as alternatives. That it is none of some values is
/// therefore said by all the other values: one by one up to the largest, and then all above it.
fn alternatives(case: &[Condition]) -> Vec<Vec<Value>> {
    let mut fixed = Vec::new();
    let mut allowed: Vec<u32> = Vec::new();
    let mut differing = None;
    for condition in case {
        match *condition {
            Condition::Not { argument, value } => {
                differing = Some(argument);
                allowed.push(value);
            }
            Condition::Equal { argument, value } => fixed.push(masked(argument, LOWER, value)),
            Condition::Masked { argument, mask, value } => fixed.push(masked(argument, mask.into(), value)),
            Condition::More { argument, than } => fixed.push(more(argument, than)),
        }
    }
    let Some(argument) = differing else { return vec![fixed] };
    let largest = allowed.iter().copied().max().unwrap_or_default();
    let others = (0..largest).filter(|value| !allowed.contains(value));
    let others = others.map(|value| masked(argument, LOWER, value));
    let with_fixed = |one: Value| fixed.iter().cloned().chain([one]).collect();
    others.chain([more(argument, largest.into())]).map(with_fixed).collect()
}

const LOWER: u64 = u32::MAX as u64;

fn more(argument: u8, than: u64) -> Value {
    json!({"index": argument, "value": than, "op": "SCMP_CMP_GT"})
}

fn masked(argument: u8, mask: u64, value: u32) -> Value {
    json!({"index": argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an entry's conditions are met, as a runtime would have them.
    fn met(entry: &Value, arguments: [u64; 3]) -> bool {
        entry["args"].as_array().unwrap().iter().all(|condition| {
            let argument = arguments[condition["index"].as_u64().unwrap() as usize];
            let value = condition["value"].as_u64().unwrap();
            match condition["op"].as_str().unwrap() {
                "SCMP_CMP_GT" => argument > value,
                "SCMP_CMP_MASKED_EQ" => argument & value == condition["valueTwo"].as_u64().unwrap(),
                other => panic!("{other}"),
            }
        })
    }

    fn refused(call: &str, arguments: [u64; 3]) -> bool {
        let profile = profile();
        let entries = profile["syscalls"].as_array().unwrap().clone();
        entries.iter().any(|entry| entry["names"][0] == call && met(entry, arguments))
    }

    #[test]
    fn every_rule_of_the_policy_is_in_the_profile() {
        let profile = profile();
        let entries = profile["syscalls"].as_array().unwrap();
        for rule in rules() {
            assert!(entries.iter().any(|entry| entry["names"][0] == rule.call.name), "{}", rule.call.name);
        }
    }

    #[test]
    fn no_entry_has_two_conditions_on_one_argument() {
        for entry in profile()["syscalls"].as_array().unwrap() {
            let mut indices: Vec<_> =
                entry["args"].as_array().unwrap().iter().map(|one| one["index"].as_u64()).collect();
            let count = indices.len();
            indices.dedup();
            assert_eq!(indices.len(), count, "{entry}");
        }
    }

    #[test]
    fn sockets_are_refused_as_by_the_compiled_policy() {
        for family in [1, 2, 10] {
            assert!(!refused("socket", [family, 1, 0]), "{family}");
        }
        assert!(!refused("socket", [16, 3, 0]) && !refused("socket", [2, 2, 17]));
        for arguments in
            [[40, 1, 0], [17, 3, 0], [16, 3, 12], [2, 3, 1], [2, 1, 132], [10, 1, 262], [0, 1, 0]]
        {
            assert!(refused("socket", arguments), "{arguments:?}");
        }
        assert!(refused("socket", [1 << 32 | 40, 1, 0]) && refused("ioctl", [0, 1 << 32 | 0x5412, 0]));
        assert!(refused("keyctl", [0, 0, 0]) && refused("socketpair", [30, 1, 0]));
        assert!(!refused("prlimit64", [0, 4, 0]) && refused("prlimit64", [0, 4, 1]));
    }
}
