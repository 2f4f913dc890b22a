//! A till: what a basket costs.

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
        Line { name: name.to_owned(), unit, count }
    }
}

/// What all lines cost together.
pub fn total(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.unit * line.count).sum()
}
