/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up an instance for a test; see harness.h. */
#include "t/harness.h"

#include "core/model/architecture.h"
#include "core/model/heads.h"
#include "kernels/cpu/device.h"
#include "kernels/builtin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *source(const char *relative, char *buffer, size_t size)
{
  const char *root = getenv("LLS_SRCDIR");
  if (relative[0] == '/')
    root = "";
  snprintf(buffer, size, "%s/%s", root != NULL ? root : ".", relative);
  return buffer;
}

struct lls_cost_rates harness_rates(const char *model, double host_gigabytes_per_s)
{
  const struct lls_profile p = {
      .device = {.bandwidth = 10, .matrix = 1},
      .host_link = {.bandwidth = host_gigabytes_per_s, .latency = 1000},
      .efficiency = {1, 1, 1, 1, 1, 1, 1, 0, 0},
      .overhead = {.step = 5000000, .row = 50000}};
  char path[4096];
  struct lls_model_config config;
  struct lls_cost_shape shape;
  struct lls_cost_rates rates = {0};
  if (lls_model_config_read(source(model, path, sizeof path), &config, NULL) == 0) {
    lls_cost_shape_init(&shape, &config, 2, 2, 1);
    lls_cost_rates_init(&rates, &p, &shape);
  }
  return rates;
}

static int create_device(struct harness *h, const struct harness_options *o, uint32_t i,
                         struct lls_error *err)
{
  if (o->sim != NULL)
    return lls_sim_device_create(o->sim, &h->devices[i], err);
  struct lls_device_options device = {
      .threads = o->threads > 0 ? o->threads : 1,
      .max_rows = o->max_tokens,
      .max_columns = lls_engine_max_columns(&h->config),
      .max_sequences = o->max_sequences,
      .numbers = o->element,
  };
  return o->create_device != NULL ? o->create_device(&device, &h->devices[i], err)
                                  : lls_cpu_device_create(&device, &h->devices[i], err);
}

static int create_engine(struct harness *h, const struct harness_options *o, uint32_t i,
                         struct lls_error *err)
{
  char path[4096];
  source(o->model, path, sizeof path);
  int rc = create_device(h, o, i, err);
  if (rc < 0)
    return rc;
  struct lls_pool_shape unit = {
      .layers = h->config.layers,
      .kv_heads = h->config.kv_heads,
      .head_dim = h->config.head_dim,
      .block_tokens = o->block_tokens,
      .element = o->element,
      .int8 = o->int8,
  };
  size_t half = lls_form_units(&unit, LLS_FORM_KV) * lls_unit_bytes(&unit) / 2;
  struct lls_engine_options engine = {
      .model_path = path,
      .dummy = o->dummy,
      .weights = o->weights,
      .cache_element = o->element,
      .max_tokens = o->max_tokens,
      .max_sequences = o->max_sequences,
      .max_context = o->max_context,
      .max_drafts = o->max_drafts,
      .groups = o->groups ? lls_cache_groups(&h->cache.module->cache) : 0,
      .gives_back =
          o->groups && lls_cache_keeps(&h->cache.module->cache, LLS_GROUP_WINDOW),
      .keeps_states =
          o->groups && lls_cache_keeps(&h->cache.module->cache, LLS_GROUP_STATE),
      .block_tokens = o->block_tokens,
      .cache_bytes = o->device_units * half,
      .pool.host_memory = (int64_t)(o->host_units * half),
      .pool.int8 = o->int8,
      .no_hidden = o->no_hidden,
      .kv_only = o->kv_only,
      .clock = o->sim != NULL ? lls_sim_now : o->clock,
      .clock_context = o->clock != NULL ? o->clock_context : h->devices[i],
      .weights_of = h->engines[0],
  };
  if (o->heads && o->draft_model != NULL) { /* EAGLE-3 */
    memcpy(engine.kept_layers, h->draft_config.eagle.layers, sizeof engine.kept_layers);
    engine.n_kept_layers = LLS_EAGLE_LAYERS;
  }
  return lls_engine_create(&engine, &h->config, h->devices[i], &h->engines[i], err);
}

static int read_draft(struct harness *h, const struct harness_options *o,
                      struct lls_error *err)
{
  char path[4096];
  if (o->draft_model == NULL && !o->heads)
    return 0;
  source(o->draft_model != NULL ? o->draft_model : o->model, path, sizeof path);
  if (!o->heads)
    return lls_model_config_read(path, &h->draft_config, err);
  return o->draft_model != NULL
             ? lls_eagle_config_read(path, &h->config, &h->draft_config, err)
             : lls_heads_config_read(path, o->dummy, &h->config, &h->draft_config, err);
}

/* Creates the draft model of an instance, on a device of its own. */
static int create_draft(struct harness *h, const struct harness_options *o, uint32_t i,
                        struct lls_error *err)
{
  char path[4096];
  if (o->draft_model == NULL && !o->heads)
    return 0;
  source(o->draft_model != NULL ? o->draft_model : o->model, path, sizeof path);
  int rc = 0;
  struct lls_device_options device = {
      .threads = 1,
      .max_rows = o->draft_rows,
      .max_columns = lls_engine_max_columns(&h->draft_config),
      .max_sequences = o->max_sequences,
      .numbers = o->element,
  };
  if (rc == 0)
    rc = o->create_device != NULL
             ? o->create_device(&device, &h->draft_devices[i], err)
             : lls_cpu_device_create(&device, &h->draft_devices[i], err);
  struct lls_pool_shape unit = {
      .layers = h->draft_config.layers,
      .kv_heads = h->draft_config.kv_heads,
      .head_dim = h->draft_config.head_dim,
      .block_tokens = o->block_tokens,
      .element = o->element,
  };
  const struct lls_engine_options engine = {
      .model_path = path,
      .dummy = o->dummy,
      .weights = o->heads ? o->weights : LLS_WEIGHTS_AUTO,
      .ends_of = o->heads ? h->engines[i] : NULL,
      .weights_of = o->heads && i > 0 ? h->draft_engines[0] : NULL,
      .cache_element = o->element,
      .max_tokens = o->draft_rows,
      .max_sequences = o->max_sequences,
      .max_context = o->max_context,
      .block_tokens = o->block_tokens,
      .cache_bytes = o->draft_blocks * lls_form_bytes(&unit, LLS_FORM_KV),
      .no_hidden = true,
  };
  return rc < 0 ? rc
                : lls_engine_create(&engine, &h->draft_config, h->draft_devices[i],
                                    &h->draft_engines[i], err);
}

static int create_instance(struct harness *h, const struct harness_options *o, uint32_t i,
                           struct lls_error *err)
{
  int rc = read_draft(h, o, err);
  if (rc == 0 && !o->heads)
    rc = create_draft(h, o, i, err);
  if (rc == 0)
    rc = create_engine(h, o, i, err);
  return rc == 0 && o->heads ? create_draft(h, o, i, err) : rc;
}

static int create_engines(struct harness *h, const struct harness_options *o,
                          struct lls_error *err)
{
  char path[4096];
  int rc = lls_model_config_read(source(o->model, path, sizeof path), &h->config, err);
  if (rc == 0 && o->window > 0)
    lls_config_window(&h->config, o->window);
  for (uint32_t i = 0; i < (o->instances > 0 ? o->instances : 1) && rc == 0; i++)
    rc = create_instance(h, o, i, err);
  h->device = h->devices[0];
  h->engine = h->engines[0];
  return rc;
}

static void no_wake(void *context)
{
  (void)context;
}

static int create_loop(struct harness *h, const struct harness_options *o,
                       struct lls_error *err)
{
  struct lls_loop_instance instances[HARNESS_INSTANCES];
  uint32_t n = o->instances > 0 ? o->instances : 1;
  for (uint32_t i = 0; i < n; i++)
    instances[i] = (struct lls_loop_instance){
        .engine = h->engines[i],
        .role = o->instances > 0 ? o->roles[i] : LLS_ROLE_MIXED,
        .draft_engine = h->draft_engines[i],
        .clock_context = o->instances > 0 ? h->devices[i] : NULL};
  struct lls_loop_options options = {
      .builtin = &lls_builtin_devices,
      .instances = instances,
      .n_instances = n,
      .policies = {.scheduler = {h->scheduler.module, h->scheduler.params},
                   .cache = {h->cache.module, h->cache.params},
                   .predictor = {h->predictor.module, h->predictor.params},
                   .drafter = {h->drafter.module, h->drafter.params}},
      .max_requests = o->max_requests,
      .leases = o->leases,
      .block_events = o->block_events,
      .limits = {.strikes = o->strikes > 0 ? o->strikes : 10,
                 .jump_ahead = !o->no_jump,
                 .draft_budget = o->draft_budget,
                 .mask_work = o->mask_work},
      .seed = o->seed,
      .eos_tokens = h->config.eos,
      .n_eos_tokens = h->config.n_eos,
      .cost = o->cost,
      .measurements = o->measurements,
      .measure_always = o->measure_always,
      .log = &h->log,
      .wake = no_wake,
      .manual = !o->threaded,
      .observer = o->observer,
      .clock = o->sim != NULL ? lls_sim_now : o->clock,
      .plan_clock = o->sim != NULL && !o->time_plans ? lls_sim_now : NULL,
      .clock_context = o->clock != NULL ? o->clock_context : h->device,
  };
  if (o->replace != NULL)
    o->replace(o->replace_context, &options.policies);
  return lls_loop_create(&options, &h->loop, err);
}

int harness_open(struct harness *h, const struct harness_options *o,
                 struct lls_error *err)
{
  *h = (struct harness){.log = {.fd = 2, .level = o->log_level, .format = LLS_LOG_TEXT}};
  static const struct harness_policy none = {"none", NULL};
  int rc = policy_load(LLS_KIND_SCHEDULER, &o->scheduler, &h->scheduler, err);
  if (rc == 0)
    rc = policy_load(LLS_KIND_CACHE, &o->cache, &h->cache, err);
  if (rc == 0)
    rc = policy_load(LLS_KIND_PREDICTOR, &o->predictor, &h->predictor, err);
  if (rc == 0)
    rc = policy_load(LLS_KIND_DRAFTER, o->drafter.name != NULL ? &o->drafter : &none,
                     &h->drafter, err);
  if (rc == 0)
    rc = create_engines(h, o, err);
  if (rc == 0)
    rc = create_loop(h, o, err);
  if (rc < 0)
    harness_close(h);
  return rc;
}

void harness_close(struct harness *h)
{
  lls_loop_destroy(h->loop);
  /* backwards: the first instance has the weights, so it is closed last */
  for (uint32_t i = HARNESS_INSTANCES; i-- > 0;) {
    lls_engine_destroy(h->engines[i]);
    if (h->devices[i] != NULL)
      h->devices[i]->ops->destroy(h->devices[i]);
    lls_engine_destroy(h->draft_engines[i]);
    if (h->draft_devices[i] != NULL)
      h->draft_devices[i]->ops->destroy(h->draft_devices[i]);
  }
  policy_unload(&h->scheduler);
  policy_unload(&h->cache);
  policy_unload(&h->predictor);
  policy_unload(&h->drafter);
  *h = (struct harness){0};
}

struct lls_submission harness_submission(const int32_t *tokens, uint32_t n_tokens,
                                         uint32_t max_new_tokens, void *owner)
{
  return (struct lls_submission){
      .tokens = tokens,
      .n_tokens = n_tokens,
      .max_new_tokens = max_new_tokens,
      .ignore_eos = true,
      .sampling = {.top_p = 1, .repetition_penalty = 1},
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER},
      .owner = owner,
  };
}
