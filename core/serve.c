/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon put together: model, device, engine, tokeniser, policies, step loop, HTTP;
 * the signals; and the way down again. Everything here runs on [main].
 *
 *   SIGTERM, SIGINT: drain. No new requests, running ones finish or the deadline passes.
 *
 *   A second one: stop at once, what was running is cut off. Both exit with 0.
 *
 *   Engine failure: requests end with an error, then exit with 1.
 */
#include "core/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/api/api.h"
#include "core/config/config.h"
#include "core/engine/engine.h"
#include "core/loop/loop.h"
#include "core/obs/log.h"
#include "core/template/template.h"
#include "core/tokenizer/tokenizer.h"
#include "kernels/cpu/isa.h"

struct server {
  const struct lls_config *config;
  struct lls_log log;
  struct lls_model_config model;
  struct lls_device *device;
  struct lls_engine *engine;
  struct lls_tokenizer *tokenizer;
  struct lls_chat_template *chat_template;
  struct lls_loop *loop;
  struct lls_api *api;

  uv_loop_t uv;
  uv_async_t wake;
  uv_signal_t terminate, interrupt, hangup;
  uv_timer_t deadline;
  bool stopping;
  bool closing;
  int status; /* the exit status */
};

/* ---- bringing it up ---- */

static void report_progress(void *context, size_t done, size_t total)
{
  struct server *s = context;
  lls_log(&s->log, LLS_LOG_DEBUG, "model", "weights: %zu of %zu MiB", done >> 20,
          total >> 20);
}

static int create_device(struct server *s, struct lls_error *err)
{
  const struct lls_engine_config *e = &s->config->engine;
  struct lls_device_options options = {
      .threads = (uint32_t)e->threads,
      .pin = e->pin,
      .max_rows = (uint32_t)e->max_step_tokens,
      .max_columns = lls_engine_max_columns(&s->model),
      .max_sequences = (uint32_t)e->max_sequences,
      .isa = e->isa == LLS_NEVER ? NULL : lls_isa_name((enum lls_isa)e->isa),
  };
  int rc = lls_cpu_device_create(&options, &s->device, err);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "engine", "isa", "%s",
                           lls_error_text(err, rc));
  char text[256];
  s->device->ops->describe(s->device, text, sizeof text);
  lls_log(&s->log, LLS_LOG_INFO, "device", "%s", text);
  return 0;
}

/* Models in f32 are cached in f32, so that they stay exact; the others in bf16. */
static enum lls_dtype cache_element(const struct server *s)
{
  switch (s->config->cache.element) {
  case LLS_ELEMENT_CHOICE_F32:
    return LLS_F32;
  case LLS_ELEMENT_CHOICE_BF16:
    return LLS_BF16;
  default:
    return s->model.dtype == LLS_F32 ? LLS_F32 : LLS_BF16;
  }
}

static int create_engine(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  struct lls_engine_options options = {
      .model_path = c->model.path,
      .dummy = c->model.load_format == LLS_LOAD_DUMMY,
      .weights = (enum lls_weight_format)c->model.weights,
      .cache_element = cache_element(s),
      .max_tokens = (uint32_t)c->engine.max_step_tokens,
      .max_sequences = (uint32_t)c->engine.max_sequences,
      .max_context = (uint32_t)c->engine.max_context,
      .block_tokens = (uint32_t)c->cache.block_tokens,
      .cache_bytes =
          c->cache.device_memory == LLS_NEVER ? 0 : (size_t)c->cache.device_memory,
      .host_cache_bytes = (size_t)c->cache.host_memory,
      .progress = report_progress,
      .progress_context = s,
  };
  int rc = lls_engine_create(&options, &s->model, s->device, &s->engine, err);
  if (rc < 0)
    return rc;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(s->engine);
  size_t per_token = 2 * lls_unit_bytes(pool) / pool->block_tokens;
  lls_log(&s->log, LLS_LOG_INFO, "engine",
          "weights %zu MiB, cache for %zu tokens in %zu MiB (%u units of %u tokens), "
          "context %u",
          lls_engine_weight_bytes(s->engine) >> 20,
          (size_t)pool->device_units / 2 * pool->block_tokens,
          ((size_t)pool->device_units / 2 * pool->block_tokens * per_token) >> 20,
          pool->device_units, pool->block_tokens,
          lls_engine_caps(s->engine)->max_context);
  return 0;
}

static int load_model(struct server *s, struct lls_error *err)
{
  const char *path = s->config->model.path;
  lls_log(&s->log, LLS_LOG_INFO, "model", "loading %s", path);
  int rc = lls_model_config_read(path, &s->model, err);
  if (rc == 0)
    rc = lls_tokenizer_load(path, &s->tokenizer, err);
  if (rc == 0)
    rc = lls_chat_template_load(path, &s->chat_template, err);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "model", "path", "%s",
                           lls_error_text(err, rc));
  rc = create_device(s, err);
  return rc < 0 ? rc : create_engine(s, err);
}

static void wake_main(void *context)
{
  struct server *s = context;
  uv_async_send(&s->wake);
}

static int create_loop(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  struct lls_loop_options options = {
      .engine = s->engine,
      .scheduler = {c->scheduler.module, c->scheduler.params},
      .cache = {c->cache_manager.module, c->cache_manager.params},
      .predictor = {c->predictor.module, c->predictor.params},
      .max_requests = (uint32_t)c->engine.max_requests,
      .strikes = (uint32_t)c->plugins.strikes,
      .plan_budget_ns = c->plugins.plan_budget,
      .seed = (uint64_t)c->engine.seed,
      .eos_tokens = s->model.eos,
      .n_eos_tokens = s->model.n_eos,
      .log = &s->log,
      .wake = wake_main,
      .wake_context = s,
  };
  int rc = lls_loop_create(&options, &s->loop, err);
  if (rc == 0)
    lls_log(
        &s->log, LLS_LOG_INFO, "plugins", "scheduler %s %s, cache %s %s, predictor %s %s",
        c->scheduler.module->descriptor->id, c->scheduler.module->descriptor->version,
        c->cache_manager.module->descriptor->id,
        c->cache_manager.module->descriptor->version, c->predictor.module->descriptor->id,
        c->predictor.module->descriptor->version);
  return rc;
}

static struct lls_api_limits api_limits(const struct lls_server_config *c)
{
  const int64_t ns_per_ms = LLS_NS_PER_S / 1000;
  return (struct lls_api_limits){
      .http =
          {
              .max_connections = (uint32_t)c->max_connections,
              .max_header_bytes = (size_t)c->max_header,
              .max_body_bytes = (size_t)c->max_body,
              .max_unsent_bytes = (size_t)c->max_unsent,
              .idle_timeout_ms = (uint32_t)(c->idle_timeout / ns_per_ms),
              .read_timeout_ms = (uint32_t)(c->read_timeout / ns_per_ms),
              .write_timeout_ms = (uint32_t)(c->write_timeout / ns_per_ms),
          },
      .max_choices = (uint32_t)c->max_choices,
  };
}

static int create_api(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  struct lls_api_config config = {
      .uv = &s->uv,
      .loop = s->loop,
      .tokenizer = s->tokenizer,
      .chat_template = s->chat_template,
      .model_name = c->server.served_model_name,
      .max_context = lls_engine_caps(s->engine)->max_context,
      .vocab = s->model.vocab,
      .block_tokens = (uint32_t)c->cache.block_tokens,
      .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .banned = -1},
      .limits = api_limits(&c->server),
      .log = &s->log,
  };
  int rc = lls_api_create(&config, &s->api, err);
  if (rc == 0)
    rc = lls_api_listen(s->api, c->server.listen, err);
  return rc < 0 ? lls_config_fail(c, err, rc, "server", "listen", "%s",
                                  lls_error_text(err, rc))
                : 0;
}

/* ---- taking it down ---- */

static void on_api_closed(void *context)
{
  struct server *s = context;
  uv_close((uv_handle_t *)&s->wake, NULL);
  uv_close((uv_handle_t *)&s->terminate, NULL);
  uv_close((uv_handle_t *)&s->interrupt, NULL);
  uv_close((uv_handle_t *)&s->hangup, NULL);
  uv_close((uv_handle_t *)&s->deadline, NULL);
}

static void close_now(struct server *s)
{
  if (s->closing)
    return;
  s->closing = true;
  lls_api_close(s->api, on_api_closed, s);
}

static void close_if_done(struct server *s)
{
  if (s->stopping && lls_api_idle(s->api) && lls_loop_idle(s->loop))
    close_now(s);
}

static void on_deadline(uv_timer_t *timer)
{
  struct server *s = timer->data;
  lls_log(&s->log, LLS_LOG_WARNING, "server",
          "drain_timeout passed: cutting off what still runs");
  close_now(s);
}

static void drain(struct server *s)
{
  s->stopping = true;
  lls_api_drain(s->api);
  lls_loop_drain(s->loop);
  uv_timer_start(&s->deadline, on_deadline,
                 (uint64_t)(s->config->server.drain_timeout / 1000000), 0);
  close_if_done(s);
}

static void on_stop_signal(uv_signal_t *handle, int signal)
{
  struct server *s = handle->data;
  if (s->stopping) {
    lls_log(&s->log, LLS_LOG_WARNING, "server", "second signal: stopping at once");
    close_now(s);
    return;
  }
  lls_log(&s->log, LLS_LOG_INFO, "server", "%s: finishing what runs, at most %lld s",
          signal == SIGINT ? "SIGINT" : "SIGTERM",
          (long long)(s->config->server.drain_timeout / LLS_NS_PER_S));
  drain(s);
}

static void on_hangup(uv_signal_t *handle, int signal)
{
  (void)signal;
  struct server *s = handle->data;
  lls_log(&s->log, LLS_LOG_WARNING, "server",
          "SIGHUP ignored: this version changes its configuration by a restart only");
}

static void on_wake(uv_async_t *handle)
{
  struct server *s = handle->data;
  struct lls_error why = {0};
  lls_api_on_wake(s->api);
  if (!s->stopping && lls_loop_failed(s->loop, &why)) {
    lls_log(&s->log, LLS_LOG_ERROR, "server", "the engine failed, stopping: %s",
            why.text);
    s->status = EXIT_FAILURE;
    drain(s);
  }
  close_if_done(s);
}

/* ---- the whole ---- */

static void start_handles(struct server *s)
{
  uv_loop_init(&s->uv);
  uv_async_init(&s->uv, &s->wake, on_wake);
  uv_timer_init(&s->uv, &s->deadline);
  uv_signal_init(&s->uv, &s->terminate);
  uv_signal_init(&s->uv, &s->interrupt);
  uv_signal_init(&s->uv, &s->hangup);
  s->wake.data = s->deadline.data = s;
  s->terminate.data = s->interrupt.data = s->hangup.data = s;
  uv_signal_start(&s->terminate, on_stop_signal, SIGTERM);
  uv_signal_start(&s->interrupt, on_stop_signal, SIGINT);
  uv_signal_start(&s->hangup, on_hangup, SIGHUP);
}

static void destroy(struct server *s)
{
  lls_loop_destroy(s->loop);
  lls_api_destroy(s->api);
  lls_engine_destroy(s->engine);
  if (s->device != NULL)
    s->device->ops->destroy(s->device);
  lls_chat_template_free(s->chat_template);
  lls_tokenizer_free(s->tokenizer);
}

static int start(struct server *s, struct lls_error *err)
{
  int rc = load_model(s, err);
  if (rc == 0)
    rc = create_loop(s, err);
  if (rc == 0)
    rc = create_api(s, err);
  return rc;
}

int lls_serve(const struct lls_config *config)
{
  struct server s = {
      .config = config,
      .log = {.fd = 2,
              .level = (uint32_t)config->server.log_level,
              .format = (uint32_t)config->server.log_format},
      .status = EXIT_SUCCESS,
  };
  struct lls_error err = {0};
  signal(SIGPIPE, SIG_IGN); /* a client that went away is an error code, not a signal */
  start_handles(&s);
  int rc = start(&s, &err);
  if (rc < 0) {
    lls_log(&s.log, LLS_LOG_ERROR, "server", "%s", lls_error_text(&err, rc));
    s.status = EXIT_FAILURE;
    if (s.api != NULL)
      close_now(&s);
    else
      on_api_closed(&s);
  } else {
    lls_log(&s.log, LLS_LOG_INFO, "server", "listening on http://%s",
            lls_api_address(s.api));
  }
  uv_run(&s.uv, UV_RUN_DEFAULT);
  destroy(&s);
  uv_loop_close(&s.uv);
  return s.status;
}
