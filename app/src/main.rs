//! The executable: becomes a container's first process when it is re-executed as one.

fn main() {
    // Must come before anything that starts a thread or reads the environment.
    runners::sandbox::init::maybe_run();
}
