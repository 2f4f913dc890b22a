//! What a container cannot reach.

use runners::sandbox::Bind;

use super::container::fixture;

#[tokio::test]
async fn the_environment_is_the_constructed_one() {
    let Some(fixture) = fixture() else { return };
    let exit = fixture.run(&["env"]).await;
    let text = String::from_utf8(exit.stdout).unwrap();
    let mut names: Vec<_> =
        text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "PATH"]);
}

#[tokio::test]
async fn calls_that_reach_past_the_walls_are_refused() {
    let Some(fixture) = fixture() else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let program = r#"
print('ptrace', call(101, 0, 0, 0, 0))
print('process_vm_readv', call(310, 1, 0, 0, 0, 0, 0))
print('mount', call(165, b'none', b'/tmp', b'tmpfs', 0, 0))
print('unshare', call(272, 0x10000000))
print('clone', call(56, 0x10000000 | 17, 0, 0, 0, 0))
print('setns', call(308, 0, 0))
print('keyctl', call(250, 0, -3, 1))
print('add_key', call(248, b'user', b'x', b'x', 1, -3))
print('bpf', call(321, 0, 0, 0))
print('perf_event_open', call(298, 0, 0, -1, -1, 0))
print('userfaultfd', call(323, 1))
print('open_by_handle_at', call(304, -100, 0, 0))
print('clone3', call(435, 0, 0))
print('io_uring_setup', call(425, 8, ctypes.create_string_buffer(120)))
print('vsock', tried(lambda: socket.socket(40, socket.SOCK_STREAM)))
print('vsock, upper half set', call(41, 0x100000000 | 40, 1, 0))
print('packet', tried(lambda: socket.socket(17, socket.SOCK_RAW, 0x300)))
print('raw', tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)))
print('alg', tried(lambda: socket.socket(38, 5, 0)))
print('netfilter', tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)))
print('sctp', tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)))
print('tiocsti', call(16, 0, 0x5412, b'x'))
print('route', tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)))
print('tcp', tried(lambda: socket.socket()))
"#;
    insta::assert_snapshot!(fixture.python(program).await, @r"
    ptrace EPERM
    process_vm_readv EPERM
    mount EPERM
    unshare EPERM
    clone EPERM
    setns EPERM
    keyctl EPERM
    add_key EPERM
    bpf EPERM
    perf_event_open EPERM
    userfaultfd EPERM
    open_by_handle_at EPERM
    clone3 ENOSYS
    io_uring_setup ENOSYS
    vsock EPERM
    vsock, upper half set EPERM
    packet EPERM
    raw EPERM
    alg EPERM
    netfilter EPERM
    sctp EPERM
    tiocsti EPERM
    route ok
    tcp ok
    ");
}

#[tokio::test]
async fn no_network_but_loopback() {
    let Some(fixture) = fixture() else { return };
    let program = r#"
print([name for _, name in socket.if_nameindex() if name == 'lo'])
server = socket.create_server(('127.0.0.1', 0))
socket.create_connection(server.getsockname())
print('loopback ok')
for address in ('1.1.1.1', '169.254.169.254', '10.0.0.1'):
    print(address, tried(lambda: socket.create_connection((address, 80), 5)))
"#;
    insta::assert_snapshot!(fixture.python(program).await, @r"
    ['lo']
    loopback ok
    1.1.1.1 ENETUNREACH
    169.254.169.254 ENETUNREACH
    10.0.0.1 ENETUNREACH
    ");
}

/// Root can read everything, but the container's first process is root no longer.
#[tokio::test]
async fn a_toolchain_below_a_closed_folder_is_bound_and_nothing_beside_it_shows() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let Some(mut fixture) = fixture() else { return };
    let closed = fixture.folder.path().join("closed");
    std::fs::create_dir_all(closed.join("toolchain")).unwrap();
    std::fs::write(closed.join("toolchain/tool"), "here").unwrap();
    std::fs::write(closed.join("secret"), "not here").unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&closed, Some(4321), Some(4321)).unwrap();
    }
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    fixture.spec.read_only.push(Bind { host: closed.join("toolchain"), inside: "/opt/kit".into() });
    let exit =
        fixture.run(&["sh", "-c", "cat /opt/kit/tool; ls /opt; echo x > /opt/kit/new || echo closed"]).await;
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "herekit\nclosed\n");
}

#[tokio::test]
async fn mounts_inside_never_show_on_the_host() {
    let Some(fixture) = fixture() else { return };
    let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    let exit = fixture.run(&["cat", "/proc/self/mountinfo"]).await;
    let inside = String::from_utf8(exit.stdout).unwrap();
    assert!(inside.lines().count() > 10);
    assert!(!inside.contains("shared:") && !inside.contains("master:"), "{inside}");
    assert_eq!(std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count(), before);
}
