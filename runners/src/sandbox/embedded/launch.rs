//! One command from start to end: starts the launcher, feeds and reads the program, keeps the time.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Gid, Uid};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::sandbox::init::plan::{Met, Plan, Report};
use crate::sandbox::{Cause, Command, Exit, SandboxError, init};

/// How long the launcher may take to end a container before it is ended itself.
const GRACE: Duration = Duration::from_secs(10);

/// What a command may take, and what it is fed.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    stdin: &'a [u8],
    timeout: Duration,
    silence: Duration,
    max_output_bytes: u64,
    cancel: &'a CancellationToken,
}

impl<'a> Bounds<'a> {
    pub fn of(command: &'a Command) -> Self {
        Self {
            stdin: &command.stdin,
            timeout: command.timeout,
            silence: command.silence,
            max_output_bytes: command.max_output_bytes,
            cancel: &command.cancel,
        }
    }
}

/// A command that was started.
pub struct Launched<'a> {
    launcher: Child,
    plan: Vec<u8>,
    reports: Lines<BufReader<OwnedReadHalf>>,
    /// Shutting it down tells the launcher to end the container.
    control: OwnedWriteHalf,
    stdin: Option<Sender>,
    stdout: Output,
    stderr: Output,
    bounds: Bounds<'a>,
    started: Instant,
    told: Told,
}

/// What has been said up to now about the end.
#[derive(Default)]
struct Told {
    report: Option<Report>,
    met: Met,
    gone: bool,
    /// Why we end it, when we do.
    ours: Option<Cause>,
}

impl<'a> Launched<'a> {
    /// Starts the launcher and hands it the program's streams.
    pub fn start(
        launcher: &Path,
        plan: &Plan,
        owner: Option<(u32, u32)>,
        bounds: Bounds<'a>,
    ) -> Result<Self, SandboxError> {
        let failed = |what: &str| {
            let what = format!("cannot {what}");
            move |source: io::Error| SandboxError::Create { what, source }
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed("make its socket"))?;
        let (stdout, stdout_inside) = output(owner).map_err(failed("make its output"))?;
        let (stderr, stderr_inside) = output(owner).map_err(failed("make its output"))?;
        let (stdin_inside, stdin) = input(bounds.stdin, owner).map_err(failed("make its input"))?;
        let child = tokio::process::Command::new(launcher)
            .arg0("whipstitch-sandbox")
            .arg(init::ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed(&format!("start the launcher {}", launcher.display())))?;
        let text = serde_json::to_vec(plan).map_err(io::Error::from).map_err(failed("write its plan"))?;
        let mut streams = vec![stdout_inside.as_fd(), stderr_inside.as_fd()];
        streams.extend(stdin_inside.as_ref().map(|stdin| stdin.as_fd()));
        send_head(&ours, text.len(), &streams).map_err(failed("hand over its streams"))?;
        ours.set_nonblocking(true).map_err(failed("prepare its socket"))?;
        let (read, control) = UnixStream::from_std(ours).map_err(failed("watch its socket"))?.into_split();
        Ok(Self {
            launcher: child,
            plan: text,
            reports: BufReader::new(read).lines(),
            control,
            stdin,
            stdout,
            stderr,
            bounds,
            started: Instant::now(),
            told: Told::default(),
        })
    }

    /// Returns when no process of the command is left.
    pub async fn finish(mut self, program: &str) -> Result<Exit, SandboxError> {
        let lost = |source| SandboxError::Lost { while_doing: format!("running {program}"), source };
        // A launcher that is gone says so by the end of its reports.
        drop(self.control.write_all(&std::mem::take(&mut self.plan)).await);
        self.follow().await.map_err(lost)?;
        // After its last line it only leaves; without one it has died, and the container with it.
        let status = self.launcher.wait().await.map_err(lost)?;
        let exit = |cause, stdout: Output, stderr: Output| Exit {
            cause,
            stdout: stdout.kept,
            stderr: stderr.kept,
            duration: self.started.elapsed(),
        };
        let met = self.told.met;
        let cause = match (self.told.ours, self.told.report) {
            _ if met.memory => Cause::OutOfMemory,
            _ if met.disk => Cause::Disk,
            (Some(cause), _) => cause,
            (None, Some(Report::Exited { code, full })) => failed_by(met, full, Cause::Exited(code)),
            (None, Some(Report::Signalled { signal, full })) => {
                failed_by(met, full, Cause::Signalled(signal))
            }
            (None, Some(Report::NotStarted { why })) => {
                return Err(SandboxError::NotStarted { program: program.to_owned(), why });
            }
            (None, Some(Report::Failed { what, errno })) => {
                let source =
                    errno.map_or_else(|| io::Error::other("no number"), io::Error::from_raw_os_error);
                return Err(SandboxError::Create { what, source });
            }
            (None, Some(Report::Gone(_)) | None) => {
                let source =
                    io::Error::other(format!("its first process died; the launcher left by {status}"));
                return Err(lost(source));
            }
        };
        Ok(exit(cause, self.stdout, self.stderr))
    }

    /// Reads reports and outputs to their ends, and ends the container when a bound is met.
    async fn follow(&mut self) -> io::Result<()> {
        let mut last_output = self.started;
        let mut ending_since = None;
        let mut reporting = true;
        let mut unfed = self.bounds.stdin;
        while reporting || self.stdout.open || self.stderr.open {
            let over = self.started + self.bounds.timeout;
            let silent = last_output + self.bounds.silence;
            let waiting = self.told.ours.is_none() && !self.told.gone;
            let mut end = None;
            tokio::select! {
                line = self.reports.next_line(), if reporting => match line {
                    Ok(Some(line)) => self.told.hear(&line)?,
                    Ok(None) | Err(_) => reporting = false,
                },
                read = self.stdout.read(self.bounds.max_output_bytes), if self.stdout.open => {
                    last_output = Instant::now();
                    end = read?;
                }
                read = self.stderr.read(self.bounds.max_output_bytes), if self.stderr.open => {
                    last_output = Instant::now();
                    end = read?;
                }
                fed = feed(self.stdin.as_mut(), unfed), if self.stdin.is_some() => match fed {
                    Ok(length) if length < unfed.len() => unfed = &unfed[length..],
                    // A program that closes its input early has had enough of it.
                    Ok(_) | Err(_) => self.stdin = None,
                },
                () = self.bounds.cancel.cancelled(), if waiting => end = Some(Cause::Cancelled),
                () = tokio::time::sleep_until(over.min(silent)), if waiting => {
                    end = Some(if over <= silent { Cause::TimedOut } else { Cause::Silent });
                }
                () = grace(ending_since), if ending_since.is_some() => {
                    ending_since = None;
                    self.launcher.start_kill()?;
                }
            }
            if let Some(cause) = end
                && waiting
            {
                self.told.ours = Some(cause);
                ending_since = Some(Instant::now());
                // An error means that the launcher has left already.
                drop(self.control.shutdown().await);
            }
        }
        Ok(())
    }
}

impl Told {
    fn hear(&mut self, line: &str) -> io::Result<()> {
        match serde_json::from_str(line)? {
            Report::Gone(met) => {
                self.gone = true;
                self.met = met;
            }
            // The launcher's own failure can follow the container's; the first is the cause.
            report => {
                if self.report.is_none() {
                    self.report = Some(report);
                }
            }
        }
        Ok(())
    }
}

/// A program that ends well has coped with what it was refused; one that fails has most likely failed for it.
fn failed_by(met: Met, full: bool, own: Cause) -> Cause {
    match own {
        Cause::Exited(0) => own,
        Cause::Signalled(libc::SIGXFSZ) => Cause::Disk,
        _ if met.processes => Cause::Processes,
        _ if full => Cause::Disk,
        own => own,
    }
}

async fn grace(since: Option<Instant>) {
    if let Some(since) = since {
        tokio::time::sleep_until(since + GRACE).await;
    }
}

async fn feed(stdin: Option<&mut Sender>, unfed: &[u8]) -> io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(unfed).await,
        None => Ok(0),
    }
}

/// One of the program's two outputs.
struct Output {
    pipe: Receiver,
    open: bool,
    kept: Vec<u8>,
    chunk: Box<[u8; 16 << 10]>,
}

impl Output {
    /// Reads a piece, and says so when it was more than may be printed.
    async fn read(&mut self, limit: u64) -> io::Result<Option<Cause>> {
        let length = self.pipe.read(&mut self.chunk[..]).await?;
        if length == 0 {
            self.open = false;
            return Ok(None);
        }
        let room = limit.saturating_sub(self.kept.len() as u64);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        self.kept.extend_from_slice(&self.chunk[..length.min(room)]);
        Ok((length > room).then_some(Cause::OutputLimit))
    }
}

/// A pipe from the program. The end inside belongs to the program's user, so that it can open
/// `/dev/stdout` anew.
fn output(owner: Option<(u32, u32)>) -> io::Result<(Output, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    own(&write, owner)?;
    let pipe = Receiver::from_owned_fd(read)?;
    Ok((Output { pipe, open: true, kept: Vec::new(), chunk: Box::new([0; 16 << 10]) }, write))
}

fn input(bytes: &[u8], owner: Option<(u32, u32)>) -> io::Result<(Option<OwnedFd>, Option<Sender>)> {
    if bytes.is_empty() {
        return Ok((None, None));
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    own(&read, owner)?;
    Ok((Some(read), Some(Sender::from_owned_fd(write)?)))
}

fn own(pipe: &OwnedFd, owner: Option<(u32, u32)>) -> io::Result<()> {
    if let Some((user, group)) = owner {
        rustix::fs::fchown(pipe, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    Ok(())
}

/// The plan's length, and with it the streams.
pub fn send_head(
    socket: &std::os::unix::net::UnixStream,
    length: usize,
    streams: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let length = u32::try_from(length).map_err(|_| io::Error::other("it is too long"))?.to_le_bytes();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(streams)) {
        return Err(io::Error::other("too many streams"));
    }
    let sent = sendmsg(socket, &[io::IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == length.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
