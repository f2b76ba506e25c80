/* SPDX-License-Identifier: Apache-2.0 */
/* A process with an instance and without a front end; see processes.c. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cluster/remote.h"
#include "core/serve/daemon.h"

/* Ignores the signals that end the server: process 0 gets them and ends the other
 * processes. */
static void leave_signals_to_process_0(void)
{
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
}

#define RELOAD_NS (2 * LLS_NS_PER_S)

/* Ends reloads. If a thread hangs in a plugin, its objects cannot be freed. */
static void end_reloads(struct server *s)
{
  if (!server_end_reloads(s, RELOAD_NS))
    _exit(EXIT_FAILURE);
  while (s->reloads != NULL)
    server_free_reload(s, s->reloads);
}

/* rc and err are the result of the earlier start. */
int server_follow_instance(struct server *s, int rc, struct lls_error *err)
{
  leave_signals_to_process_0();
  if (rc == 0)
    rc = server_load_model(s, err);
  if (rc == 0)
    rc = server_create_loop(s, err);
  if (rc < 0)
    lls_remote_give_up(s->channel, lls_error_text(err, rc)); /* process 0 logs it */
  else if ((rc = lls_loop_follow(s->loop, err)) < 0)
    lls_log(&s->log, LLS_LOG_ERROR, "instances", "instance %u ends: %s", s->channel->self,
            lls_error_text(err, rc));
  end_reloads(s);
  lls_loop_destroy(s->loop);
  server_stop_ranks(s);
  server_destroy_parts(s);
  lls_config_free(s->config);
  return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
