//! The one list of what no container may ask of the kernel, for every architecture and every backend.
//!
//! A list of what is refused, because test suites of any language must run; what it leaves open is
//! bounded by namespaces, by the missing capabilities and by Landlock.

use Condition::{Equal, Masked, More, Not};

/// A system call with its number on each architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    pub name: &'static str,
    pub x86_64: Option<i64>,
    pub aarch64: Option<i64>,
}

const fn call(name: &'static str, x86_64: i64, aarch64: i64) -> Call {
    Call { name, x86_64: Some(x86_64), aarch64: Some(aarch64) }
}

const fn old_call(name: &'static str, x86_64: i64) -> Call {
    Call { name, x86_64: Some(x86_64), aarch64: None }
}

/// How a refused call is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// `EPERM`: no build has use for it.
    Forbidden,
    /// `ENOSYS`: a library tries it first and can do without.
    Unknown,
}

impl Answer {
    /// The error's number.
    pub const fn errno(self) -> i32 {
        match self {
            Answer::Forbidden => libc::EPERM,
            Answer::Unknown => libc::ENOSYS,
        }
    }
}

/// What an argument must be for the call to be refused. But for `More`, only the lower 32 bits count, as
/// for the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Equal {
        argument: u8,
        value: u32,
    },
    Not {
        argument: u8,
        value: u32,
    },
    /// The bits of `mask` are those of `value`.
    Masked {
        argument: u8,
        mask: u32,
        value: u32,
    },
    More {
        argument: u8,
        than: u64,
    },
}

/// One refusal: the call, in all cases or where one of several groups of conditions is met as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    pub call: Call,
    pub answer: Answer,
    pub cases: Vec<Vec<Condition>>,
}

/// Refused whatever the arguments.
const FORBIDDEN: &[Call] = &[
    // Other processes' memory and descriptors.
    call("ptrace", 101, 117),
    call("process_vm_readv", 310, 270),
    call("process_vm_writev", 311, 271),
    call("process_madvise", 440, 440),
    call("kcmp", 312, 272),
    call("pidfd_getfd", 438, 438),
    // Programs within the kernel, and looking into it.
    call("bpf", 321, 280),
    call("perf_event_open", 298, 241),
    call("userfaultfd", 323, 282),
    call("syslog", 103, 116),
    call("lookup_dcookie", 212, 18),
    // Keyrings belong to a user, not to a namespace.
    call("add_key", 248, 217),
    call("request_key", 249, 218),
    call("keyctl", 250, 219),
    // Namespaces and mounts.
    call("unshare", 272, 97),
    call("setns", 308, 268),
    call("mount", 165, 40),
    call("umount2", 166, 39),
    call("pivot_root", 155, 41),
    call("chroot", 161, 51),
    call("move_mount", 429, 429),
    call("open_tree", 428, 428),
    call("open_tree_attr", 467, 467),
    call("fsopen", 430, 430),
    call("fsconfig", 431, 431),
    call("fsmount", 432, 432),
    call("fspick", 433, 433),
    call("mount_setattr", 442, 442),
    call("fanotify_init", 300, 262),
    call("open_by_handle_at", 304, 265),
    call("name_to_handle_at", 303, 264),
    // The machine.
    call("init_module", 175, 105),
    call("finit_module", 313, 273),
    call("delete_module", 176, 106),
    call("kexec_load", 246, 104),
    call("kexec_file_load", 320, 294),
    call("reboot", 169, 142),
    call("swapon", 167, 224),
    call("swapoff", 168, 225),
    call("acct", 163, 89),
    call("quotactl", 179, 60),
    call("quotactl_fd", 443, 443),
    call("sethostname", 170, 161),
    call("setdomainname", 171, 162),
    call("settimeofday", 164, 170),
    call("clock_settime", 227, 112),
    call("vhangup", 153, 58),
    call("memfd_secret", 447, 447),
    call("move_pages", 279, 239),
    call("migrate_pages", 256, 238),
    call("nfsservctl", 180, 42),
    old_call("iopl", 172),
    old_call("ioperm", 173),
    old_call("modify_ldt", 154),
    old_call("uselib", 134),
];

/// io_uring makes sockets past any filter on `socket`, and the flags of clone3 lie in memory where a filter
/// cannot read them.
const UNKNOWN: &[Call] = &[
    call("clone3", 435, 435),
    call("io_uring_setup", 425, 425),
    call("io_uring_enter", 426, 426),
    call("io_uring_register", 427, 427),
];

const CLONE: Call = call("clone", 56, 220);
const SOCKET: Call = call("socket", 41, 198);
const SOCKET_PAIR: Call = call("socketpair", 53, 199);
const IOCTL: Call = call("ioctl", 16, 29);
const PRLIMIT: Call = call("prlimit64", 302, 261);
const SETRLIMIT: Call = call("setrlimit", 160, 164);

/// Namespaces that clone(2) could make; the newer time namespace is only made by calls refused above.
const CLONE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Families of which sockets may be made. AF_VSOCK above all is not among them: it is bound to no network
/// namespace and reaches the hypervisor.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Transports within the internet families.
const PROTOCOLS: [i32; 5] =
    [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];
/// Pushes keystrokes into a terminal.
const TIOCSTI: u32 = 0x5412;
/// Pastes into a console.
const TIOCLINUX: u32 = 0x541C;

/// The whole policy.
pub fn rules() -> Vec<Rule> {
    let always = |answer| move |&call: &Call| Rule { call, answer, cases: Vec::new() };
    let mut rules: Vec<Rule> = FORBIDDEN.iter().map(always(Answer::Forbidden)).collect();
    rules.extend(UNKNOWN.iter().map(always(Answer::Unknown)));
    let some = |call, cases| Rule { call, answer: Answer::Forbidden, cases };
    rules.push(some(CLONE, clone_cases()));
    rules.push(some(SOCKET, socket_cases()));
    // Pairs of other families exist too, and a filter on `socket` does not see them.
    rules.push(some(SOCKET_PAIR, vec![vec![not(0, libc::AF_UNIX)]]));
    rules.push(some(IOCTL, [TIOCSTI, TIOCLINUX].map(|value| vec![Equal { argument: 1, value }]).to_vec()));
    // The limit on core files stays as it was set; it may be read.
    let core = libc::RLIMIT_CORE;
    rules.push(some(PRLIMIT, vec![vec![Equal { argument: 1, value: core }, More { argument: 2, than: 0 }]]));
    rules.push(some(SETRLIMIT, vec![vec![Equal { argument: 0, value: core }]]));
    rules
}

const fn equal(argument: u8, value: i32) -> Condition {
    Equal { argument, value: value.cast_unsigned() }
}

const fn not(argument: u8, value: i32) -> Condition {
    Not { argument, value: value.cast_unsigned() }
}

fn clone_cases() -> Vec<Vec<Condition>> {
    let has = |flag: i32| Masked { argument: 0, mask: flag.cast_unsigned(), value: flag.cast_unsigned() };
    CLONE_FLAGS.into_iter().map(|flag| vec![has(flag)]).collect()
}

fn socket_cases() -> Vec<Vec<Condition>> {
    /// The kind is told by these bits; the others are flags.
    const KIND: u32 = 0xf;
    let mut cases = vec![
        FAMILIES.iter().map(|&family| not(0, family)).collect(),
        vec![equal(0, libc::AF_NETLINK), not(2, libc::NETLINK_ROUTE)],
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let raw = Masked { argument: 1, mask: KIND, value: libc::SOCK_RAW.cast_unsigned() };
        cases.push(vec![equal(0, family), raw]);
        let other = PROTOCOLS.iter().map(|&protocol| not(2, protocol));
        cases.push(std::iter::once(equal(0, family)).chain(other).collect());
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library knows the numbers of the architecture that the tests run on.
    #[test]
    fn numbers_are_those_of_the_c_library() {
        let known = [
            ("ptrace", libc::SYS_ptrace),
            ("process_vm_readv", libc::SYS_process_vm_readv),
            ("process_madvise", libc::SYS_process_madvise),
            ("pidfd_getfd", libc::SYS_pidfd_getfd),
            ("bpf", libc::SYS_bpf),
            ("perf_event_open", libc::SYS_perf_event_open),
            ("userfaultfd", libc::SYS_userfaultfd),
            ("keyctl", libc::SYS_keyctl),
            ("add_key", libc::SYS_add_key),
            ("unshare", libc::SYS_unshare),
            ("setns", libc::SYS_setns),
            ("mount", libc::SYS_mount),
            ("umount2", libc::SYS_umount2),
            ("move_mount", libc::SYS_move_mount),
            ("mount_setattr", libc::SYS_mount_setattr),
            ("open_by_handle_at", libc::SYS_open_by_handle_at),
            ("kexec_load", libc::SYS_kexec_load),
            ("memfd_secret", libc::SYS_memfd_secret),
            ("clone", libc::SYS_clone),
            ("clone3", libc::SYS_clone3),
            ("socket", libc::SYS_socket),
            ("socketpair", libc::SYS_socketpair),
            ("ioctl", libc::SYS_ioctl),
            ("prlimit64", libc::SYS_prlimit64),
            ("io_uring_setup", libc::SYS_io_uring_setup),
        ];
        let rules = rules();
        for (name, number) in known {
            let rule = rules.iter().find(|rule| rule.call.name == name).unwrap();
            let ours = match std::env::consts::ARCH {
                "x86_64" => rule.call.x86_64,
                _ => rule.call.aarch64,
            };
            assert_eq!(ours, Some(number), "{name}");
        }
    }

    #[test]
    fn no_call_stands_twice() {
        let mut names: Vec<_> = rules().iter().map(|rule| rule.call.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
