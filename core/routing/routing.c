/* SPDX-License-Identifier: Apache-2.0 */
/* The list of models, the timer, and the router's life; see routing.h. */
#include "core/routing/routing_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "core/api/admin/waits.h"
#include "core/base/check.h"
#include "core/base/least.h"

#define TICK_BUSY_MS LLS_ROUTING_SOON_MS
#define TICK_WAIT_MS 100
#define TICK_MAX_MS  1000
#define READ_BYTES   16384 /* of one read, so that a slow client's share stays small */

/* ---- models ------------------------------------------------------------------------ */

/* Writes the model's code: FNV-1a of its name, since ids of earlier starts have it too.
 */
static void make_code(const char *name, char code[LLS_HOSTED_CODE])
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name != '\0'; name++)
    hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  snprintf(code, LLS_HOSTED_CODE, "%012llx",
           (unsigned long long)(hash & UINT64_C(0xffffffffffff)));
}

static struct lls_hosted *make_model(struct lls_routing *routing,
                                     const struct lls_served_model *served)
{
  struct lls_hosted *m = calloc(1, sizeof *m);
  if (m == NULL)
    return NULL;
  m->routing = routing;
  m->name = strdup(served->name);
  m->path = strdup(served->path);
  m->own = served->own;
  if (m->name == NULL || m->path == NULL) {
    lls_hosted_free(m);
    return NULL;
  }
  make_code(m->name, m->code);
  return m;
}

/* Makes the models that the list lacks, in `out`. */
static int make_models(struct lls_routing *routing, const struct lls_config *config,
                       struct lls_hosted **out, struct lls_error *err)
{
  const struct lls_models_section *wanted = &config->models;
  struct lls_hosted *m, *next;
  *out = NULL;
  for (size_t i = 0; i < wanted->n; i++) {
    if (lls_hosted_find(routing, wanted->list[i].name) != NULL)
      continue;
    m = make_model(routing, &wanted->list[i]);
    if (m == NULL) {
      LL_FOREACH_SAFE (*out, m, next)
        lls_hosted_free(m);
      return lls_fail(err, -ENOMEM, "out of memory");
    }
    LL_APPEND(*out, m);
  }
  return 0;
}

static const struct lls_served_model *find_served(const struct lls_config *config,
                                                  const char *name)
{
  for (size_t i = 0; i < config->models.n; i++)
    if (strcmp(config->models.list[i].name, name) == 0)
      return &config->models.list[i];
  return NULL;
}

/* Takes a model out of the list if it is no longer configured and nothing needs it. */
static void drop_removed(struct lls_routing *routing)
{
  struct lls_hosted *m, *next;
  LL_FOREACH_SAFE (routing->models, m, next) {
    bool needed = m->process != NULL || m->waiting != NULL || m->active != NULL;
    if (!m->removed || needed)
      continue;
    LL_DELETE(routing->models, m);
    lls_hosted_free(m);
  }
}

/* ---- the timer --------------------------------------------------------------------- */

static uint64_t tick_of(const struct lls_routing *routing)
{
  const struct lls_api_limits *limits = &routing->config->server.api;
  const struct lls_hosted *m;
  uint64_t tick = TICK_MAX_MS;
  LL_FOREACH (routing->models, m) {
    if (m->state == LLS_HOSTED_LOADING ||
        (m->state == LLS_HOSTED_LOADED && m->waiting != NULL && !m->yields))
      tick = lls_least_u64(tick, TICK_BUSY_MS);
    if (m->waiting != NULL && limits->keep_alive > 0)
      tick = lls_least_u64(tick, (uint64_t)(limits->keep_alive / LLS_NS_PER_MS / 4));
    if (m->waiting != NULL || m->removed || m->yields || m->reloads || m->outdated)
      tick = lls_least_u64(tick, TICK_WAIT_MS);
    if (m->state == LLS_HOSTED_LOADED && !m->own.pinned && m->own.unload_after > 0)
      tick = lls_least_u64(tick, (uint64_t)(m->own.unload_after / LLS_NS_PER_MS / 4));
  }
  return lls_most_u64(tick, TICK_BUSY_MS);
}

static void on_tick(uv_timer_t *timer)
{
  struct lls_routing *routing = timer->data;
  struct lls_hosted *m, *next;
  uint64_t now = uv_now(routing->options.uv);
  LL_FOREACH_SAFE (routing->models, m, next) {
    lls_relay_tick(m, (int64_t)uv_hrtime());
    lls_hosted_tick(m, now);
  }
  lls_routing_make_room(routing);
  lls_routing_watch_memory(routing);
  drop_removed(routing);
  if (!routing->closing)
    uv_timer_start(timer, on_tick, tick_of(routing), 0);
}

/* ---- life -------------------------------------------------------------------------- */

static void on_body_freed(void *context, size_t bytes)
{
  const struct lls_routing *routing = context;
  lls_http_release(routing->api->http, bytes);
}

/* Writes the configuration's file for the processes: what they read is what this process
 * has read, even if the file is changed before they are started. */
static int write_copy(const struct lls_routing *routing, const struct lls_config *config,
                      struct lls_error *err)
{
  int rc = lls_ini_write(&config->ini, routing->copy);
  return rc < 0
             ? lls_fail(err, rc, "%s cannot be written: %s", routing->copy, strerror(-rc))
             : 0;
}

int lls_routing_create(const struct lls_routing_options *options,
                       struct lls_routing **out, struct lls_error *err)
{
  struct lls_routing *routing = calloc(1, sizeof *routing);
  if (routing == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  routing->options = *options;
  routing->config = options->config;
  routing->started_s = (int64_t)time(NULL);
  routing->generation = 1;
  size_t half = (size_t)options->config->server.api.http.max_unsent / 2;
  routing->upstreams.uv = options->uv;
  routing->upstreams.thread = lls_this_thread();
  routing->upstreams.most_read = half < READ_BYTES ? half : READ_BYTES;
  routing->upstreams.freed = on_body_freed;
  routing->upstreams.context = routing;
  snprintf(routing->copy, sizeof routing->copy, "%s/config", options->folder);
  int rc = write_copy(routing, options->config, err);
  if (rc == 0)
    rc = make_models(routing, options->config, &routing->models, err);
  if (rc < 0) {
    free(routing);
    return rc;
  }
  routing->on_tick = on_tick;
  routing->make_room = lls_routing_make_room;
  uv_timer_init(options->uv, &routing->timer);
  routing->timer.data = routing;
  *out = routing;
  return 0;
}

void lls_routing_begin(struct lls_routing *routing, struct lls_api *api)
{
  LLS_ROUTING_ON_MAIN(routing);
  routing->api = api;
  uv_timer_start(&routing->timer, on_tick, 0, 0);
}

/* Gives a model its settings of the new configuration, or marks it as removed. */
static void update(struct lls_hosted *m, const struct lls_config *config)
{
  const struct lls_served_model *served = find_served(config, m->name);
  bool same = served != NULL && strcmp(served->path, m->path) == 0;
  if (same)
    m->own = served->own;
  m->reloads = m->process != NULL;
  m->retry_ms = 0;
  m->removed = m->removed || !same;
}

static void refuse_removed(struct lls_hosted *m)
{
  struct lls_api_error error;
  lls_api_fail(&error, 404, "model_not_found", "model",
               "the model \"%.100s\" was removed from this server's configuration",
               m->name);
  lls_relay_fail_waiting(m, &error);
  if (m->state == LLS_HOSTED_QUEUED || m->state == LLS_HOSTED_LOADING)
    lls_hosted_unload(m, "it is no longer configured");
}

int lls_routing_reconfigure(struct lls_routing *routing, const struct lls_config *config,
                            struct lls_error *err)
{
  struct lls_hosted *m, *next, *added;
  LLS_ROUTING_ON_MAIN(routing);
  int rc = write_copy(routing, config, err);
  if (rc < 0)
    return rc;
  LL_FOREACH (routing->models, m)
    update(m, config);
  rc = make_models(routing, config, &added, err);
  routing->config = config;
  if (rc == 0)
    LL_CONCAT(routing->models, added);
  LL_FOREACH_SAFE (routing->models, m, next) {
    if (m->removed)
      refuse_removed(m);
  }
  lls_routing_tick_soon(routing);
  return rc;
}

void lls_routing_reload_begins(struct lls_routing *routing)
{
  LLS_ROUTING_ON_MAIN(routing);
  routing->reloads_begun++;
}

void lls_routing_reloaded(struct lls_routing *routing, bool good, const char *message)
{
  struct lls_http_exchange *exchange;
  struct lls_api_error error;
  LLS_ROUTING_ON_MAIN(routing);
  routing->generation += good;
  lls_api_fail(&error, 409, "reload_refused", NULL, "%s", message);
  while ((exchange = lls_wait_take(&routing->reload_waits, routing->reloads_begun)) !=
         NULL)
    if (good)
      lls_api_reply_json(exchange, 200,
                         json_pack("{s:s, s:I, s:s}", "status", "reloaded", "generation",
                                   (json_int_t)routing->generation, "message", message));
    else
      lls_api_error_reply(exchange, &error);
}

void lls_routing_drain(struct lls_routing *routing)
{
  struct lls_api_error error;
  struct lls_hosted *m;
  LLS_ROUTING_ON_MAIN(routing);
  routing->draining = true;
  lls_api_fail(&error, 503, "draining", NULL, "the server is being stopped");
  LL_FOREACH (routing->models, m)
    lls_relay_fail_waiting(m, &error);
}

bool lls_routing_is_idle(const struct lls_routing *routing)
{
  LLS_ROUTING_ON_MAIN(routing);
  return routing->n_relays == 0;
}

unsigned lls_routing_processes(const struct lls_routing *routing)
{
  LLS_ROUTING_ON_MAIN(routing);
  return routing->n_processes;
}

void lls_routing_stop(struct lls_routing *routing, bool force)
{
  struct lls_model_process *p;
  struct lls_hosted *m;
  LLS_ROUTING_ON_MAIN(routing);
  LL_FOREACH (routing->models, m)
    lls_hosted_unload(m, "the server is being stopped");
  DL_FOREACH (routing->processes, p) {
    if (force && !uv_is_closing((uv_handle_t *)&p->handle))
      lls_model_process_stop(p, true);
  }
}

static void on_timer_closed(uv_handle_t *handle)
{
  struct lls_routing *routing = handle->data;
  routing->timer_closed = true;
  lls_routing_check(routing);
}

void lls_routing_close(struct lls_routing *routing, void (*closed)(void *context),
                       void *context)
{
  LLS_ROUTING_ON_MAIN(routing);
  routing->closing = true;
  routing->closed = closed;
  routing->closed_context = context;
  uv_close((uv_handle_t *)&routing->timer, on_timer_closed);
}

void lls_routing_destroy(struct lls_routing *routing)
{
  struct lls_hosted *m, *next;
  if (routing == NULL)
    return;
  LLS_ROUTING_ON_MAIN(routing);
  LL_FOREACH_SAFE (routing->models, m, next)
    lls_hosted_free(m);
  free(routing);
}
