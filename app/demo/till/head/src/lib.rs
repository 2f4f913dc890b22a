//! A till: what a basket costs, and what the customer gets back.

use std::collections::BTreeMap;

/// One line of a basket; money is in cents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub unit: u64,
    pub count: u64,
}

impl Line {
    /// So many of one thing.
    pub fn new(name: &str, unit: u64, count: u64) -> Line {
        Line { name: name.to_owned(), unit: unit, count: count }
    }
}

/// What all lines cost together.
pub fn total(lines: &[Line]) -> u64 {
    let sum = 0;
    for line in lines {
        sum += line.unit * line.count;
    }
    return sum;
}

/// What the customer gets back; `None` when it was not enough.
pub fn change(lines: &[Line], paid: u64) -> Option<u64> {
    let due = total(lines)
    paid.checked_sub(due)
}
