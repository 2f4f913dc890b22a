//! What a container may use, and that nothing of it stays.

use std::fs::File;

use runners::sandbox::{Cause, FindingState, Limit, Sandbox as _};

use super::common::sandbox;
use super::container::{fixture, python};

#[tokio::test]
async fn scratch_space_ends_by_bytes_and_by_files() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
def fill(path):
    with open(path, 'wb', 0) as file:
        while True:
            file.write(b'x' * (1 << 20))
def litter(folder):
    for number in range(200000):
        os.close(os.open(f'{folder}/{number}', os.O_CREAT | os.O_WRONLY))
for folder in ('/tmp', '/dev/shm'):
    print(folder, tried(lambda: fill(folder + '/fill')), os.path.getsize(folder + '/fill') >> 20)
    os.unlink(folder + '/fill')
    print(folder, tried(lambda: litter(folder)))
"#;
    insta::assert_snapshot!(fixture.python(program).await, @r"
    /tmp ENOSPC 32
    /tmp ENOSPC
    /dev/shm ENOSPC 32
    /dev/shm ENOSPC
    ");
}

#[tokio::test]
async fn files_descriptors_and_limits_are_bounded_for_good() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def grow():
    with open('/workspace/large', 'wb', 0) as file:
        file.truncate(65 << 20)
print('file', tried(grow))
def hoard():
    held = [open('/dev/null') for _ in range(300)]
print('descriptors', tried(hoard))
def more():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except ValueError:
        raise OSError(errno.EPERM, '')
print('raise', tried(more))
print('core', resource.getrlimit(resource.RLIMIT_CORE), call(302, 0, 4, ctypes.create_string_buffer(16), 0))
print('realtime', tried(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))))
print('sparse root', tried(lambda: open('/file', 'w')))
print('core_pattern', tried(lambda: open('/proc/sys/kernel/core_pattern', 'w')))
print('usr', tried(lambda: open('/usr/file', 'w')))
print('environ of the first process', tried(lambda: open('/proc/1/environ', 'rb').read()))
print('executable of the first process', tried(lambda: os.readlink('/proc/1/exe')))
print('setuid', tried(lambda: os.setuid(0)))
status = dict(line.split(':\t') for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
print(*(status[name] for name in ('CapEff', 'CapPrm', 'CapBnd', 'CapAmb', 'NoNewPrivs')))
"#;
    insta::assert_snapshot!(fixture.python(program).await, @r"
    file EFBIG
    descriptors EMFILE
    raise EPERM
    core (1, 1) EPERM
    realtime EPERM
    sparse root EROFS
    core_pattern EROFS
    usr EROFS
    environ of the first process EACCES
    executable of the first process EACCES
    setuid EINVAL
    0000000000000000 0000000000000000 0000000000000000 0000000000000000 1
    ");
}

/// Shared memory escapes a limit of each process's own data; here it fills what all have together.
#[tokio::test]
async fn memory_of_many_processes_is_told_as_the_cause() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
import mmap
for _ in range(8):
    if os.fork() == 0:
        held = mmap.mmap(-1, 80 << 20)
        for place in range(0, 80 << 20, 4096):
            held[place] = 1
        time.sleep(30)
        os._exit(0)
for _ in range(8):
    os.wait()
"#;
    assert_eq!(fixture.exec(python(program)).await.cause, Cause::OutOfMemory);
}

/// The lock is free only when the process that held it is gone, so that waiting for it is the proof.
#[tokio::test]
async fn a_command_that_nobody_awaits_any_longer_dies() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
import fcntl
locked = open('/workspace/locked', 'w')
fcntl.flock(locked, fcntl.LOCK_EX)
open('/workspace/begun', 'w').close()
time.sleep(600)
"#;
    let begun = fixture.spec.workspace.join("begun");
    let mut container = fixture.container().await;
    let running = container.exec(python(program));
    tokio::select! {
        exit = running => panic!("{exit:?}"),
        () = async { while !begun.exists() { tokio::task::yield_now().await } } => {}
    }
    let file = File::open(fixture.spec.workspace.join("locked")).unwrap();
    tokio::task::spawn_blocking(move || file.lock()).await.unwrap().unwrap();
}

#[test]
fn what_is_weak_says_what_to_do() {
    let Some(sandbox) = sandbox() else { return };
    let capabilities = sandbox.probe();
    assert!(capabilities.can_seal());
    // The kernel always counts processes; disk is only watched.
    assert!(capabilities.weak(Limit::Disk).is_some() && capabilities.weak(Limit::Processes).is_none());
    for finding in capabilities.findings {
        assert_eq!(finding.state == FindingState::Ok, finding.advice.is_empty(), "{finding:?}");
    }
}
