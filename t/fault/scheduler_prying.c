/* SPDX-License-Identifier: Apache-2.0 */
/* Its create tries what no scheduler has to do, and logs how each of it went. */
#include "t/fault/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct params {
  const char *read, *write, *socket;
  int64_t port;
};

static const struct lls_param params[] = {
    LLS_PARAM_STRING(struct params, read, "", "file to read"),
    LLS_PARAM_STRING(struct params, write, "", "file to make"),
    LLS_PARAM_STRING(struct params, socket, "", "Unix socket to connect to"),
    LLS_PARAM_INT(struct params, port, "0", 0, 65535, "port", "port to connect to"),
};

/* Each returns 0 or the error's number. */
typedef int attempt(const struct params *);

static int outcome(long rc)
{
  return rc < 0 ? errno : 0;
}

static int close_after(int fd)
{
  int error = outcome(fd);
  if (fd >= 0)
    close(fd);
  return error;
}

static int try_read(const struct params *p)
{
  return close_after(open(p->read, O_RDONLY | O_CLOEXEC));
}

static int try_write(const struct params *p)
{
  return close_after(open(p->write, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static int try_core_pattern(const struct params *p)
{
  (void)p;
  return close_after(open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC));
}

static int try_shm(const struct params *p)
{
  (void)p;
  static const char name[] = "/llmserve-prying";
  int error = close_after(shm_open(name, O_RDWR | O_CREAT, 0600));
  shm_unlink(name);
  return error;
}

/* ---- programs ---------------------------------------------------------------------- */

static int run(const char *path, char *const arguments[])
{
  pid_t child;
  int rc = posix_spawn(&child, path, NULL, NULL, arguments, NULL);
  if (rc == 0)
    waitpid(child, NULL, 0);
  return rc;
}

static int try_program(const struct params *p)
{
  (void)p;
  return run("/bin/true", (char *[]){(char *)"true", NULL});
}

/* The dynamic linker runs what can be read. */
static int try_linker(const struct params *p)
{
  static const char linker[] = "/lib64/ld-linux-x86-64.so.2";
  (void)p;
  if (access(linker, F_OK) < 0)
    return EACCES; /* another machine's has another name */
  return run(linker, (char *[]){(char *)"ld.so", (char *)"/bin/true", NULL});
}

/* A program in memory, whose file no rule is about. */
static int memory_program(void)
{
  char buffer[65536];
  int fd = memfd_create("program", 0),
      from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  for (ssize_t n; from >= 0 && (n = read(from, buffer, sizeof buffer)) > 0;)
    if (write(fd, buffer, (size_t)n) < 0)
      break;
  close(from);
  return fd;
}

static int try_memory(const struct params *p)
{
  char path[64];
  (void)p;
  int fd = memory_program();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int error = run(path, (char *[]){(char *)"llmserve", (char *)"--version", NULL});
  close(fd);
  return error;
}

/* With flags that never succeed: it is about which error comes first. */
static int try_execveat(const struct params *p)
{
  (void)p;
  return outcome(syscall(SYS_execveat, -1, "", NULL, NULL, -1)) == ENOSYS ? ENOSYS : 0;
}

/* ---- sockets ----------------------------------------------------------------------- */

static struct sockaddr_in address(const struct params *p)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->port)};
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  return to;
}

static int try_connect(const struct params *p)
{
  struct sockaddr_in to = address(p);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int error = fd < 0 ? errno : outcome(connect(fd, (struct sockaddr *)&to, sizeof to));
  close(fd);
  return error;
}

static int send_by(const struct params *p, int type, int protocol, int flags)
{
  struct sockaddr_in to = address(p);
  int fd = socket(AF_INET, type, protocol);
  int error = fd < 0 ? errno
                     : outcome(sendto(fd, "x", 1, flags | MSG_NOSIGNAL,
                                      (struct sockaddr *)&to, sizeof to));
  close(fd);
  return error;
}

static int try_fast_open(const struct params *p)
{
  return send_by(p, SOCK_STREAM, 0, MSG_FASTOPEN);
}

static int try_udp(const struct params *p)
{
  return send_by(p, SOCK_DGRAM, 0, 0);
}

static int try_mptcp(const struct params *p)
{
  struct sockaddr_in to = address(p);
  int fd = socket(AF_INET, SOCK_STREAM, 262); /* IPPROTO_MPTCP */
  int error = fd < 0 ? errno : outcome(connect(fd, (struct sockaddr *)&to, sizeof to));
  close(fd);
  return error;
}

static int try_unix(const struct params *p)
{
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path, sizeof to.sun_path, "%s", p->socket);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  int error = fd < 0 ? errno : outcome(connect(fd, (struct sockaddr *)&to, sizeof to));
  close(fd);
  return error;
}

static int try_listen(const struct params *p)
{
  (void)p;
  struct sockaddr_in any = {.sin_family = AF_INET};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int error = fd < 0 ? errno : outcome(bind(fd, (struct sockaddr *)&any, sizeof any));
  close(fd);
  return error;
}

/* ---- the kernel and other processes ------------------------------------------------ */

static int try_personality(const struct params *p)
{
  (void)p;
  return outcome(personality(0xffffffff)); /* asks */
}

static int try_signal(const struct params *p)
{
  (void)p;
  return outcome(kill(getppid(), 0));
}

/* A child in a user namespace of its own, which ends at once. */
static int try_namespace(const struct params *p)
{
  (void)p;
  long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0)
    _exit(0);
  int error = outcome(child);
  if (child > 0)
    waitpid((pid_t)child, NULL, 0);
  return error;
}

/* The rest is unknown to a server: each is called with arguments that do nothing. */
static int unknown(long number)
{
  return syscall(number, -1, 0, 0, 0, 0, 0) < 0 && errno == ENOSYS ? ENOSYS : 0;
}

static int try_unshare(const struct params *p)
{
  (void)p;
  return unknown(SYS_unshare);
}

static int try_io_uring(const struct params *p)
{
  (void)p;
  return unknown(SYS_io_uring_setup);
}

static int try_ptrace(const struct params *p)
{
  (void)p;
  return unknown(SYS_ptrace);
}

static int try_vm_write(const struct params *p)
{
  (void)p;
  return unknown(SYS_process_vm_writev);
}

static int try_keyctl(const struct params *p)
{
  (void)p;
  return unknown(SYS_keyctl);
}

static int try_bpf(const struct params *p)
{
  (void)p;
  return unknown(SYS_bpf);
}

static int try_userfaultfd(const struct params *p)
{
  (void)p;
  return unknown(SYS_userfaultfd);
}

static int try_mount(const struct params *p)
{
  (void)p;
  return unknown(SYS_mount);
}

static const struct {
  const char *name;
  attempt *attempt;
} attempts[] = {
    {"read", try_read},
    {"write", try_write},
    {"core_pattern", try_core_pattern},
    {"shm", try_shm},
    {"program", try_program},
    {"linker", try_linker},
    {"memory", try_memory},
    {"execveat", try_execveat},
    {"connect", try_connect},
    {"fast_open", try_fast_open},
    {"udp", try_udp},
    {"mptcp", try_mptcp},
    {"unix", try_unix},
    {"listen", try_listen},
    {"call", try_personality},
    {"signal", try_signal},
    {"namespace", try_namespace},
    {"unshare", try_unshare},
    {"io_uring", try_io_uring},
    {"ptrace", try_ptrace},
    {"vm_write", try_vm_write},
    {"keyctl", try_keyctl},
    {"bpf", try_bpf},
    {"userfaultfd", try_userfaultfd},
    {"mount", try_mount},
};

static int create(const struct lls_host *host, const void *given, void **self)
{
  char line[900];
  size_t used = 0;
  for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
    used +=
        (size_t)snprintf(line + used, sizeof line - used, "%s%s %s", i > 0 ? ", " : "",
                         attempts[i].name, strerrorname_np(attempts[i].attempt(given)));
  host->log(host->context, LLS_LOG_INFO, "prying: %s", line);
  *self = (void *)(uintptr_t)given;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    FIXTURE_SCHEDULER_HEAD, .create = create,     .destroy = fixture_destroy,
    .caps = fixture_caps,   .plan = fixture_plan,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_SCHEDULER),
    FIXTURE_TEXTS("prying"),
    FIXTURE_PARAMS(params, struct params),
    .vtable = &vtable,
};
