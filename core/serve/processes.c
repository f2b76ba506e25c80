/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances as processes that mpirun has started, each on any machine: process i has
 * instance i of the configuration, which all of them read. Process 0 is the server; what
 * the others do is in follow.c.
 */
#include <errno.h>
#include <unistd.h>

#include "core/api/structured.h"
#include "core/ranks/ranks.h"
#include "core/serve/daemon.h"

/* All processes find the same, and one says it. */
static int refuse(struct server *s, int rc, const char *key, struct lls_error *err)
{
  if (server_follows(s))
    return rc;
  return lls_config_fail(s->config, err, rc, "engine", key, "%s", err->text);
}

static int check_number(struct server *s, uint32_t wanted, struct lls_error *err)
{
  const struct lls_engine_config *e = &s->config->engine;
  if (s->channel->n != wanted) {
    lls_fail(err, 0,
             "%u instances are asked for and %u processes were started: start as many",
             wanted, s->channel->n);
    return refuse(s, -EINVAL, e->roles[0] != '\0' ? "roles" : "instances", err);
  }
  if (e->tensor_parallel_size != LLS_NEVER && e->tensor_parallel_size > 1) {
    lls_fail(
        err, 0,
        "instances that are processes have one rank each: omit the key, or roles and "
        "instances");
    return refuse(s, -ENOTSUP, "tensor_parallel_size", err);
  }
  return 0;
}

int server_join_instances(struct server *s, uint32_t wanted, struct lls_error *err)
{
  int rc = lls_ranks_mpi_channel(&s->channel, err);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "engine", "ranks", "%s",
                           lls_error_text(err, rc));
  rc = check_number(s, wanted, err);
  if (rc < 0)
    return rc;
  if (s->channel->shares_cores)
    lls_cores_take(s->channel->local_rank, s->channel->local_n);
  lls_log(&s->log, server_follows(s) ? LLS_LOG_DEBUG : LLS_LOG_INFO, "instances",
          "%u instances are processes (%s), this is process 0, pid %d", wanted,
          s->channel->ops->name, (int)getpid());
  if (!s->channel->survives && !server_follows(s))
    lls_log(&s->log, LLS_LOG_WARNING, "instances",
            "the launcher may end all processes when one dies: Open MPI's has to be "
            "started with --enable-recovery");
  return 0;
}

static int compile_grammar(void *context, const char *key, size_t n,
                           struct lls_grammar **out, struct lls_error *err)
{
  const struct server *s = context;
  return lls_structured_from_key(s->grammars, key, n, out, err);
}

struct lls_loop_far server_far_options(struct server *s)
{
  return (struct lls_loop_far){.channel = s->channel,
                               .timeout_ns = s->config->engine.rank_timeout,
                               .grammar = compile_grammar,
                               .grammar_context = s};
}
