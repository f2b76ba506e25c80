/* SPDX-License-Identifier: Apache-2.0 */
/* A process with an instance and without a front end; see processes.c and cluster.c. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cluster/remote.h"
#include "core/serve/daemon.h"

#define RELOAD_NS (2 * LLS_NS_PER_S)

/* Ends reloads. If a thread hangs in a plugin, its objects cannot be freed. */
static void end_reloads(struct server *s)
{
  if (!server_end_reloads(s, RELOAD_NS))
    _exit(EXIT_FAILURE);
  while (s->reloads != NULL)
    server_free_reload(s, s->reloads);
  s->reload = NULL;
}

/* Serves until the front end ends this process, or is lost. */
static int follow(struct server *s, int rc, struct lls_error *err)
{
  if (rc == 0)
    rc = server_create_loop(s, err);
  if (rc < 0) /* process 0 logs it */
    lls_remote_give_up(s->channel, lls_error_text(err, rc));
  else if ((rc = lls_loop_follow(s->loop, err)) < 0)
    lls_log(&s->log, LLS_LOG_ERROR, "instances", "instance %u ends: %s", s->channel->self,
            lls_error_text(err, rc));
  end_reloads(s);
  lls_loop_destroy(s->loop);
  s->loop = NULL;
  return rc;
}

/* Gives the engines of instance `from` to instance `to`. */
static void renumber(struct server *s, uint32_t from, uint32_t to)
{
  s->engines[to] = s->engines[from];
  s->devices[to] = s->devices[from];
  s->draft.engines[to] = s->draft.engines[from];
  s->draft.devices[to] = s->draft.devices[from];
  s->engines[from] = s->draft.engines[from] = NULL;
  s->devices[from] = s->draft.devices[from] = NULL;
}

/* Joins again after the front end was lost, with the engine as it is. */
static int join_again(struct server *s, struct lls_error *err)
{
  uint32_t before = s->channel->self;
  server_leave_channel(s);
  int rc = server_join_cluster(s, err);
  if (rc < 0 || s->channel->self == before)
    return rc;
  renumber(s, before, s->channel->self);
  return 0;
}

/* rc and err are the result of the earlier start. */
int server_follow_instance(struct server *s, int rc, struct lls_error *err)
{
  bool elastic = s->channel->elastic, ready;
  server_set_signals(elastic);
  if (rc == 0)
    rc = server_load_model(s, err);
  ready = rc == 0;
  rc = follow(s, rc, err);
  while (elastic && ready && rc == -ECONNABORTED && !atomic_load(server_leaves())) {
    rc = join_again(s, err);
    if (rc < 0 && !atomic_load(server_leaves()))
      lls_log(&s->log, LLS_LOG_ERROR, "cluster", "%s", lls_error_text(err, rc));
    if (rc == 0)
      rc = follow(s, rc, err);
  }
  bool without_front_end = rc == -ECANCELED || rc == -ECONNABORTED;
  if (elastic && without_front_end && atomic_load(server_leaves()))
    rc = 0;
  server_stop_ranks(s);
  server_destroy_parts(s);
  lls_config_free(s->config);
  return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
