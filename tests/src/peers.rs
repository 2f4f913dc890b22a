//! Other people's clients and servers, which `.ci/run` installs into the folder that `WHIPSTITCH_PEERS`
//! names: `node_modules` of npm and a Python environment in `python`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// The folder with everything that is installed.
pub struct Peers(PathBuf);

/// The peers. Where CI promised them their absence is a failure; elsewhere it is said.
pub fn installed() -> Option<Peers> {
    match std::env::var_os("WHIPSTITCH_PEERS") {
        Some(folder) => Some(Peers(folder.into())),
        None => {
            let promised = std::env::var_os("WHIPSTITCH_CI").is_some();
            assert!(!promised, "CI must name the folder of the installed peers in WHIPSTITCH_PEERS");
            #[expect(clippy::print_stderr, reason = "whoever runs the tests is told what was left out")]
            {
                eprintln!("skipped: WHIPSTITCH_PEERS names no folder of peers; .ci/run installs one");
            }
            None
        }
    }
}

impl Peers {
    /// A program of an npm package.
    pub fn npm(&self, program: &str) -> Command {
        Command::new(self.0.join("node_modules/.bin").join(program))
    }

    /// A program of a Python package.
    pub fn pip(&self, program: &str) -> Command {
        Command::new(self.0.join("python/bin").join(program))
    }

    /// A Python script of `tests/peers`.
    pub fn python(&self, script: &str) -> Command {
        let mut command = self.pip("python");
        command.arg(script_path(script));
        command
    }

    /// A script of `tests/peers` for Node.js.
    pub fn node(&self, script: &str) -> Result<Command> {
        let text = std::fs::read_to_string(script_path(script))?;
        let mut command = Command::new("node");
        // Its packages are looked for from the working folder when it is no file.
        command.current_dir(&self.0).args(["--input-type=module", "--eval", &text]);
        Ok(command)
    }
}

fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// What a peer that reads `input` prints.
pub fn output_of(mut command: Command, input: &str) -> Result<String> {
    use std::io::Write as _;
    let named = format!("{command:?}");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context(named.clone())?;
    let mut stdin = child.stdin.take().context("the input is piped")?;
    let text = input.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    // One that has read enough has closed its end; its exit says whether it was content.
    let _enough = writing.join();
    ensure!(output.status.success(), "{named} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// A peer that serves on loopback; it ends with this value.
pub struct Server {
    child: Child,
    /// Where it listens, without a slash at the end.
    pub url: String,
}

impl Server {
    /// Starts it and waits for a line that holds `ready` and its address as the last word.
    pub fn start(mut command: Command, ready: &str) -> Result<Self> {
        let named = format!("{command:?}");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(named.clone())?;
        let lines = BufReader::new(child.stdout.take().context("the output is piped")?).lines();
        let mut server = Self { child, url: String::new() };
        let mut lines = lines.map_while(Result::ok);
        let line = lines.by_ref().find(|line| line.contains(ready));
        let line = line.with_context(|| format!("{named} never said that it is {ready:?}"))?;
        server.url = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        // What it prints later is read, so that it is never stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A port of loopback that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
