//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Repairs pull requests in sealed containers and can prove what it did.
#[derive(Debug, Parser)]
#[command(name = "whipstitch", version, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole path on a small repository of its own: comment, repair, check run, receipts.
    Demo(Demo),
    /// Repair a checkout on this machine; nothing of it is touched without --apply.
    Fix(Fix),
    /// Run the service: take webhooks, repair, report.
    Serve(Serve),
    /// Say what is wrong with the configuration, or with a repository's policy.
    CheckConfig(CheckConfig),
    /// Say what this machine can seal, or whether the GitHub App works, and what to do about it.
    Doctor(Doctor),
    /// List the runs, or show one.
    Status(Status),
    /// Authorize a run's verified patch; it is pushed to the pull request's branch.
    Apply(Apply),
    /// Ask a run to stop.
    Cancel(OneRun),
    /// Let a suspended run go on; its uncertain launch counts as lost and is never repeated.
    Resume(OneRun),
    /// List what could not be told to a forge and was given up; --resend tries it once more.
    Outbox(Outbox),
    /// Verify receipts offline, with nothing but the signer's public key.
    Verify(Verify),
    /// Give out a run's receipts, from the service's database.
    #[command(subcommand)]
    Receipts(Receipts),
    /// Read a test's or compiler's output as the service would.
    Read(Read),
    /// Make, show or change the key that signs receipts.
    #[command(subcommand)]
    Keys(Keys),
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Where everything is kept; a fresh temporary folder without it.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// End after the result instead of staying up.
    #[arg(long)]
    pub once: bool,
    /// Authorize the patch as the seeded maintainer and push it.
    #[arg(long, requires = "once")]
    pub apply: bool,
    /// Who repairs.
    #[arg(long, value_enum, default_value_t = DemoAgent::Fixers)]
    pub agent: DemoAgent,
    /// Address and port of the service; port 0 takes any.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DemoAgent {
    /// The fix modes of cargo and clippy, on code that does not compile.
    Fixers,
    /// A recorded patch, on a logic bug with a red test.
    Replay,
    /// A recorded patch that is wrong, on the same bug.
    ReplayWrong,
}

#[derive(Debug, Args)]
pub struct Fix {
    /// The checkout.
    #[arg(default_value = ".")]
    pub path: PathBuf,
    /// What must pass: 'NAME=ARGV…', such as 'tests=python3 -m pytest -q'. May be given more than once.
    #[arg(long = "check", value_name = "NAME=ARGV")]
    pub checks: Vec<String>,
    /// Who repairs: fixers, model with --model, or replay with --patch.
    #[arg(long, value_enum, default_value_t = FixAgent::Fixers)]
    pub agent: FixAgent,
    /// The patch that the agent replay proposes.
    #[arg(long, required_if_eq("agent", "replay"))]
    pub patch: Option<PathBuf>,
    /// The model: the name of a `[models.NAME]` section of --config, or PROTOCOL/MODEL, such as
    /// anthropic/NAME with ANTHROPIC_API_KEY, openai-chat/NAME or openai-responses/NAME with
    /// OPENAI_API_KEY.
    #[arg(long, required_if_eq("agent", "model"))]
    pub model: Option<String>,
    /// The file with the `[models]` sections; whipstitch.toml without it.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Write the verified change into the checkout, whole or not at all.
    #[arg(long)]
    pub apply: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Where bundle and artifacts are kept; a fresh temporary folder without it.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// A further host:port that may be reached while dependencies are installed.
    #[arg(long = "admit-host", value_name = "HOST:PORT")]
    pub admit_hosts: Vec<String>,
    /// A network, such as 10.2.0.0/16, whose addresses are taken though they are not public.
    #[arg(long = "trust-network", value_name = "CIDR")]
    pub trust_networks: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FixAgent {
    Fixers,
    Model,
    Replay,
}

#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub file: ConfigFile,
    /// What this node does; several nodes share one PostgreSQL database.
    #[arg(long, value_enum, env = "WHIPSTITCH_ROLE", default_value_t = Role::All)]
    pub role: Role,
}

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Role {
    /// Takes webhooks, decides them, reports, pushes, and shows pages; runs no repository's code.
    Web,
    /// Claims runs and drives them; listens nowhere.
    Runner,
    /// Both.
    All,
}

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// The configuration file; whipstitch.toml without it.
    #[arg(long, env = "WHIPSTITCH_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Which service's data a command is about.
#[derive(Debug, Args)]
pub struct Place {
    #[command(flatten)]
    pub file: ConfigFile,
    /// A demo's folder, in the place of a configuration.
    #[arg(long, conflicts_with = "config")]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CheckConfig {
    #[command(flatten)]
    pub file: ConfigFile,
    /// Check this repository policy (.github/whipstitch.toml) instead.
    #[arg(long)]
    pub policy: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Try every known way out of a container, in each backend that is present, and print a table.
    #[arg(long)]
    pub probe: bool,
    /// Look at the GitHub App instead: its key, clock, permissions and webhooks.
    #[arg(long)]
    pub github: bool,
    #[command(flatten)]
    pub file: ConfigFile,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Status {
    /// The run; all of them without it.
    pub run: Option<String>,
    #[command(flatten)]
    pub place: Place,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Outbox {
    /// The id of a message to send once more, or `all`.
    #[arg(long, value_name = "ID|all")]
    pub resend: Option<String>,
    #[command(flatten)]
    pub place: Place,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Apply {
    pub run: String,
    #[command(flatten)]
    pub place: Place,
    /// Who authorizes, on the local forge.
    #[arg(long = "as", value_name = "LOGIN", default_value = "maintainer")]
    pub login: String,
}

#[derive(Debug, Args)]
pub struct OneRun {
    pub run: String,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// A bundle's folder, or the file run.receipts.
    pub bundle: PathBuf,
    /// The signer's public key: 64 hex digits, or a file with 32 raw bytes, hex or PEM.
    #[arg(long)]
    pub key: String,
    /// The digest of the last receipt, from a check run or a commit's trailer.
    #[arg(long)]
    pub expect_head: Option<String>,
    /// How many receipts there are.
    #[arg(long)]
    pub expect_count: Option<u64>,
    /// Only this receipt and its diff; says nothing of completeness.
    #[arg(long, value_name = "SEQ")]
    pub receipt: Option<u64>,
    /// The journal too (run.journal), and that the receipts name it.
    #[arg(long)]
    pub journal: bool,
    /// What people decided after the seal too (run.authorizations).
    #[arg(long)]
    pub authorizations: bool,
    /// The DSSE exports too (NNNN.dsse.json).
    #[arg(long)]
    pub exports: bool,
    /// A repository too: the trees composed from its base commit, and commits whose trailers name the run.
    #[arg(long, value_name = "PATH", conflicts_with = "receipt")]
    pub repo: Option<PathBuf>,
    /// Rotations from --key on; the receipts may be signed by any key that it leads to.
    #[arg(long, value_name = "FILE")]
    pub keyring: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Receipts {
    /// Write a run's receipts into a new folder.
    Export(Export),
}

#[derive(Debug, Args)]
pub struct Export {
    pub run: String,
    /// In which form.
    #[arg(long = "as", value_enum, default_value_t = ExportForm::Bundle)]
    pub form: ExportForm,
    /// The folder, which must be absent or empty.
    #[arg(long)]
    pub to: PathBuf,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ExportForm {
    /// run.receipts and its diffs, the journal and what people decided.
    Bundle,
    /// Each receipt as a DSSE envelope of an in-toto statement, and the diffs.
    Dsse,
    /// Each receipt and its signature as files, and the diffs, for verifying by hand.
    Folder,
}

#[derive(Debug, Args)]
pub struct Read {
    /// Whose output it is: pytest, cargo-test, clippy, …; junit, tap or sarif for others.
    #[arg(long)]
    pub tool: String,
    #[arg(long)]
    pub stdout: Option<PathBuf>,
    #[arg(long)]
    pub stderr: Option<PathBuf>,
    /// The command's exit code; none for a command that was killed.
    #[arg(long)]
    pub exit: Option<i32>,
    /// The report file that the command wrote, or the folder of several.
    #[arg(long)]
    pub files: Option<PathBuf>,
    /// The repository's root where the command ran, to make paths relative.
    #[arg(long, default_value = "/workspace")]
    pub root: String,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a new key in FILE, readable by its owner alone.
    New { file: PathBuf },
    /// Show the public key of the key in FILE, or of the one in WHIPSTITCH_SIGNING_KEY.
    Show { file: Option<PathBuf> },
    /// Put a new key in the place of the one in FILE; both sign that it follows. The old one is gone
    /// then, so this is refused while a service runs, or has a run that was begun and is not finished.
    Rotate {
        file: PathBuf,
        /// Why, for those who read the keyring.
        #[arg(long, default_value = "a new key was asked for")]
        reason: String,
        /// The configuration of the service that signs with it, unless its database stands beside FILE.
        #[arg(long, env = "WHIPSTITCH_CONFIG")]
        config: Option<PathBuf>,
    },
    /// List the keys that FILE has held, by the keyring beside it; each is proven by the one before.
    List {
        file: PathBuf,
        /// The first key, 64 hex digits, as you know it from elsewhere.
        #[arg(long)]
        first: Option<String>,
    },
}
