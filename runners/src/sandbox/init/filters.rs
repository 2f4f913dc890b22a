//! What the container's processes may ask of the kernel: no capability, files by Landlock, system
//! calls by seccomp.

use std::collections::BTreeMap;
use std::io;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::checked;

/// The newest interface whose rights are known here; an older kernel enforces what it knows.
const LANDLOCK: ABI = ABI::V6;
/// Where files may be changed.
const WRITABLE: [&str; 4] = ["/workspace", "/home/whipstitch", "/tmp", "/dev/shm"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Drops every capability, from the bounding set as well.
pub fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, process: 0 };
    let nothing = [0_u32; 6];
    // SAFETY: the structures have the layout of version 3; everything is of this process alone.
    unsafe {
        for capability in 0..64 {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 {
                break;
            }
        }
        checked(libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).into())?;
        checked(libc::syscall(libc::SYS_capset, &raw const header, nothing.as_ptr())).map(drop)
    }
}

/// Lets files be read everywhere and changed only where the container may write.
pub fn restrict_files() -> io::Result<()> {
    let all = AccessFs::from_all(LANDLOCK);
    let read = AccessFs::from_read(LANDLOCK);
    let device: BitFlags<AccessFs> =
        AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let restricted = || -> Result<(), Box<dyn std::error::Error>> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
        for place in WRITABLE {
            rules = rules.add_rule(PathBeneath::new(
                PathFd::new(place)?,
                all & !AccessFs::MakeChar & !AccessFs::MakeBlock,
            ))?;
        }
        for place in DEVICES {
            rules = rules.add_rule(PathBeneath::new(PathFd::new(place)?, device))?;
        }
        rules.restrict_self()?;
        Ok(())
    };
    restricted().map_err(|error| io::Error::other(error.to_string()))
}

/// The whole policy on system calls, as programs to be loaded one after the other.
pub fn programs() -> io::Result<Vec<BpfProgram>> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let compile = |rules, action| -> io::Result<BpfProgram> {
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
            .and_then(TryInto::try_into)
            .map_err(io::Error::other)
    };
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let newer = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    Ok(vec![
        foreign_numbers(),
        compile(newer, errno(libc::ENOSYS))?,
        compile(refused().map_err(io::Error::other)?, errno(libc::EPERM))?,
    ])
}

/// Loads the policy for this process and all that it starts.
pub fn restrict_system_calls() -> io::Result<()> {
    for program in programs()? {
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Refuses the second numbering of system calls that one architecture has, which rules by number miss.
fn foreign_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32_BIT: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, X32_BIT),
        step(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
        step(RETURN, 0, 0, ALLOW),
    ]
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type RuleError = seccompiler::BackendError;

fn refused() -> Result<Rules, RuleError> {
    let mut rules: Rules = always_refused().iter().map(|&number| (number, vec![])).collect();
    rules.insert(libc::SYS_socket, sockets()?);
    rules.insert(libc::SYS_socketpair, vec![other_than(0, &[libc::AF_UNIX])?]);
    rules.insert(libc::SYS_clone, namespaces()?);
    let terminals = [0x5412, 0x541C].map(|request| {
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?])
    });
    rules.insert(libc::SYS_ioctl, terminals.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// Calls that a build or a test has no use for, and an escape has.
fn always_refused() -> Vec<i64> {
    let mut numbers = vec![
        // Other processes' memory.
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_kcmp,
        libc::SYS_pidfd_getfd,
        // Ways around a filter, and large attack surfaces.
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        // Keyrings are shared by all containers of one user.
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        // Mounts and namespaces.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        // The machine itself.
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_syslog,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_fanotify_init,
        libc::SYS_lookup_dcookie,
        libc::SYS_move_pages,
        libc::SYS_migrate_pages,
    ];
    #[cfg(target_arch = "x86_64")]
    numbers.extend([libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt]);
    numbers.sort_unstable();
    numbers
}

/// Sockets: local ones, loopback's TCP and UDP, and the kernel's route table; never raw, never to a hypervisor.
fn sockets() -> Result<Vec<SeccompRule>, RuleError> {
    const TYPE: u64 = 0xf;
    /// An old kind of packet socket, which the C library marks as deprecated.
    const SOCK_PACKET: i32 = 10;
    let family = |value: i32| condition(0, SeccompCmpOp::Eq, value);
    Ok(vec![
        other_than(0, &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?,
        SeccompRule::new(vec![
            family(libc::AF_NETLINK)?,
            condition(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE)?,
        ])?,
        SeccompRule::new(vec![
            condition(0, SeccompCmpOp::Ne, libc::AF_NETLINK)?,
            condition(1, SeccompCmpOp::MaskedEq(TYPE), libc::SOCK_RAW)?,
        ])?,
        SeccompRule::new(vec![condition(1, SeccompCmpOp::MaskedEq(TYPE), SOCK_PACKET)?])?,
    ])
}

/// `clone` with any flag that makes a namespace.
fn namespaces() -> Result<Vec<SeccompRule>, RuleError> {
    let flags = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let rule = |flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        let set = SeccompCmpOp::MaskedEq(flag);
        SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Qword, set, flag)?])
    };
    flags.into_iter().map(rule).collect()
}

fn other_than(argument: u8, values: &[i32]) -> Result<SeccompRule, RuleError> {
    let conditions = values.iter().map(|&value| condition(argument, SeccompCmpOp::Ne, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: i32) -> Result<SeccompCondition, RuleError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, u64::from(value.unsigned_abs()))
}
