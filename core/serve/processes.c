/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances as processes that mpirun has started, each on any machine: process i runs
 * instance i of the configuration, which every process reads. Process 0 is the server;
 * follow.c is the code of the other processes. If instances have n ranks, each rank is
 * a process: ranks 0, n, 2n, ... run the instances, and the processes between them run
 * worker_ranks.c.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/api/structured.h"
#include "core/cluster/remote.h"
#include "core/cluster/fetch.h"
#include "core/ranks/ranks.h"
#include "core/serve/daemon.h"

/* Fails. All processes find the same error, and process 0 reports it. */
static int refuse(struct server *s, int rc, const char *key, struct lls_error *err)
{
  if (server_is_other_rank(s))
    return -ECANCELED;
  if (server_follows(s))
    return rc;
  return lls_config_fail(s->config, err, rc, "engine", key, "%s", err->text);
}

static int check_number(struct server *s, uint32_t wanted, uint32_t ranks,
                        struct lls_error *err)
{
  const struct lls_engine_config *e = &s->config->engine;
  char of[32] = "";
  if (s->channel->n == wanted)
    return 0;
  if (ranks > 1)
    snprintf(of, sizeof of, " of %u ranks", ranks);
  lls_fail(err, 0, "%u instances%s are asked for and %u processes were started: start %u",
           wanted, of, s->channel->n * ranks, wanted * ranks);
  return refuse(s, -EINVAL, e->roles[0] != '\0' ? "roles" : "instances", err);
}

static int join(struct server *s, uint32_t ranks, struct lls_error *err)
{
  struct lls_ranks_instance mine = {0};
  int rc = lls_ranks_mpi_instance(ranks, s->config->engine.rank_timeout, &mine, err);
  s->channel = mine.channel;
  s->within = mine.within;
  s->ranks = mine.ranks;
  return rc < 0 ? lls_config_fail(s->config, err, rc, "engine", "ranks", "%s",
                                  lls_error_text(err, rc))
                : 0;
}

int server_join_instances(struct server *s, uint32_t wanted, struct lls_error *err)
{
  int64_t size = s->config->engine.tensor_parallel_size;
  uint32_t ranks = size != LLS_NEVER ? (uint32_t)size : 1;
  int rc = join(s, ranks, err);
  if (rc == 0)
    rc = check_number(s, wanted, ranks, err);
  if (rc < 0)
    return rc;
  /* a process of several ranks: each rank takes its cores itself */
  if (s->channel->shares_cores && s->ranks == NULL)
    lls_cores_take(s->channel->local_rank, s->channel->local_n);
  bool speaks = !server_follows(s) && !server_is_other_rank(s);
  uint32_t number = s->channel->self * ranks + (s->ranks != NULL ? s->ranks->rank : 0);
  lls_log(&s->log, speaks ? LLS_LOG_INFO : LLS_LOG_DEBUG, "instances",
          "%u instances are processes (%s), this is process %u, pid %d", wanted,
          s->channel->ops->name, number, (int)getpid());
  if (!s->channel->survives && speaks)
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

bool server_is_gpu_aware(const struct server *s)
{
  int64_t choice = s->config->engine.blocks_by;
  bool accepts = s->channel != NULL && s->channel->gpu_aware;
  return choice == LLS_BLOCKS_BY_GPU_MPI ||
         ((choice == LLS_BLOCKS_BY_AUTO || choice == LLS_BLOCKS_BY_UCX) && accepts);
}

int server_links(const struct server *s)
{
  int64_t choice = s->config->engine.blocks_by;
  return choice == LLS_BLOCKS_BY_AUTO   ? LLS_LINKS_TRIED
         : choice == LLS_BLOCKS_BY_NCCL ? LLS_LINKS_NEEDED
                                        : LLS_LINKS_NONE;
}

struct lls_loop_remote server_remote_options(struct server *s)
{
  return (struct lls_loop_remote){.channel = s->channel,
                                  .within = s->within,
                                  .gpu_aware = server_is_gpu_aware(s),
                                  .links = server_links(s),
                                  .timeout_ns = s->config->engine.rank_timeout,
                                  .grammar = compile_grammar,
                                  .adapter = server_adapter_there,
                                  .context = s,
                                  .leaves = server_leaves(),
                                  .drain_ns = s->config->server.drain_timeout,
                                  .join_ns = s->config->cluster.load_timeout,
                                  .change = server_change_ops(s)};
}

void server_leave_channel(struct server *s)
{
  if (s->within != NULL)
    s->within->ops->destroy(s->within, false);
  s->within = NULL;
  if (s->channel == NULL)
    return;
  if (s->loop == NULL && !server_follows(s) && !server_is_other_rank(s))
    lls_remote_give_up(s->channel, "it did not start");
  s->channel->ops->destroy(s->channel, s->channel->orderly);
  s->channel = NULL;
}
