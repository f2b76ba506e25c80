/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that are left to a server at work, see sandbox.h. Whatever else it
 * calls is unknown to it: libraries then do without, as they do on older kernels. The
 * list has what llmserve, libuv, SQLite, glibc and the drivers of devices call; it has
 * nothing that changes identities, mounts, clocks, modules or other processes.
 */
#include "config.h"

#include "core/serve/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef LLS_SECCOMP
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Names, since numbers differ by machine; a name that a machine lacks is left out. */
static const char *const calls[] = {
    /* files */
    "read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev",
    "preadv2", "pwritev2", "open", "openat", "openat2", "creat", "close", "close_range",
    "stat", "fstat", "lstat", "newfstatat", "fstatat64", "statx", "access", "faccessat",
    "faccessat2", "lseek", "_llseek", "truncate", "ftruncate", "fallocate", "fsync",
    "fdatasync", "sync_file_range", "fadvise64", "readahead", "flock", "fcntl", "fcntl64",
    "dup", "dup2", "dup3", "pipe", "pipe2", "getdents", "getdents64", "getcwd", "rename",
    "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link",
    "linkat", "readlink", "readlinkat", "chmod", "fchmod", "fchmodat", "utimensat",
    "umask", "statfs", "fstatfs", "sendfile", "copy_file_range", "ioctl", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch",
    /* memory */
    "mmap", "mmap2", "mprotect", "munmap", "mremap", "msync", "madvise", "brk", "mlock",
    "mlock2", "munlock", "mbind", "get_mempolicy", "set_mempolicy", "memfd_create",
    "cachestat",
    /* events and the network */
    "poll", "ppoll", "select", "_newselect", "pselect6", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2",
    "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "socket",
    "socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname",
    "getpeername", "getsockopt", "setsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg",
    "sendmmsg", "recvmmsg", "shutdown",
    /* time, signals, threads */
    "clock_gettime", "clock_gettime64", "clock_getres", "clock_nanosleep",
    "clock_nanosleep_time64", "nanosleep", "gettimeofday", "time", "times", "alarm",
    "setitimer", "getitimer", "timer_create", "timer_settime", "timer_gettime",
    "timer_delete", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
    "sigaltstack", "tgkill", "tkill", "kill", "restart_syscall", "clone", "clone3",
    "set_tid_address", "set_robust_list", "get_robust_list", "futex", "futex_time64",
    "futex_waitv", "rseq", "membarrier", "arch_prctl", "prctl", "sched_yield",
    "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler",
    "sched_setscheduler", "sched_get_priority_max", "sched_get_priority_min",
    "getpriority", "setpriority", "getcpu",
    /* processes: the trial of a plugin, and the end */
    "vfork", "fork", "execve", "wait4", "waitid", "exit", "exit_group", "gettid",
    "getpid", "getppid", "getpgrp", "getpgid", "getsid", "getuid", "geteuid", "getgid",
    "getegid", "getresuid", "getresgid", "getgroups", "uname", "sysinfo", "getrusage",
    "getrlimit", "setrlimit", "prlimit64", "getrandom", "capget",
    /* this: what a process of a trial may ask of its own */
    "seccomp"};

/* The head, two instructions a call, and the end. */
#define MOST (6 + 2 * sizeof calls / sizeof *calls)

/* By hand: libseccomp 2.5's own generator dies where memory is short. Calls by another
 * machine's numbers are as unknown as the rest. */
static unsigned short write_filter(struct sock_filter to[MOST], unsigned *n_calls)
{
  const struct sock_filter head[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  };
  unsigned short n = sizeof head / sizeof *head;
  memcpy(to, head, sizeof head);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int number = seccomp_syscall_resolve_name(calls[i]);
    if (number < 0) /* not on this machine */
      continue;
    to[n++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    to[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    ++*n_calls;
  }
  to[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  return n;
}

int sandbox_calls(char *done, size_t size, struct lls_error *err)
{
  struct sock_filter filter[MOST];
  unsigned n = 0;
  struct sock_fprog program = {.len = write_filter(filter, &n), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return lls_fail(err, -errno, "seccomp: %s", strerror(errno));
  long rc =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (rc < 0 && (errno == EINVAL || errno == ENOSYS))
    return lls_fail(err, -ENOSYS, "this kernel has no seccomp filters");
  if (rc != 0)
    return lls_fail(err, rc < 0 ? -errno : -EBUSY, "seccomp: %s",
                    rc < 0 ? strerror(errno) : "a thread has a filter of its own");
  snprintf(done, size, "seccomp, %u system calls are left", n);
  return 0;
}

#else

int sandbox_calls(char *done, size_t size, struct lls_error *err)
{
  (void)done, (void)size;
  return lls_fail(
      err, -ENOSYS,
      "llmserve was built without seccomp: install libseccomp-dev and build it anew");
}

#endif
