//! How commands end, and what is told of it.

use std::time::Duration;

use runners::sandbox::{Cause, Command, SandboxError};
use tokio_util::sync::CancellationToken;

use super::container::{command, fixture, python, variables};

#[tokio::test]
async fn exit_codes_signals_and_outputs_are_told() {
    let Some(fixture) = fixture() else { return };
    let exit = fixture.run(&["sh", "-c", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!(exit.cause, Cause::Exited(7));
    assert_eq!((&exit.stdout[..], &exit.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    let exit = fixture.run(&["sh", "-c", "kill -TERM $$"]).await;
    assert_eq!(exit.cause, Cause::Signalled(15));
}

#[tokio::test]
async fn stdin_is_fed_whole_and_its_end_is_seen() {
    let Some(fixture) = fixture() else { return };
    let fed = vec![b'x'; 300_000];
    let exit = fixture.exec(Command { stdin: fed, ..command(&["wc", "-c"]) }).await;
    assert_eq!(String::from_utf8_lossy(&exit.stdout).trim(), "300000");
    let exit = fixture.run(&["wc", "-c"]).await;
    assert_eq!(String::from_utf8_lossy(&exit.stdout).trim(), "0");
}

#[tokio::test]
async fn what_cannot_start_is_an_error_that_names_why() {
    let Some(fixture) = fixture() else { return };
    let mut container = fixture.container().await;
    let error = container.exec(command(&["no-such-program"])).await.unwrap_err();
    let SandboxError::NotStarted { program, why } = error else { panic!("{error}") };
    assert_eq!(program, "no-such-program");
    assert!(why.contains("PATH"), "{why}");
    let error = container.exec(Command { directory: "gone".into(), ..command(&["true"]) }).await.unwrap_err();
    assert!(error.to_string().contains("/workspace/gone"), "{error}");
    for outside in ["../..", "/etc", "a/../../etc"] {
        let error = container.exec(Command { directory: outside.into(), ..command(&["true"]) }).await;
        assert!(matches!(error, Err(SandboxError::NotStarted { .. })), "{outside}: {error:?}");
    }
}

#[tokio::test]
async fn a_command_runs_in_its_folder_with_its_environment() {
    let Some(fixture) = fixture() else { return };
    std::fs::create_dir(fixture.spec.workspace.join("part")).unwrap();
    let environment = variables(&[("ADDED", "yes")]);
    let command =
        Command { directory: "part".into(), environment, ..command(&["sh", "-c", "pwd; echo $ADDED"]) };
    assert_eq!(fixture.exec(command).await.stdout, b"/workspace/part\nyes\n");
}

#[tokio::test]
async fn total_time_silence_output_and_cancel_each_end_it() {
    let Some(fixture) = fixture() else { return };
    let tick = || command(&["sh", "-c", "while :; do echo tick; sleep 0.05; done"]);
    let exit = fixture.exec(Command { timeout: Duration::from_millis(400), ..tick() }).await;
    assert_eq!(exit.cause, Cause::TimedOut);
    assert!(exit.stdout.starts_with(b"tick\n"));

    let exit =
        fixture.exec(Command { silence: Duration::from_millis(300), ..command(&["sleep", "60"]) }).await;
    assert_eq!(exit.cause, Cause::Silent);

    let exit = fixture.exec(Command { max_output_bytes: 1000, ..command(&["yes"]) }).await;
    assert_eq!((exit.cause, exit.stdout.len()), (Cause::OutputLimit, 1000));

    let cancel = CancellationToken::new();
    cancel.cancel();
    let exit = fixture.exec(Command { cancel, ..command(&["sleep", "60"]) }).await;
    assert_eq!(exit.cause, Cause::Cancelled);
}

/// A program that copes with a refusal has not failed for it.
#[tokio::test]
async fn a_full_file_system_or_file_is_told_as_the_cause_of_a_failure() {
    let Some(fixture) = fixture() else { return };
    let fill = |folder: &str| format!("head -c 40M /dev/zero > {folder}/fill");
    assert_eq!(fixture.run(&["sh", "-c", &fill("/tmp")]).await.cause, Cause::Disk);
    let removed = format!("{} || {{ sleep 0.5; rm /tmp/fill; exit 3; }}", fill("/tmp"));
    assert_eq!(fixture.run(&["sh", "-c", &removed]).await.cause, Cause::Disk);
    let coped = format!("{} || {{ rm /tmp/fill; exit 0; }}", fill("/tmp"));
    assert_eq!(fixture.run(&["sh", "-c", &coped]).await.cause, Cause::Exited(0));
    let large = python("open('/workspace/large', 'wb').truncate(1 << 40)");
    let exit = fixture.exec(Command { argv: large.argv, ..command(&["true"]) }).await;
    assert_eq!(exit.cause, Cause::Exited(1), "Python ignores the signal and sees an error of its own");
    let exit = fixture.run(&["sh", "-c", "exec head -c 80M /dev/zero > /workspace/large"]).await;
    assert_eq!(exit.cause, Cause::Disk);
}

/// The watch looks ten times a second, so the writer goes on until it is ended.
#[tokio::test]
async fn more_on_disk_than_there_may_be_ends_the_command() {
    let Some(mut fixture) = fixture() else { return };
    fixture.spec.limits.disk_bytes = 24 << 20;
    let writer = "i=0; while :; do head -c 1M /dev/zero > ~/piece-$i; i=$((i + 1)); done";
    assert_eq!(fixture.run(&["sh", "-c", writer]).await.cause, Cause::Disk);
    fixture.spec.limits.disk_bytes = 16 << 30;
    fixture.spec.limits.disk_files = 500;
    let writer = "i=0; while :; do : > file-$i; i=$((i + 1)); done";
    assert_eq!(fixture.run(&["sh", "-c", writer]).await.cause, Cause::Disk);
}

#[tokio::test]
async fn a_refused_process_is_told_as_the_cause_of_a_failure() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
for _ in range(500):
    if os.fork() == 0:
        time.sleep(60)
"#;
    let counted = runners::sandbox::Sandbox::probe(&fixture.sandbox);
    let by_kernel =
        counted.findings.iter().any(|one| one.name == "process limit" && one.found.contains("cgroup"));
    let exit = fixture.exec(python(program)).await;
    match by_kernel {
        true => assert_eq!(exit.cause, Cause::Processes),
        // The watch may look too late at a program that leaves at once.
        false => assert!(matches!(exit.cause, Cause::Processes | Cause::Exited(1)), "{:?}", exit.cause),
    }
    let patient = "
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
except OSError:
    time.sleep(1)
    sys.exit(7)
";
    assert_eq!(fixture.exec(python(patient)).await.cause, Cause::Processes);
}

/// The survivor holds a lock on a file, so that it being gone is seen without waiting.
#[tokio::test]
async fn nothing_outlives_its_command() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
import fcntl
locked = open('/workspace/locked', 'w')
fcntl.flock(locked, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for one in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
print('done')
"#;
    let exit = fixture.exec(python(program)).await;
    assert_eq!((exit.cause, &exit.stdout[..]), (Cause::Exited(0), &b"done\n"[..]));
    let file = std::fs::File::open(fixture.spec.workspace.join("locked")).unwrap();
    file.try_lock().unwrap();
}

#[tokio::test]
async fn what_is_written_belongs_to_the_owner_and_stays() {
    use std::os::unix::fs::MetadataExt as _;
    let Some(fixture) = fixture() else { return };
    std::fs::write(fixture.spec.workspace.join("given"), "a").unwrap();
    let exit = fixture.run(&["sh", "-c", "echo b >> given; mkdir new; touch ~/kept"]).await;
    assert_eq!(exit.cause, Cause::Exited(0), "{}", String::from_utf8_lossy(&exit.stderr));
    let owner = runners::sandbox::Sandbox::owner(&fixture.sandbox);
    let (user, group) =
        owner.unwrap_or((rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    for path in [fixture.spec.workspace.join("new"), fixture.spec.home.join("kept")] {
        let data = std::fs::metadata(path).unwrap();
        assert_eq!((data.uid(), data.gid()), (user, group));
    }
    assert_eq!(std::fs::read(fixture.spec.workspace.join("given")).unwrap(), b"ab\n");
}

#[tokio::test]
async fn handing_over_follows_no_link() {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    let Some(fixture) = fixture() else { return };
    let outside = fixture.folder.path().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    symlink(&outside, fixture.spec.workspace.join("link")).unwrap();
    symlink(fixture.folder.path(), fixture.spec.workspace.join("folder")).unwrap();
    fixture.container().await;
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(std::fs::metadata(&outside).unwrap().uid(), own);
    assert_eq!(std::fs::metadata(fixture.folder.path()).unwrap().uid(), own);
}
