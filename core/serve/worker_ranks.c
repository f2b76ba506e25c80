/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor parallel ranks of a server. Rank 0 is the server; the other ranks have
 * neither policies nor requests and are threads of this process, or processes that
 * mpirun has started with it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/assembly/options.h"
#include "core/engine/shard.h"
#include "core/cluster/remote_rank.h"
#include "core/cluster/fetch.h"
#include "core/serve/daemon.h"

static bool as_processes(const struct lls_engine_config *e)
{
  return e->ranks == LLS_RANKS_MPI ||
         (e->ranks == LLS_RANKS_AUTO && lls_ranks_launched() > 1);
}

int server_join_ranks(struct server *s, struct lls_error *err)
{
  const struct lls_engine_config *e = &s->config->engine;
  struct lls_instances all;
  const char *key;
  if (server_has_cluster(s->config))
    return server_join_cluster(s, err);
  if (!as_processes(e))
    return 0;
  if (lls_instances_read(e, &all, &key, NULL) == 0 && all.n > 1)
    return server_join_instances(s, all.n, err);
  int rc = lls_ranks_mpi(e->rank_timeout, &s->ranks, err);
  return rc < 0 ? lls_config_fail(s->config, err, rc, "engine", "ranks", "%s",
                                  lls_error_text(err, rc))
                : 0;
}

/* Checks that the model can be divided into `size` parts. */
static int check_shards(const struct server *s, uint32_t size, struct lls_error *err)
{
  struct lls_shard shard;
  const struct lls_ranks ranks = {.size = size};
  int64_t wanted = s->config->engine.tensor_parallel_size;
  if (wanted != LLS_NEVER && wanted != size)
    return lls_config_fail(s->config, err, -EINVAL, "engine", "tensor_parallel_size",
                           "%lld ranks are asked for and %u processes were started: "
                           "start as many, or omit the key",
                           (long long)wanted, size);
  int rc = lls_shard_make(&s->model, &ranks, &shard, err);
  return rc < 0 ? lls_config_fail(s->config, err, rc, "engine", "tensor_parallel_size",
                                  "%s", lls_error_text(err, rc))
                : 0;
}

static struct lls_worker_rank_options follow_options(const struct server *s)
{
  return (struct lls_worker_rank_options){
      .choice = lls_device_choice_of(s->config, &s->model),
      .builtin = s->builtin,
      .device = lls_device_options_of(s->config, &s->model),
      .engine = lls_engine_options_of(s->config, &s->model),
      .model = s->model,
  };
}

static int start_threads(struct server *s, uint32_t n, struct lls_error *err)
{
  struct lls_ranks *handles[LLS_MAX_RANKS];
  struct lls_worker_rank_options options = follow_options(s);
  int rc = lls_ranks_threads(n, s->config->engine.rank_timeout, handles, err);
  if (rc < 0)
    return rc;
  s->ranks = handles[0];
  return lls_worker_ranks_start(&options, handles, n, &s->followers, err);
}

static void wake(void *context)
{
  struct server *s = context;
  uv_async_send(&s->wake);
}

int server_check_ranks(const struct server *s, uint32_t n, struct lls_error *err)
{
  int rc = check_shards(s, n, err);
  if (rc == 0 && n > 1 && server_has_cluster(s->config))
    return lls_config_fail(s->config, err, -ENOTSUP, "engine", "tensor_parallel_size",
                           "%u ranks: an instance of a [cluster] has one", n);
  if (rc == 0 && n > 1 && s->instances.n > 1 && !as_processes(&s->config->engine))
    rc = lls_config_fail(s->config, err, -ENOTSUP, "engine", "instances",
                         "%u instances of %u ranks each: more than one instance with "
                         "tensor parallel ranks is not supported in one process, start "
                         "%u (mpirun -n %u) or choose one of the two",
                         s->instances.n, n, s->instances.n * n, s->instances.n * n);
  return rc;
}

int server_start_ranks(struct server *s, struct lls_error *err)
{
  int64_t wanted = s->config->engine.tensor_parallel_size;
  uint32_t n = s->ranks != NULL      ? s->ranks->size
               : wanted != LLS_NEVER ? (uint32_t)wanted
                                     : 1;
  int rc = server_check_ranks(s, n, err);
  if (rc == 0 && s->ranks == NULL && n > 1)
    rc = start_threads(s, n, err);
  if (rc < 0 || s->ranks == NULL)
    return rc;
  if (!server_follows(s)) /* a following process polls for failures itself */
    lls_ranks_on_failure(s->ranks, wake, s);
  lls_log(&s->log, server_follows(s) ? LLS_LOG_DEBUG : LLS_LOG_INFO, "ranks",
          "%u share the model (%s), this is rank 0, process %d", n, s->ranks->ops->name,
          (int)getpid());
  lls_ranks_take_cores(s->ranks);
  return 0;
}

/* Ignores the signals that end the server: rank 0 gets them and ends the other ranks. */
static void leave_signals_to_rank_0(void)
{
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
}

/* ---- this rank's part of blocks that go to other instances ------------------------- */

struct side {
  const struct server *server;
  struct lls_remote_rank *rank;
};

static int begin_side(void *context, struct lls_engine *engine, struct lls_error *err)
{
  struct side *side = context;
  const struct server *s = side->server;
  const struct lls_fetches_options fetches = {.engine = engine,
                                              .channel = s->channel,
                                              .links = server_links(s),
                                              .gpu_aware = server_is_gpu_aware(s),
                                              .timeout_ns = s->ranks->timeout_ns};
  return lls_remote_rank_create(&fetches, s->within, &side->rank, err);
}

static int heed(void *context, const struct lls_engine_note *note, struct lls_error *err)
{
  const struct side *side = context;
  return lls_remote_rank_heed(side->rank, note->data, note->bytes, err);
}

static void end_side(void *context)
{
  const struct side *side = context;
  lls_remote_rank_destroy(side->rank);
}

static int compute(const struct server *s, struct lls_error *err)
{
  struct lls_worker_rank_options options = follow_options(s);
  struct side context = {.server = s};
  const struct lls_worker_rank_side side = {
      .context = &context, .begin = begin_side, .heed = heed, .end = end_side};
  if (s->channel != NULL)
    options.side = &side;
  return lls_worker_rank_run(&options, s->ranks, err);
}

int server_follow(struct server *s)
{
  struct lls_error err = {0};
  leave_signals_to_rank_0();
  int rc = lls_model_config_read_for(
      s->config->model.path, (enum lls_model_task)s->config->model.task, &s->model, &err);
  if (rc < 0)
    lls_ranks_fail(s->ranks, lls_error_text(&err, rc));
  else
    rc = check_shards(s, s->ranks->size, &err); /* rank 0 gets the same result */
  if (rc == 0)
    rc = compute(s, &err);
  if (rc < 0)
    lls_log(&s->log, LLS_LOG_ERROR, "ranks", "rank %u ends: %s", s->ranks->rank,
            lls_error_text(&err, rc));
  server_leave_channel(s);
  s->ranks->ops->destroy(s->ranks);
  lls_config_free(s->config);
  return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

void server_stop_ranks(struct server *s)
{
  struct lls_engine *mine = s->engines[s->channel != NULL ? s->channel->self : 0];
  if (s->ranks == NULL)
    return;
  lls_ranks_on_failure(s->ranks, NULL, NULL);
  if (mine == NULL) /* the other ranks wait for this engine */
    lls_ranks_fail(s->ranks, "did not start");
  lls_engine_dismiss(mine);
  if (lls_worker_ranks_stop(s->followers) == 0)
    return;
  lls_log(&s->log, LLS_LOG_ERROR, "ranks", "a rank does not end: leaving it behind");
  _exit(EXIT_FAILURE);
}

bool server_has_failed(struct server *s, struct lls_error *why)
{
  return lls_loop_failed(s->loop, why) ||
         (s->ranks != NULL && lls_ranks_failed(s->ranks, why) < 0);
}
