/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that a running server may use, see sandbox.h. Any other call fails
 * with ENOSYS, and libraries fall back as they do on older kernels. The list has the
 * calls of llmserve, libuv, SQLite, glibc and device drivers, and none that changes
 * identities, mounts, clocks, modules or other processes.
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
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/plugin/trial.h"

#ifndef TIOCLINUX
#define TIOCLINUX 0x541c
#endif
#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif
#if !defined SYS_mseal && !defined __alpha__
#define SYS_mseal 462 /* number on nearly every machine */
#endif

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
    "umask", "statfs", "fstatfs", "sendfile", "copy_file_range", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch",
    /* memory */
    "mmap", "mmap2", "mprotect", "munmap", "mremap", "msync", "madvise", "brk", "mlock",
    "mlock2", "munlock", "mbind", "get_mempolicy", "set_mempolicy", "memfd_create",
    "cachestat",
    /* events and the network, on sockets that exist or are accepted */
    "poll", "ppoll", "select", "_newselect", "pselect6", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2",
    "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "socketpair",
    "accept", "accept4", "getsockname", "getpeername", "getsockopt", "setsockopt",
    "recvfrom", "recvmsg", "recvmmsg", "shutdown",
    /* time, signals, threads */
    "clock_gettime", "clock_gettime64", "clock_getres", "clock_nanosleep",
    "clock_nanosleep_time64", "nanosleep", "gettimeofday", "time", "times", "alarm",
    "setitimer", "getitimer", "timer_create", "timer_settime", "timer_gettime",
    "timer_delete", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigpending", "rt_sigtimedwait", "sigaltstack", "tgkill", "tkill", "kill",
    "restart_syscall", "set_tid_address", "set_robust_list", "get_robust_list", "futex",
    "futex_time64", "futex_waitv", "rseq", "membarrier", "arch_prctl", "sched_yield",
    "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler",
    "sched_setscheduler", "sched_get_priority_max", "sched_get_priority_min",
    "getpriority", "setpriority", "getcpu",
    /* processes: the trial of a plugin, and the end */
    "vfork", "fork", "wait4", "waitid", "exit", "exit_group", "gettid", "getpid",
    "getppid", "getpgrp", "getpgid", "getsid", "getuid", "geteuid", "getgid", "getegid",
    "getresuid", "getresgid", "getgroups", "uname", "sysinfo", "getrusage", "getrlimit",
    "setrlimit", "getrandom", "capget",
    /* the call that installs this filter: a trial's process may restrict itself
     * further */
    "seccomp"};

#define NEW_SPACES 0x7e020000u /* CLONE_NEWNS to CLONE_NEWNET */
#define SET_VMA    0x53564d41u /* PR_SET_VMA: names of malloc's mappings */
#define TYPE_BITS  0x0fu       /* the bits of a socket's type without its flags */

/* ---- conditions on arguments ------------------------------------------------------- */

/* Allows a call if the bits of `mask` in its argument equal one of the values. */
struct condition {
  const char *name;
  uint32_t argument, mask;
  uint32_t n;
  uint32_t values[12];
};

/*
 * clone may make threads and processes but no namespaces. clone3, whose flags lie in
 * memory, is unknown, and the C library falls back to clone. Sends need a connected
 * socket. ioctl must not inject input into a terminal. A process may change only its
 * own limits.
 */
static const struct condition conditions[] = {
    {"clone", 0, NEW_SPACES, 1, {0}},
    {"sendto", 3, MSG_FASTOPEN, 1, {0}},
    {"sendmsg", 2, MSG_FASTOPEN, 1, {0}},
    {"sendmmsg", 3, MSG_FASTOPEN, 1, {0}},
    {"prlimit64", 0, UINT32_MAX, 1, {0}},
    {"prctl",
     0,
     UINT32_MAX,
     9,
     {PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP,
      PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ, SET_VMA}},
};

/* ---- the filter -------------------------------------------------------------------- */

/* Most instructions: the head, two for each call, the conditions, and the end. */
#define MOST (256 + 2 * sizeof calls / sizeof *calls)

struct filter {
  struct sock_filter list[MOST];
  unsigned short n;
  unsigned n_calls;
};

static void put(struct filter *f, struct sock_filter instruction)
{
  if (f->n < MOST)
    f->list[f->n++] = instruction;
}

static void put_verdict(struct filter *f, uint32_t verdict)
{
  put(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Jumps over the next `n` instructions unless the loaded word is `value`. */
static void put_unless(struct filter *f, uint32_t value, uint8_t n)
{
  put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n));
}

static void put_load(struct filter *f, size_t offset)
{
  put(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Returns the low or (1) high half of an argument. */
static size_t half(uint32_t argument, unsigned high)
{
  const uint32_t little = 1;
  bool first = *(const unsigned char *)&little == 1;
  return offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t) +
         (high == first ? sizeof(uint32_t) : 0);
}

/* Returns the call's number, or -1 if this machine has no call of that name. */
static int number_of(const char *name)
{
  int number = seccomp_syscall_resolve_name(name);
  return number < 0 ? -1 : number;
}

static void put_call(struct filter *f, const char *name)
{
  int number = number_of(name);
  if (number < 0)
    return;
  put_unless(f, (uint32_t)number, 1);
  put_verdict(f, SECCOMP_RET_ALLOW);
  f->n_calls++;
}

/* Adds a condition. Its instructions end with a verdict, so no later number is
 * compared. */
static void put_condition(struct filter *f, const struct condition *c)
{
  int number = number_of(c->name);
  if (number < 0)
    return;
  put_unless(f, (uint32_t)number, (uint8_t)(3 + 2 * c->n));
  put_load(f, half(c->argument, 0));
  put(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
  for (uint32_t i = 0; i < c->n; i++) {
    put_unless(f, c->values[i], 1);
    put_verdict(f, SECCOMP_RET_ALLOW);
  }
  put_verdict(f, SECCOMP_RET_ERRNO | EPERM);
  f->n_calls++;
}

/* Allows ioctl except for injecting input into a terminal. */
static void put_ioctl(struct filter *f)
{
  put_unless(f, (uint32_t)number_of("ioctl"), 6);
  put_load(f, half(1, 0));
  put_unless(f, TIOCSTI, 1);
  put_verdict(f, SECCOMP_RET_ERRNO | EPERM);
  put_unless(f, TIOCLINUX, 1);
  put_verdict(f, SECCOMP_RET_ERRNO | EPERM);
  put_verdict(f, SECCOMP_RET_ALLOW);
  f->n_calls++;
}

/* Allows execve only with the address of the path string that a trial passes, whose
 * page is sealed, because a filter cannot read memory. */
static void put_execve(struct filter *f, const char *path)
{
  uint64_t at = (uint64_t)(uintptr_t)path;
  put_unless(f, (uint32_t)number_of("execve"), 6);
  put_load(f, half(0, 0));
  put_unless(f, (uint32_t)at, 3);
  put_load(f, half(0, 1));
  put_unless(f, (uint32_t)(at >> 32), 1);
  put_verdict(f, SECCOMP_RET_ALLOW);
  put_verdict(f, SECCOMP_RET_ERRNO | EPERM);
  f->n_calls++;
}

/* Allows new connections, to a database that was lost (Landlock may limit where to). */
static void put_connections(struct filter *f)
{
  put_call(f, "socket");
  put_call(f, "connect");
  put_call(f, "getsockname");
}

/* Allows only the socket for datagrams to the service manager. */
static void put_socket(struct filter *f)
{
  put_unless(f, (uint32_t)number_of("socket"), 7);
  put_load(f, half(0, 0));
  put_unless(f, AF_UNIX, 4);
  put_load(f, half(1, 0));
  put(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TYPE_BITS));
  put_unless(f, SOCK_DGRAM, 1);
  put_verdict(f, SECCOMP_RET_ALLOW);
  put_verdict(f, SECCOMP_RET_ERRNO | EPERM);
  f->n_calls++;
}

/* Writes the filter without libseccomp, since version 2.5's generator crashes if memory
 * is short. Calls by another architecture's numbers fail like unlisted ones. */
static void write_filter(struct filter *f, bool whatif, bool connects)
{
  put_load(f, offsetof(struct seccomp_data, arch));
  put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1,
                                      0));
  put_verdict(f, SECCOMP_RET_ERRNO | ENOSYS);
  put_load(f, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    put_call(f, calls[i]);
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
    put_condition(f, &conditions[i]);
  put_ioctl(f);
  if (whatif)
    put_call(f, "execve");
  else
    put_execve(f, lls_trial_program);
  if (connects)
    put_connections(f);
  else if (getenv("NOTIFY_SOCKET") != NULL)
    put_socket(f);
  put_verdict(f, SECCOMP_RET_ERRNO | ENOSYS);
}

/* Seals the page so that nothing can make it writable again, on kernels from 6.10 on. */
static void seal(const char *text)
{
#ifdef SYS_mseal
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  syscall(SYS_mseal, (uintptr_t)text / page * page, page, 0ul);
#endif
  (void)text;
}

int sandbox_calls(const struct lls_config *config, char *done, size_t size,
                  struct lls_error *err)
{
  struct filter filter = {0};
  write_filter(&filter, sandbox_runs_whatif(config),
               config->server.state_database[0] != '\0');
  struct sock_fprog program = {.len = filter.n, .filter = filter.list};
  seal(lls_trial_program);
  if (filter.n == MOST)
    return lls_fail(err, -E2BIG, "seccomp: the filter is too long");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return lls_fail(err, -errno, "seccomp: %s", strerror(errno));
  long rc =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (rc < 0 && (errno == EINVAL || errno == ENOSYS))
    return lls_fail(err, -ENOSYS, "this kernel has no seccomp filters");
  if (rc != 0)
    return lls_fail(err, rc < 0 ? -errno : -EBUSY, "seccomp: %s",
                    rc < 0 ? strerror(errno) : "a thread has a filter of its own");
  snprintf(done, size, "seccomp, %u system calls are left", filter.n_calls);
  return 0;
}

#else

int sandbox_calls(const struct lls_config *config, char *done, size_t size,
                  struct lls_error *err)
{
  (void)config, (void)done, (void)size;
  return lls_fail(
      err, -ENOSYS,
      "llmserve was built without seccomp: install libseccomp-dev and rebuild it");
}

#endif
