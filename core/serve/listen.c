/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the sockets that clients connect to: those that the service manager passes on
 * (socket activation, sd_listen_fds(3)), else the addresses of [server] listen; and the
 * administrator's. A socket of the service manager stays open while the server is
 * restarted, so that its clients wait instead of being refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/serve/daemon.h"

#define FIRST_INHERITED 3 /* SD_LISTEN_FDS_START */
#define MOST_INHERITED  64

/* Returns how many sockets this process inherits. */
static int count_inherited(void)
{
  const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
  if (pid == NULL || n == NULL || strtol(pid, NULL, 10) != (long)getpid())
    return 0;
  long count = strtol(n, NULL, 10);
  return count < 0 ? 0 : count > MOST_INHERITED ? MOST_INHERITED : (int)count;
}

/* Programs that this one runs must not take the sockets for their own. */
static void forget_inherited(void)
{
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
}

/* Takes all sockets, whose names stand in LISTEN_FDNAMES with colons between. Those after
 * one that can't be used are closed. */
static int listen_inherited(struct server *s, int n, struct lls_error *err)
{
  const char *given = getenv("LISTEN_FDNAMES");
  char *names = strdup(given != NULL ? given : ""), *rest = names;
  int rc = names == NULL ? lls_fail(err, -ENOMEM, "out of memory") : 0;
  for (int fd = FIRST_INHERITED; fd < FIRST_INHERITED + n; fd++) {
    const char *name = strsep(&rest, ":");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (rc == 0)
      rc = lls_http_server_listen_inherited(s->http, fd, name != NULL ? name : "", err);
    else
      close(fd);
  }
  free(names);
  return rc;
}

/* Opens the configured addresses. */
static int listen_configured(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  int rc = lls_http_server_listen(s->http, c->server.listen, err);
  return rc < 0 ? lls_config_fail(c, err, rc, "server", "listen", "%s",
                                  lls_error_text(err, rc))
                : 0;
}

int server_listen(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  int n = count_inherited();
  int rc = n > 0 ? listen_inherited(s, n, err) : listen_configured(s, err);
  forget_inherited();
  if (rc < 0)
    return rc;
  if (n > 0)
    lls_log(
        &s->log, LLS_LOG_INFO, "server",
        "the service manager has opened the %d socket%s to listen on: [server] listen "
        "is not used",
        n, n > 1 ? "s" : "");
  if (c->server.admin_socket[0] != '\0')
    rc = lls_http_server_listen_admin(s->http, c->server.admin_socket, err);
  return rc < 0 ? lls_config_fail(c, err, rc, "server", "admin_socket", "%s",
                                  lls_error_text(err, rc))
                : 0;
}
