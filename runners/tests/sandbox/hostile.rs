//! What a hostile build tries inside a container, and what it must find.

use super::common::{fresh, fresh_with, sandbox};
use runners::egress::Sealed;
use runners::sandbox::{Cause, Sandbox as _};

macro_rules! sandbox_or_skip {
    () => {
        match sandbox() {
            Some(sandbox) => sandbox,
            None => return,
        }
    };
}

#[tokio::test]
async fn the_environment_is_constructed_and_never_inherited() {
    let sandbox = sandbox_or_skip!();
    let mut fresh = fresh(&sandbox).await;
    let exit = fresh.run(&["env"]).await;
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "PATH=/usr/local/bin:/usr/bin:/bin\n");
    let found = fresh.python(
        "import os\ntry: print(repr(open('/proc/1/environ','rb').read()))\nexcept OSError as e: print(e.errno)",
    );
    assert!(["b''", "13", "1"].contains(&found.await.as_str()));
}

#[tokio::test]
async fn the_host_is_out_of_sight_and_out_of_reach() {
    let sandbox = sandbox_or_skip!();
    let mut fresh = fresh(&sandbox).await;
    let found = fresh
        .python(
            r#"
import os
def blocked(what, deed):
    try: deed()
    except (OSError, PermissionError): return
    print("open:", what)
for path in ["/root", "/sys/kernel", "/var/lib", "/boot"]:
    blocked(path, lambda: os.listdir(path))
for path in ["/etc/shadow", "/var/run/docker.sock"]:
    blocked(path, lambda: open(path))
if os.path.exists("/proc/kcore") and open("/proc/kcore", "rb").read(1): print("open: kcore")
blocked("core_pattern", lambda: open("/proc/sys/kernel/core_pattern", "r+").write("x"))
blocked("sysrq", lambda: open("/proc/sysrq-trigger", "w").write("h"))
blocked("root", lambda: open("/new", "w"))
blocked("usr", lambda: open("/usr/new", "w"))
blocked("setuid", lambda: os.setuid(0))
blocked("mknod", lambda: os.mknod("/tmp/dev", 0o600 | 0o020000, os.makedev(1, 1)))
blocked("chroot", lambda: os.chroot("/tmp"))
blocked("nice", lambda: os.nice(-5))
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
if max(pids) > 64: print("open: pids", pids)
print(os.getuid(), os.getgid(), os.uname().nodename)
"#,
        )
        .await;
    assert_eq!(found, "1000 1000 whipstitch");
}

#[tokio::test]
async fn the_kernel_answers_no_call_that_an_escape_needs() {
    let sandbox = sandbox_or_skip!();
    let mut fresh = fresh(&sandbox).await;
    let found = fresh
        .python(
            r#"
import ctypes, os, socket, errno
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"ptrace": 101, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "keyctl": 250, "add_key": 248,
  "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "process_vm_readv": 310, "kexec_load": 246,
  "open_by_handle_at": 304, "init_module": 175, "syslog": 103, "fsopen": 430, "pidfd_getfd": 438}
if os.uname().machine == "x86_64":
    for name, number in numbers.items():
        ctypes.set_errno(0)
        if libc.syscall(number, 0, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.EPERM:
            print("open:", name, ctypes.get_errno())
    ctypes.set_errno(0)
    if libc.syscall(435, 0, 0) >= 0 or ctypes.get_errno() != errno.ENOSYS: print("open: clone3")
    ctypes.set_errno(0)
    if libc.syscall(425, 0, 0) >= 0 or ctypes.get_errno() != errno.ENOSYS: print("open: io_uring")
    if libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.EPERM: print("open: clone of a user namespace")
    if libc.syscall(0x40000000 | 101, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.ENOSYS: print("open: x32")
for family, kind, protocol in [(40, 1, 0), (17, 3, 0), (2, 3, 1), (16, 3, 12), (38, 5, 0), (31, 3, 0)]:
    try: socket.socket(family, kind, protocol); print("open: socket", family, kind, protocol)
    except OSError: pass
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
print("done")
"#,
        )
        .await;
    assert_eq!(found, "done");
}

#[tokio::test]
async fn every_way_out_is_closed_and_the_report_says_so() {
    let sandbox = sandbox_or_skip!();
    let mut fresh = fresh(&sandbox).await;
    let report = fresh.container.seal(&Sealed::never_opened()).await.unwrap();
    let names: Vec<&str> = report.tests.iter().map(|test| test.name.as_str()).collect();
    assert!(names.starts_with(&["interfaces", "ipv4", "ipv6", "dns", "proxy", "vsock"]), "{names:?}");
    for wall in
        ["user-namespace", "mount", "io-uring", "keyrings", "tracing", "kernel-settings", "capabilities"]
    {
        assert!(names.contains(&wall), "{wall} is not tried");
    }
    assert!(report.sealed(), "{report:?}");
    assert!(report.policy.is_some() && report.backend == "embedded");
    let held: Vec<&str> = report.limits.iter().map(|limit| limit.name.as_str()).collect();
    assert_eq!(held, ["memory", "processes", "processors", "disk"]);
    let nothing = jobs::digest::Digest::of("[]");
    assert_eq!(report.egress, Some(nothing), "no window was open");
}

#[tokio::test]
async fn bombs_are_contained() {
    let sandbox = sandbox_or_skip!();
    let mut fresh = fresh(&sandbox).await;
    let found = fresh
        .python(
            r#"
import os, resource
made = 0
try:
    while made < 200:
        if os.fork() == 0: import time; time.sleep(20); os._exit(0)
        made += 1
except OSError: pass
print("forks" if made < 70 else made)
written = 0
try:
    with open("/tmp/fill", "wb") as file:
        while written < 64: file.write(b"x" * (1 << 20)); file.flush(); written += 1
except OSError: pass
print("disk" if written <= 17 else written)
"#,
        )
        .await;
    assert_eq!(found, "forks\ndisk");
    let hog = "x = bytearray(b'x' * (300 << 20)); y = bytearray(b'y' * (300 << 20)); print(len(x) + len(y))";
    let exit = fresh.run(&["/usr/bin/python3", "-c", hog]).await;
    assert!(matches!(exit.cause, Cause::OutOfMemory | Cause::Exited(1)), "{:?}", exit.cause);
}

#[tokio::test]
async fn memory_of_all_processes_together_is_bounded_where_groups_can_be_made() {
    let sandbox = sandbox_or_skip!();
    let limited = sandbox.probe().findings.iter().any(|found| found.found.contains("cgroup"));
    if !limited {
        eprintln!("skipped: no control group can be made here");
        return;
    }
    let mut fresh = fresh_with(&sandbox, |spec| spec.limits.memory_bytes = 128 << 20).await;
    let hogs = "for i in 1 2 3 4; do /usr/bin/python3 -c 'import time; x = bytearray(b\"x\" * (60 << 20)); time.sleep(2)' & done; for i in 1 2 3 4; do wait -n || exit 9; done";
    let exit = fresh.run(&["bash", "-c", hogs]).await;
    assert_eq!(exit.cause, Cause::OutOfMemory);
}
