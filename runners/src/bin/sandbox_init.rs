//! The launcher alone, for tests and benches, whose own executables have no `main` of ours.

fn main() {
    runners::sandbox::init::maybe_run();
    std::process::exit(2);
}
