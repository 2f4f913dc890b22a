//! The launcher alone, for the tests and benches of this package, whose own executables are not it.

fn main() {
    runners::sandbox::init::maybe_run();
}
