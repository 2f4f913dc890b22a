//! C and C++: a compiler (which Rust links by, too), CMake and Make.

use super::host::{Host, above_bin};
use super::{Family, Part};

pub(super) fn detect(host: &Host) -> Part {
    let mut part = Part::default();
    for (name, advice) in [
        ("cc", "install the package `gcc`; Rust needs it too, to link"),
        ("c++", "install the package `g++`"),
        ("cmake", "install the package `cmake` where CMake projects are repaired"),
        ("make", "install the package `make`"),
    ] {
        let found =
            host.program(name).is_some_and(|program| part.take(Family::Native, name, &program, above_bin));
        if !found {
            part.missing(Family::Native, name, advice);
        }
    }
    part
}
