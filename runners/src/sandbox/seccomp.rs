//! The system calls that no container gets, compiled from this one list.
//!
//! A list of what is refused, because test suites of any language must run; what it leaves open is
//! bounded by namespaces, by the missing capabilities and by Landlock. Two answers are given: `EPERM`
//! for what no build has use for, `ENOSYS` for what a library tries first and can do without.

use std::collections::BTreeMap;
use std::io;

use jobs::digest::Digest;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// Refused with `EPERM`, whatever the arguments.
const FORBIDDEN: &[c_long] = &[
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Programs within the kernel, and looking into it.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    // Keyrings belong to a user, not to a namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_memfd_secret,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Refused with `ENOSYS`. io_uring makes sockets past any filter on `socket`, and the flags of clone3
/// lie in memory where a filter cannot read them.
const UNKNOWN: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

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
const TIOCSTI: u64 = 0x5412;
/// Pastes into a console.
const TIOCLINUX: u64 = 0x541C;

#[cfg(target_arch = "x86_64")]
const SETRLIMIT: c_long = libc::SYS_setrlimit;
/// The number in the list that newer architectures share; their C library has no name for it.
#[cfg(not(target_arch = "x86_64"))]
const SETRLIMIT: c_long = 164;

/// System calls of the x32 interface have this bit set and would pass every comparison of numbers.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

/// The filters, to be applied in this order.
pub fn programs() -> io::Result<Vec<BpfProgram>> {
    let mut forbidden: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|&call| (call, Vec::new())).collect();
    forbidden.insert(libc::SYS_clone, clone_rules()?);
    forbidden.insert(libc::SYS_socket, socket_rules()?);
    forbidden.insert(libc::SYS_prlimit64, core_limit_rules()?);
    forbidden.insert(SETRLIMIT, vec![rule(vec![equals(0, u64::from(libc::RLIMIT_CORE))?])?]);
    forbidden
        .insert(libc::SYS_ioctl, vec![rule(vec![equals(1, TIOCSTI)?])?, rule(vec![equals(1, TIOCLINUX)?])?]);
    let unknown = UNKNOWN.iter().map(|&call| (call, Vec::new())).collect();
    Ok(vec![foreign_numbers(), compile(forbidden, libc::EPERM)?, compile(unknown, libc::ENOSYS)?])
}

/// The digest of the compiled filters, by which two runs can be told to have had the same.
pub fn digest() -> io::Result<Digest> {
    let mut bytes = Vec::new();
    for program in programs()? {
        for instruction in program {
            bytes.extend_from_slice(&instruction.code.to_le_bytes());
            bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
            bytes.extend_from_slice(&instruction.k.to_le_bytes());
        }
    }
    Ok(Digest::of(&bytes))
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<BpfProgram> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture);
    filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
}

fn clone_rules() -> io::Result<Vec<SeccompRule>> {
    let one = |flag: i32| rule(vec![condition(0, SeccompCmpOp::MaskedEq(bits(flag)), bits(flag))?]);
    CLONE_FLAGS.into_iter().map(one).collect()
}

/// The kernel reads the arguments of `socket` as 32 bits, so the upper half must not count here either.
fn socket_rules() -> io::Result<Vec<SeccompRule>> {
    let differs = |argument, value: i32| condition(argument, SeccompCmpOp::Ne, bits(value));
    let mut rules = vec![
        rule(FAMILIES.iter().map(|&family| differs(0, family)).collect::<io::Result<_>>()?)?,
        rule(vec![equals(0, bits(libc::AF_NETLINK))?, differs(2, libc::NETLINK_ROUTE)?])?,
    ];
    let kind_mask = SeccompCmpOp::MaskedEq(0xf);
    for family in [libc::AF_INET, libc::AF_INET6] {
        let raw = condition(1, kind_mask.clone(), bits(libc::SOCK_RAW))?;
        rules.push(rule(vec![equals(0, bits(family))?, raw])?);
        let mut other = vec![equals(0, bits(family))?];
        for protocol in PROTOCOLS {
            other.push(differs(2, protocol)?);
        }
        rules.push(rule(other)?);
    }
    Ok(rules)
}

/// The limit on core files stays as it was set; it may be read.
fn core_limit_rules() -> io::Result<Vec<SeccompRule>> {
    let new = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Gt, 0);
    let new = new.map_err(io::Error::other)?;
    Ok(vec![rule(vec![equals(1, u64::from(libc::RLIMIT_CORE))?, new])?])
}

fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(io::Error::other)
}

fn equals(argument: u8, value: u64) -> io::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).map_err(io::Error::other)
}

fn bits(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

/// Refuses the x32 interface with `ENOSYS`, as a kernel without it does.
#[cfg(target_arch = "x86_64")]
fn foreign_numbers() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs() },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

/// Other architectures have one interface, whose number the compiled filters check themselves.
#[cfg(not(target_arch = "x86_64"))]
fn foreign_numbers() -> BpfProgram {
    vec![sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_compiles_and_its_digest_is_stable() {
        assert_eq!(programs().unwrap().len(), 3);
        assert_eq!(digest().unwrap(), digest().unwrap());
    }
}
