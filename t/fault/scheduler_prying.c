/* SPDX-License-Identifier: Apache-2.0 */
/* Its create tries what no scheduler has to do, and logs how each of it went. */
#include "t/fault/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct params {
  const char *read, *write;
  int64_t port;
};

static const struct lls_param params[] = {
    LLS_PARAM_STRING(struct params, read, "", "file to read"),
    LLS_PARAM_STRING(struct params, write, "", "file to make"),
    LLS_PARAM_INT(struct params, port, "0", 0, 65535, "port", "port to connect to"),
};

/* 0 or the error's number, as a descriptor's. */
static int outcome(int fd)
{
  int error = fd < 0 ? errno : 0;
  if (fd >= 0)
    close(fd);
  return error;
}

static int try_program(void)
{
  char *arguments[] = {"true", NULL};
  pid_t child;
  int rc = posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL);
  if (rc == 0)
    waitpid(child, NULL, 0);
  return rc;
}

static int try_port(int64_t port)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int error = connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ? errno : 0;
  close(fd);
  return error;
}

static int create(const struct lls_host *host, const void *given, void **self)
{
  const struct params *p = given;
  int read = outcome(open(p->read, O_RDONLY | O_CLOEXEC));
  int write = outcome(open(p->write, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  int call = personality(0xffffffff) < 0 ? errno : 0; /* asks */
  int kills = kill(getppid(), 0) < 0 ? errno : 0;
  host->log(host->context, LLS_LOG_INFO,
            "prying: read %s, write %s, program %s, connect %s, call %s, signal %s",
            strerrorname_np(read), strerrorname_np(write), strerrorname_np(try_program()),
            strerrorname_np(try_port(p->port)), strerrorname_np(call),
            strerrorname_np(kills));
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
