//! The wall on Linux.

use super::Files;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The newest Landlock that is asked for; older kernels do what they can.
const LANDLOCK: ABI = ABI::V6;

/// System calls that are allowed whatever their arguments.
const ALLOWED: &[c_long] = &[
    // The pipes, and files: Landlock says which.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads, their signals and their priority.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_membarrier,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpriority,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // The C library asks these.
    libc::SYS_geteuid,
    libc::SYS_getuid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// More of them, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[c_long] = &[libc::SYS_stat, libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// Flags with which a file is opened to be changed, made or emptied.
const TO_CHANGE: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Names memory: `PR_SET_VMA`.
const PR_SET_VMA: u64 = 0x5356_4d41;

pub(super) fn limit() {
    // Files that the node's parent left open are neither the node's nor a program's. Standard error stays.
    // SAFETY: this is the first thing that the process does; nobody has a descriptor that it knows of.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    let _ = rustix::thread::set_no_new_privs(true);
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

pub(super) fn close(readable: &[&Path], files: Files) {
    // Best effort: the node has said at its start what is missing.
    let _ = restrict_files(readable);
    if let Some(filters) = filters(files) {
        for filter in filters {
            let _ = apply_filter_all_threads(&filter);
        }
    }
}

/// One filter more, on all threads. A filter cannot count, so threads are denied once all are there.
pub(super) fn no_more_threads() {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return };
    let calls = BTreeMap::from([(libc::SYS_clone, Vec::new()), (libc::SYS_seccomp, Vec::new())]);
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, denied, arch);
    if let Ok(filter) = filter.and_then(BpfProgram::try_from) {
        // Best effort, as the others.
        let _ = apply_filter_all_threads(&filter);
    }
}

fn ruleset(level: CompatLevel) -> Result<landlock::RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(level).handle_access(AccessFs::from_all(ABI::V1))?;
    // The rest is in newer kernels only: no system is called incomplete for it, since seccomp denies it too.
    let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort);
    ruleset
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()
}

fn restrict_files(readable: &[&Path]) -> Result<(), RulesetError> {
    let rules = path_beneath_rules(readable, AccessFs::ReadFile | AccessFs::ReadDir);
    ruleset(CompatLevel::BestEffort)?.add_rules(rules)?.restrict_self()?;
    Ok(())
}

pub(super) fn missing() -> Option<&'static str> {
    let landlock = ruleset(CompatLevel::HardRequirement).is_ok();
    let knows = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    let seccomp = filters(Files::Given).is_some() && knows.is_ok_and(|actions| actions.contains("errno"));
    match (seccomp, landlock) {
        (true, true) => None,
        (true, false) => Some("Landlock (Linux 5.13, switched on)"),
        (false, true) => Some("seccomp filters"),
        (false, false) => Some("seccomp filters and Landlock"),
    }
}

/// Only those calls with an argument, the `index`th, that passes `op` against `value`.
fn only(index: u8, op: SeccompCmpOp, value: u64) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}

/// `None` where seccompiler does not know the processor.
fn filters(files: Files) -> Option<[BpfProgram; 2]> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    allowed(arch, files).ok().zip(without_clone3(arch).ok()).map(|(allowed, clone3)| [clone3, allowed])
}

fn allowed(arch: TargetArch, files: Files) -> Result<BpfProgram, seccompiler::BackendError> {
    let any = |calls: &[c_long]| calls.iter().map(|call| (*call, Vec::new())).collect::<Vec<_>>();
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        any(ALLOWED).into_iter().chain(any(ALLOWED_OLD)).collect();
    // Threads, not processes.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, only(0, SeccompCmpOp::MaskedEq(thread), thread)?);
    // For the second filter to answer.
    rules.insert(libc::SYS_clone3, Vec::new());
    // A signal to itself is how it aborts.
    rules.insert(libc::SYS_tgkill, only(0, SeccompCmpOp::Eq, std::process::id().into())?);
    // The names of threads and of memory.
    let mut names = only(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?;
    names.extend(only(0, SeccompCmpOp::Eq, PR_SET_VMA)?);
    // One filter more, which can only deny more, and what has to be said before it.
    names.extend(only(0, SeccompCmpOp::Eq, libc::PR_SET_NO_NEW_PRIVS as u64)?);
    rules.insert(libc::SYS_seccomp, only(0, SeccompCmpOp::Eq, libc::SECCOMP_SET_MODE_FILTER as u64)?);
    rules.insert(libc::SYS_prctl, names);
    // Its bounds are asked for, not set.
    let condition = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![condition])?]);
    // Landlock knows of truncation since Linux 6.2 only.
    let to_read = |index| only(index, SeccompCmpOp::MaskedEq(TO_CHANGE), 0);
    rules.insert(libc::SYS_openat, to_read(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, to_read(1)?);
    // Its own priority, not that of its user's processes.
    let of_process = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0)?;
    let itself = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_setpriority, vec![SeccompRule::new(vec![of_process, itself])?]);
    // The use of a compiled program is noted in the time of its file, which is open.
    let condition = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_utimensat, vec![SeccompRule::new(vec![condition])?]);
    let mut own = Vec::new();
    for command in [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC] {
        own.extend(only(1, SeccompCmpOp::Eq, command as u64)?);
    }
    rules.insert(libc::SYS_fcntl, own);
    // Files come over the socket that is its standard output. It can send none, here or elsewhere.
    if files == Files::Given {
        rules.insert(libc::SYS_recvmsg, only(0, SeccompCmpOp::Eq, libc::STDOUT_FILENO as u64)?);
    }
    // Whether a pipe blocks.
    rules.insert(libc::SYS_ioctl, only(1, SeccompCmpOp::Eq, libc::FIONBIO)?);
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, denied, SeccompAction::Allow, arch)?.try_into()
}

/// The flags of `clone3` lie in memory, where no filter sees them. The C library takes `clone` when it
/// hears that there is no such call.
fn without_clone3(arch: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, unknown, arch)?.try_into()
}
