//! Not read yet.
use super::reading::{Input, Reading};

pub(super) fn read(input: &Input<'_>) -> Reading {
    let mut reading = Reading::new(input.check.tool);
    reading.open("this tool is not read yet");
    reading
}
