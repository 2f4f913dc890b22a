//! The policy on system calls, compiled for the kernel and written for container engines.

pub(super) mod oci;
mod policy;

use std::collections::BTreeMap;
use std::io;

use jobs::digest::Digest;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use self::policy::{Answer, Call, Condition, Rule};

/// System calls of the x32 interface have this bit set and would pass every comparison of numbers.
const X32_BIT: u32 = 0x4000_0000;

/// The filters of this machine, to be applied in this order.
pub fn programs() -> io::Result<Vec<BpfProgram>> {
    programs_for(TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?)
}

/// The digest of the compiled filters, by which two runs can be told to have had the same.
pub fn digest() -> io::Result<Digest> {
    Ok(digest_of(&programs()?))
}

fn digest_of(programs: &[BpfProgram]) -> Digest {
    let mut bytes = Vec::new();
    for instruction in programs.iter().flatten() {
        bytes.extend_from_slice(&instruction.code.to_le_bytes());
        bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
        bytes.extend_from_slice(&instruction.k.to_le_bytes());
    }
    Digest::of(&bytes)
}

fn programs_for(architecture: TargetArch) -> io::Result<Vec<BpfProgram>> {
    let rules = policy::rules();
    Ok(vec![
        foreign_numbers(architecture),
        compile(&rules, Answer::Forbidden, architecture)?,
        compile(&rules, Answer::Unknown, architecture)?,
    ])
}

fn number(call: &Call, architecture: TargetArch) -> Option<i64> {
    match architecture {
        TargetArch::x86_64 => call.x86_64,
        TargetArch::aarch64 => call.aarch64,
        TargetArch::riscv64 => None,
    }
}

/// The filter of all rules with one answer. A call of another architecture's interface ends its process.
fn compile(rules: &[Rule], answer: Answer, architecture: TargetArch) -> io::Result<BpfProgram> {
    let mut compiled: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.answer == answer) {
        let Some(number) = number(&rule.call, architecture) else { continue };
        let cases = rule.cases.iter().map(|case| compile_case(case)).collect::<io::Result<_>>()?;
        compiled.insert(number, cases);
    }
    let refusal = SeccompAction::Errno(answer.errno().unsigned_abs());
    let filter = SeccompFilter::new(compiled, SeccompAction::Allow, refusal, architecture);
    filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
}

fn compile_case(case: &[Condition]) -> io::Result<SeccompRule> {
    let conditions = case.iter().map(compile_condition).collect::<io::Result<_>>()?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}

fn compile_condition(condition: &Condition) -> io::Result<SeccompCondition> {
    use SeccompCmpArgLen::{Dword, Qword};
    let (argument, length, operator, value) = match *condition {
        Condition::Equal { argument, value } => (argument, Dword, SeccompCmpOp::Eq, value.into()),
        Condition::Not { argument, value } => (argument, Dword, SeccompCmpOp::Ne, value.into()),
        Condition::Masked { argument, mask, value } => {
            (argument, Dword, SeccompCmpOp::MaskedEq(mask.into()), value.into())
        }
        Condition::More { argument, than } => (argument, Qword, SeccompCmpOp::Gt, than),
    };
    SeccompCondition::new(argument, length, operator, value).map_err(io::Error::other)
}

/// On x86-64, refuses the x32 interface with `ENOSYS`, as a kernel without it does. Other architectures have
/// one interface, whose number the compiled filters check themselves.
fn foreign_numbers(architecture: TargetArch) -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let allow = sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    if architecture != TargetArch::x86_64 {
        return vec![allow];
    }
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs() },
        allow,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_compiles_for_both_architectures_and_its_digest_is_stable() {
        let digests = [TargetArch::x86_64, TargetArch::aarch64].map(|architecture| {
            let programs = programs_for(architecture).unwrap();
            assert_eq!(programs.len(), 3);
            assert!(programs[1].len() > 100, "{} instructions", programs[1].len());
            assert_eq!(digest_of(&programs), digest_of(&programs_for(architecture).unwrap()));
            digest_of(&programs)
        });
        assert_ne!(digests[0], digests[1]);
    }

    /// What the compiled filter answers to a call, by the rules of classic BPF that these filters use.
    fn answer(program: &BpfProgram, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend_from_slice(&number.to_le_bytes());
        data.extend_from_slice(&architecture.to_le_bytes());
        data.extend_from_slice(&0_u64.to_le_bytes());
        for argument in arguments {
            data.extend_from_slice(&argument.to_le_bytes());
        }
        let (mut place, mut accumulator) = (0, 0_u32);
        loop {
            let at = &program[place];
            place += 1;
            let jump = |met: bool| usize::from(if met { at.jt } else { at.jf });
            match at.code {
                0x20 => {
                    let from = at.k as usize;
                    accumulator = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                0x54 => accumulator &= at.k,
                0x05 => place += at.k as usize,
                0x15 => place += jump(accumulator == at.k),
                0x25 => place += jump(accumulator > at.k),
                0x35 => place += jump(accumulator >= at.k),
                0x06 => return at.k,
                code => panic!("no such instruction here: {code:#x}"),
            }
        }
    }

    /// An aarch64 filter cannot be tried on an x86-64 kernel, but its program can be followed.
    #[test]
    fn the_filters_of_both_architectures_answer_the_same() {
        const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | 1;
        let cases = [(TargetArch::x86_64, 0xC000_003E_u32), (TargetArch::aarch64, 0xC000_00B7)];
        for (architecture, id) in cases {
            let program = &programs_for(architecture).unwrap()[1];
            let rules = policy::rules();
            let ask = |name: &str, arguments: [u64; 6]| {
                let rule = rules.iter().find(|rule| rule.call.name == name).unwrap();
                answer(program, id, number(&rule.call, architecture).unwrap() as u32, arguments)
            };
            let (vsock, high) = (libc::AF_VSOCK as u64, 1_u64 << 32);
            for (name, arguments) in [
                ("ptrace", [0; 6]),
                ("bpf", [0; 6]),
                ("mount", [0; 6]),
                ("keyctl", [0; 6]),
                ("socket", [vsock, 1, 0, 0, 0, 0]),
                ("socket", [high | vsock, 1, 0, 0, 0, 0]),
                ("socket", [2, 3, 1, 0, 0, 0]),
                ("socket", [16, 3, 12, 0, 0, 0]),
                ("socketpair", [30, 1, 0, 0, 0, 0]),
                ("clone", [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]),
                ("ioctl", [0, 0x5412, 0, 0, 0, 0]),
                ("prlimit64", [0, 4, 1, 0, 0, 0]),
            ] {
                assert_eq!(ask(name, arguments), REFUSED, "{architecture:?} {name} {arguments:?}");
            }
            for (name, arguments) in [
                ("socket", [1, 1, 0, 0, 0, 0]),
                ("socket", [2, 1, 6, 0, 0, 0]),
                ("socket", [10, 2, 17, 0, 0, 0]),
                ("socket", [16, 3, 0, 0, 0, 0]),
                ("socketpair", [1, 1, 0, 0, 0, 0]),
                ("clone", [0x11, 0, 0, 0, 0, 0]),
                ("ioctl", [0, 0x5413, 0, 0, 0, 0]),
                ("prlimit64", [0, 4, 0, 0, 0, 0]),
                ("prlimit64", [0, 7, 1, 0, 0, 0]),
            ] {
                assert_eq!(
                    ask(name, arguments),
                    libc::SECCOMP_RET_ALLOW,
                    "{architecture:?} {name} {arguments:?}"
                );
            }
        }
    }
}
