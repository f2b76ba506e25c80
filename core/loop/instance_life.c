/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates an instance: buffers first, then the policies, then the check that policies,
 * cache and engine go together. [main], before the step thread exists.
 */
#include "core/loop/instance_life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/cluster/migrate.h"
#include "core/cluster/peer_load.h"
#include "core/cost/cost.h"
#include "core/cost/samples.h"
#include "core/draft/draft_model.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/plugin/loader.h"
#include "core/policy/cache_service.h"
#include "core/policy/compat.h"
#include "core/policy/plan_memory.h"
#include "core/policy/policies.h"
#include "core/record/measure.h"
#include "core/record/persistent_prompts.h"
#include "core/step/disk_tier.h"
#include "core/step/drafts.h"

static int allocate(struct lls_instance *in, uint32_t max_requests)
{
  uint32_t n = in->caps.max_sequences;
  struct lls_step_batch *b = &in->batch;
  struct lls_transaction *t = &in->transaction;
  int rc = 0;
  rc |= lls_request_list_init(&in->waiting, max_requests);
  rc |= lls_request_list_init(&in->running, max_requests);
  rc |= lls_request_list_init(&in->preempted, max_requests);
  rc |= lls_request_list_init(&in->moving, max_requests);
  rc |= lls_request_list_init(&in->reading, max_requests);
  rc |= lls_instance_sessions_init(&in->sessions);
  in->plan.size = sizeof in->plan;
  in->plan.max_items = max_requests + LLS_SESSION_ITEMS;
  in->plan.items = calloc(in->plan.max_items, sizeof *in->plan.items);
  in->alive = calloc(max_requests, sizeof *in->alive);
  t->capacity = max_requests;
  t->done = calloc(max_requests, sizeof *t->done);
  b->live = calloc(n, sizeof(struct lls_live *));
  b->held = calloc(n, sizeof(struct lls_live *));
  b->sequences = calloc(n, sizeof *b->sequences);
  b->tables = calloc(n, sizeof *b->tables);
  b->results = calloc(n, sizeof *b->results);
  b->chunks = calloc(n, sizeof *b->chunks);
  b->decode_context = calloc(n, sizeof *b->decode_context);
  rc |= lls_drafts_init(&b->drafts, in->engine);
  /* Six lists of a view, each with room for all requests. */
  rc |= lls_plan_memory_init(&in->plan_memory, in->plan.max_items, 6 * max_requests,
                             in->topology.n_instances, n);
  rc |= lls_inbox_content_init(&in->content, max_requests);
  bool all = in->plan.items != NULL && in->alive != NULL && t->done != NULL &&
             b->live != NULL && b->held != NULL && b->sequences != NULL &&
             b->tables != NULL && b->results != NULL && b->chunks != NULL &&
             b->decode_context != NULL;
  return rc == 0 && all ? 0 : -ENOMEM;
}

void lls_instance_describe(struct lls_instance *in, const struct lls_loop_options *o,
                           const struct lls_loop_instance *mine, uint32_t index)
{
  LLS_ON_STEP(in);
  uint32_t max_requests = o->max_requests;
  in->engine = mine->engine;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  in->caps = *lls_engine_caps(in->engine);
  in->caps.size = sizeof in->caps;
  in->caps.max_requests = max_requests;
  in->caps.preempt_modes = 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
  if (pool->host_units > 0)
    in->caps.preempt_modes |= 1u << LLS_PREEMPT_SWAP;
  in->drafting.engine = mine->draft_engine;
  in->info = (struct lls_instance_info){.index = index, .role = mine->role};
}

/* Returns how many blocks of group 0 the pool has room for, on the device and the host.
 */
static uint64_t blocks_of(const struct lls_instance *in)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint64_t units = (uint64_t)pool->device_units + pool->host_units;
  return units / in->caps.groups[0]->forms[0].block_units;
}

static int make_draft_model(struct lls_instance *in, uint32_t max_requests)
{
  const struct lls_draft_model_options options = {.engine = in->drafting.engine,
                                                  .slots = max_requests,
                                                  .clock = in->clock,
                                                  .clock_context = in->clock_context};
  if (options.engine == NULL)
    return 0;
  in->drafting.asks = calloc(max_requests, sizeof *in->drafting.asks);
  in->drafting.reads = calloc(in->caps.max_sequences, sizeof *in->drafting.reads);
  if (in->drafting.asks == NULL || in->drafting.reads == NULL)
    return -ENOMEM;
  return lls_draft_model_create(&options, &in->drafting.model);
}

int lls_instance_init(struct lls_instance *in, const struct lls_loop_options *o,
                      struct lls_error *err)
{
  struct lls_compat compat = {0};
  LLS_ON_STEP(in);
  lls_loop_status_bind(&in->status);
  in->policy_stats_ns = LLS_NEVER;
  in->log = o->log;
  in->seed = o->seed + in->info.index * UINT64_C(1000003);
  in->builtin = o->builtin;
  in->model_name = o->model_name != NULL ? strdup(o->model_name) : NULL;
  in->model_folder = o->model_folder != NULL ? strdup(o->model_folder) : NULL;
  in->prompts_folder = o->prompts.folder != NULL ? strdup(o->prompts.folder) : NULL;
  in->prompts_bytes = o->trial ? 0 : o->prompts.most_bytes;
  in->observer = o->observer;
  in->limits = o->limits;
  in->leases = o->leases;
  in->n_eos_tokens = o->n_eos_tokens;
  int rc = lls_cost_model_create(o->cost, &in->cost);
  if (rc == 0)
    rc = lls_step_samples_create(&in->samples);
  if (rc == 0)
    rc = allocate(in, o->max_requests);
  if (rc == 0)
    rc = lls_migrate_init(in, o->max_requests);
  if (rc == 0)
    rc = lls_peer_loads_init(in);
  if (rc == 0)
    rc = make_draft_model(in, o->max_requests);
  in->eos_tokens = malloc((o->n_eos_tokens + 1) * sizeof *in->eos_tokens);
  if (rc < 0 || in->eos_tokens == NULL)
    return lls_fail(err, -ENOMEM,
                    "out of memory for %u requests: lower [engine] max_requests",
                    o->max_requests);
  if (o->n_eos_tokens > 0)
    memcpy(in->eos_tokens, o->eos_tokens, o->n_eos_tokens * sizeof *in->eos_tokens);
  if (o->block_events && !o->trial &&
      (rc = lls_block_events_create(lls_engine_pool_shape(in->engine)->block_tokens,
                                    blocks_of(in), &in->block_events)) < 0)
    return lls_fail(err, rc, "out of memory for [server] kv_events");
  lls_cache_service_init(in);
  rc = lls_policies_prepare(in, &o->policies, &in->policies, err);
  if (rc == 0 && (rc = lls_policies_create(&in->policies, err)) < 0)
    lls_policies_destroy(&in->policies, NULL);
  in->caps.async_transfers =
      rc == 0 && lls_compat_has_transfers(in, &in->policies.cache.module->cache);
  if (rc == 0)
    rc = lls_compat_check(in, &in->policies, &compat, err);
  in->preempt_mode = compat.preempt_mode;
  in->drafting.on = compat.drafts;
  if (rc == 0 && o->cost == NULL && !o->trial &&
      lls_compat_has_hidden_form(&in->policies))
    rc = lls_measure_hidden(in, o->measurements, o->measure_always, err);
  if (rc == 0)
    rc = lls_compat_calibrate(in, &in->policies, err);
  if (rc == 0)
    rc = lls_persistent_prompts_read(in, err);
  if (rc == 0)
    lls_disk_tier_open(in, &o->disk, o->simulated_disk, o->trial);
  if (rc == 0)
    lls_peer_loads_show(in); /* other instances may plan before its first step */
  return rc;
}

void lls_instance_fini(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  lls_disk_tier_close(in);
  lls_policies_destroy(&in->policies, NULL);
  lls_request_list_free(&in->waiting);
  lls_request_list_free(&in->running);
  lls_request_list_free(&in->preempted);
  lls_request_list_free(&in->moving);
  lls_request_list_free(&in->reading);
  lls_instance_sessions_free(&in->sessions);
  lls_plan_memory_free(&in->plan_memory);
  free(in->plan.items);
  free(in->alive);
  free(in->transaction.done);
  free(in->batch.live);
  free(in->batch.held);
  free(in->batch.sequences);
  free(in->batch.tables);
  free(in->batch.results);
  free(in->batch.chunks);
  free(in->batch.decode_context);
  lls_drafts_free(&in->batch.drafts);
  lls_draft_model_destroy(in->drafting.model);
  free(in->drafting.asks);
  free(in->drafting.reads);
  lls_inbox_content_free(&in->content);
  lls_migrate_fini(in);
  lls_peer_loads_fini(in);
  lls_block_events_free(in->block_events);
  free(in->eos_tokens);
  free(in->model_name);
  free(in->model_folder);
  free(in->prompts_folder);
  lls_cost_model_destroy(in->cost);
  lls_step_samples_destroy(in->samples);
}
