/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device and an engine for each instance. Instances on the CPU divide its cores among
 * them and share the weights, which are read-only.
 */
#include <sched.h>
#include <string.h>

#include "core/assembly/options.h"
#include "core/base/text.h"
#include "core/ranks/ranks.h"
#include "core/serve/daemon.h"

/* Returns "instance 1: ", or "" if there is only one. */
static const char *prefix(const struct server *s, uint32_t i, char text[32])
{
  text[0] = '\0';
  if (s->instances.n > 1)
    snprintf(text, 32, "instance %u (%s): ", i, lls_role_name(s->instances.role[i]));
  return text;
}

static void log_device(struct server *s, uint32_t i, const char *whose,
                       struct lls_device *device)
{
  char text[256], before[32];
  device->ops->describe(device, text, sizeof text);
  lls_log(&s->log, LLS_LOG_INFO, "device", "%s%s%s", prefix(s, i, before), whose, text);
}

static int create_device(struct server *s, uint32_t i, struct lls_error *err)
{
  struct lls_device_options options = lls_device_options_of(s->config, &s->model);
  options.ranks = s->ranks;
  options.shares = s->channel != NULL ? s->channel->local_n : s->instances.n;
  options.index = s->instances.gpu[i];
  if (s->channel != NULL && s->config->engine.gpus[0] == '\0')
    options.index = s->channel->local_rank;
  enum lls_device_choice choice = lls_device_choice_of(s->config, &s->model);
  struct lls_error why_not = {""};
  /* the first instance's kind of device */
  if (i > 0 && choice == LLS_DEVICE_AUTO && s->devices[0] != NULL)
    choice = s->devices[0]->is_host ? LLS_DEVICE_CPU : LLS_DEVICE_CUDA;
  int rc = lls_device_create(choice, s->builtin, &options, &s->devices[i], &why_not, err);
  if (rc < 0 && s->ranks != NULL)
    lls_ranks_fail(s->ranks, lls_error_text(err, rc));
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "engine",
                           choice == LLS_DEVICE_CUDA ? "device" : "isa", "%s",
                           lls_error_text(err, rc));
  rc = server_check_memory(s, s->config, s->devices[i], err);
  if (rc < 0 && s->ranks != NULL)
    lls_ranks_fail(s->ranks, lls_error_text(err, rc));
  if (rc < 0)
    return rc;
  if (why_not.text[0] != '\0')
    lls_log(&s->log, LLS_LOG_DEBUG, "device", "not on a GPU: %s", why_not.text);
  log_device(s, i, "", s->devices[i]);
  return 0;
}

/* Creates the device of the draft model, if there is one. The instance's device may have
 * pinned this thread to a core, so the second one gets the instance's cores first. */
static int create_draft_device(struct server *s, uint32_t i, const cpu_set_t *cores,
                               struct lls_error *err)
{
  if (!server_has_draft_model(s))
    return 0;
  sched_setaffinity(0, sizeof *cores, cores); /* on failure only speed is lost */
  int rc = server_create_draft_device(s, i, err);
  if (rc == 0 && s->draft.devices[i] != NULL)
    log_device(s, i, "draft model: ", s->draft.devices[i]);
  return rc;
}

/* Creates the devices while this thread is limited to the instance's cores, which their
 * threads inherit; this thread then gets all cores back. */
static int create_devices_on_its_cores(struct server *s, uint32_t i,
                                       struct lls_error *err)
{
  cpu_set_t all, own;
  bool divide = s->instances.n > 1 && s->channel == NULL &&
                sched_getaffinity(0, sizeof all, &all) == 0;
  if (divide)
    lls_cores_take(i, s->instances.n);
  sched_getaffinity(0, sizeof own, &own);
  int rc = create_device(s, i, err);
  if (rc == 0)
    rc = create_draft_device(s, i, &own, err);
  if (divide)
    sched_setaffinity(0, sizeof all, &all);
  return rc;
}

/* Logs what is cached of a token and of a sequence, and how long if layers have windows.
 */
static void log_groups(struct server *s)
{
  struct lls_text text = {0};
  lls_engine_describe_cache(s->engines[0], lls_engine_caps(s->engines[0])->max_context,
                            &text);
  if (!s->model.encoder && !text.failed)
    lls_log(&s->log, LLS_LOG_INFO, "engine", "cache: %s", text.data);
  lls_text_free(&text);
  uint32_t window = lls_widest_window(&s->model), n = 0;
  const struct lls_plugin_module *cache = s->config->policies.cache.module;
  for (uint32_t i = 0; i < s->model.layers; i++)
    n += s->model.layer[i].window > 0;
  if (window > 0)
    lls_log(&s->log, LLS_LOG_INFO, "engine",
            "every layer has a window of at most %u tokens: cache %s %s", window,
            cache->descriptor->id,
            lls_cache_keeps(&cache->cache, LLS_GROUP_WINDOW)
                ? "gives back the blocks before it"
                : "keeps the blocks before it all the same");
  else if (n > 0 && lls_engine_caps(s->engines[0])->n_groups == 1)
    lls_log(&s->log, LLS_LOG_INFO, "engine",
            "%u of %u layers have a window and the others attend to all tokens: cache %s "
            "frees no block before its sequence ends, since it keeps all layers "
            "together; paged, tiered and bidirectional free those of the windows",
            n, s->model.layers, cache->descriptor->id);
}

/* The progress callback of the weight loader: returns false to stop loading. */
static bool note_progress(void *context, size_t done, size_t total)
{
  struct server *s = context;
  lls_log(&s->log, LLS_LOG_DEBUG, "model", "weights: %zu of %zu MiB", done >> 20,
          total >> 20);
  lls_progress_weights(&s->load.progress, done, total);
  s->load.done = done;
  s->load.total = total;
  return !s->load.given_up;
}

/* Writes what these units hold: tokens, or states where all layers keep one. */
static const char *describe_room(const struct lls_pool_shape *pool, uint32_t units,
                                 char text[32])
{
  if (lls_group_is_state(pool, 0))
    snprintf(text, 32, "%u states", units / lls_group_units(pool, 0, LLS_FORM_STATE));
  else
    snprintf(text, 32, "%zu tokens", lls_pool_tokens(pool, units));
  return text;
}

static int create_engine(struct server *s, uint32_t i, struct lls_error *err)
{
  struct lls_engine_options options = lls_engine_options_of(s->config, &s->model);
  options.ranks = s->ranks;
  options.weights_of = i > 0 ? s->engines[0] : NULL;
  options.progress = server_follows(s) ? NULL : note_progress;
  options.progress_context = s;
  options.instances = s->instances.n;
  server_leave_room_for_draft(s, i, &options);
  if (s->draft.heads && s->draft.eagle) {
    memcpy(options.kept_layers, s->draft.model.eagle.layers, sizeof options.kept_layers);
    options.n_kept_layers = LLS_EAGLE_LAYERS;
  }
  int rc = lls_engine_create(&options, &s->model, s->devices[i], &s->engines[i], err);
  if (rc < 0)
    return rc;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(s->engines[i]);
  char before[32], room[32];
  lls_log(&s->log, LLS_LOG_INFO, "engine",
          "%s%sweights %zu MiB, cache for %s in %zu MiB (%u units, blocks of %u "
          "tokens), "
          "context %u; cache size: %s",
          prefix(s, i, before), s->ranks != NULL ? "of each rank: " : "",
          lls_engine_weight_bytes(s->engines[i]) >> 20,
          describe_room(pool, pool->device_units, room),
          (pool->device_units * lls_unit_bytes(pool)) >> 20, pool->device_units,
          pool->block_tokens, lls_engine_caps(s->engines[i])->max_context,
          lls_engine_pool_reason(s->engines[i]));
  if (pool->host_units > 0)
    lls_log(&s->log, LLS_LOG_INFO, "engine", "%shost memory for %s in %zu MiB: %s",
            prefix(s, i, before), describe_room(pool, pool->host_units, room),
            (pool->host_units * lls_unit_bytes(pool)) >> 20,
            lls_engine_host_reason(s->engines[i]));
  char line[256];
  const struct lls_device_ops *ops = s->devices[i]->ops;
  for (uint32_t k = 0;
       ops->chosen != NULL && ops->chosen(s->devices[i], k, line, sizeof line); k++)
    lls_log(&s->log, LLS_LOG_DEBUG, "device", "%s%s", prefix(s, i, before), line);
  if (i == 0) { /* logged for the first only, since all are alike */
    log_groups(s);
    server_log_warnings(s);
  }
  const char *why = lls_engine_why_no_hidden(s->engines[i]);
  if (why != NULL && i == 0)
    lls_log(&s->log, LLS_LOG_DEBUG, "engine", "no hidden cache form: %s", why);
  return 0;
}

int server_create_instances(struct server *s, struct lls_error *err)
{
  int rc = 0;
  for (uint32_t i = 0; i < s->instances.n && rc == 0; i++) {
    if (!server_has_instance(s, i))
      continue;
    rc = create_devices_on_its_cores(s, i, err);
    if (rc == 0 && !s->draft.heads)
      rc = server_create_draft_model(s, i, err);
    if (rc == 0)
      rc = create_engine(s, i, err);
    if (rc == 0 && s->draft.heads) /* they use the engine's weights */
      rc = server_create_draft_model(s, i, err);
  }
  return rc;
}

/* [step] Moves a step thread that computes itself to its instance's cores. */
static void take_cores(void *context, uint32_t index)
{
  const struct server *s = context;
  if (s->devices[index]->is_host)
    lls_cores_take(index, s->instances.n);
}

void server_list_instances(struct server *s, struct lls_loop_instance *out)
{
  bool divides = s->instances.n > 1 && s->channel == NULL;
  for (uint32_t i = 0; i < s->instances.n; i++)
    out[i] = (struct lls_loop_instance){.engine = s->engines[i],
                                        .role = s->instances.role[i],
                                        .draft_engine = s->draft.engines[i],
                                        .begin = divides ? take_cores : NULL,
                                        .begin_context = s};
}

void server_destroy_instances(struct server *s)
{
  server_destroy_draft_models(s);
  /* last first, since the first owns the weights */
  for (uint32_t i = LLS_MAX_INSTANCES; i-- > 0;) {
    lls_engine_destroy(s->engines[i]);
    if (s->devices[i] != NULL)
      s->devices[i]->ops->destroy(s->devices[i]);
  }
}
