/* SPDX-License-Identifier: Apache-2.0 */
/* Starts [server] sandbox, logs its state, and decides whether the server may run
 * without it. */
#include "core/serve/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/serve/daemon.h"

/* Logs the result, and fails if the configuration insists on the sandbox. */
static int judge(struct server *s, int rc, const char *what, char *said,
                 const struct lls_error *why, struct lls_error *err)
{
  bool insists = s->config->server.sandbox == LLS_SANDBOX_ON;
  if (rc < 0)
    snprintf(said, LLS_ERROR_MAX, "off: %.500s", why->text);
  if (rc < 0 && insists)
    return lls_config_fail(s->config, err, rc, "server", "sandbox", "%s", why->text);
  lls_log(&s->log, rc < 0 && rc != -ENOSYS ? LLS_LOG_WARNING : LLS_LOG_INFO, "sandbox",
          "%s: %s", what, said);
  return 0;
}

int server_give_up_files(struct server *s, struct lls_error *err)
{
  struct lls_admin_state *a = &s->admin;
  struct lls_error why = {0};
  const char *why_not;
  if (!sandbox_is_wanted(s->config, s->ranks != NULL || s->channel != NULL, &why_not)) {
    snprintf(a->sandbox_files, sizeof a->sandbox_files, "off: %s", why_not);
    snprintf(a->sandbox_calls, sizeof a->sandbox_calls, "off: %s", why_not);
    if (s->config->server.sandbox == LLS_SANDBOX_ON)
      return lls_config_fail(s->config, err, -ENOTSUP, "server", "sandbox", "%s",
                             why_not);
    return 0;
  }
  if (s->config->server.state[0] != '\0') /* SQLite's temporary files stay there */
    setenv("SQLITE_TMPDIR", s->config->server.state, 0);
  int rc = sandbox_files(s->config, a->sandbox_files, sizeof a->sandbox_files, &why);
  return judge(s, rc, "files", a->sandbox_files, &why, err);
}

int server_give_up_calls(struct server *s, struct lls_error *err)
{
  struct lls_admin_state *a = &s->admin;
  struct lls_error why = {0};
  if (a->sandbox_calls[0] != '\0') /* already known to be off */
    return 0;
  int rc = sandbox_calls(s->config, a->sandbox_calls, sizeof a->sandbox_calls, &why);
  return judge(s, rc, "system calls", a->sandbox_calls, &why, err);
}
