/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer of the API. A stream without events for keep_alive gets a comment, so that
 * proxies between do not take it for dead. A request over request_timeout ends. Kept
 * lines of the log are written again, and connections refused over the limit are logged.
 */
#include <utlist.h>

#include "core/api/generation.h"
#include "core/api/reply.h"
#include "core/api/responses/detached.h"
#include "core/api/store/shared_usage.h"
#include "core/api/store/store_front.h"
#include "core/traces/exporter.h"

#define TICK_MIN_MS 20
#define TICK_MAX_MS 1000

static bool is_overdue(const struct lls_generation *generation, int64_t now_ns)
{
  int64_t most_ns = generation->api->config.limits.request_timeout;
  return most_ns > 0 && now_ns - generation->arrival_ns >= most_ns;
}

static bool is_silent(const struct lls_generation *generation, int64_t now_ns)
{
  int64_t most_ns = generation->api->config.limits.keep_alive;
  return most_ns > 0 && generation->params.stream &&
         now_ns - generation->sent_ns >= most_ns;
}

static void end_overdue(struct lls_generation *generation)
{
  struct lls_api_error error;
  lls_api_fail(
      &error, 504, "timeout", NULL,
      "the request took more than the %lld ms that this server allows",
      (long long)(generation->api->config.limits.request_timeout / LLS_NS_PER_MS));
  lls_reply_error(generation, &error);
  lls_generation_cancel(generation);
}

static uint64_t earlier(uint64_t tick_ms, int64_t limit_ns)
{
  uint64_t limit_ms = (uint64_t)(limit_ns / LLS_NS_PER_MS);
  return limit_ms > 0 && limit_ms / 4 < tick_ms ? limit_ms / 4 : tick_ms;
}

static uint64_t tick_of(const struct lls_api_limits *limits)
{
  uint64_t tick_ms = earlier(TICK_MAX_MS, limits->keep_alive);
  tick_ms = earlier(tick_ms, limits->request_timeout);
  return tick_ms < TICK_MIN_MS ? TICK_MIN_MS : tick_ms;
}

static void on_tick(uv_timer_t *timer)
{
  struct lls_api *api = timer->data;
  struct lls_generation *generation, *next;
  int64_t now_ns = (int64_t)uv_hrtime();
  LLS_API_ON_MAIN(api);
  bool soon = lls_log_flush(api->config.log);
  uv_timer_set_repeat(timer, soon ? TICK_MIN_MS : tick_of(&api->config.limits));
  lls_store_front_tick(api);
  lls_shared_usage_tick(api);
  lls_viewers_tick(api, now_ns);
  lls_held_refusals_tick(api, now_ns);
  lls_kv_events_tick(api);
  if (api->config.traces != NULL)
    lls_exporter_tick(api->config.traces, now_ns);
  lls_background_tick(api, now_ns);
  lls_access_log_crowd(&api->access_log, api->config.log,
                       lls_http_server_counters(api->http)->refused,
                       api->config.limits.http.max_connections);
  DL_FOREACH_SAFE (api->generations, generation, next) {
    if (generation->exchange == NULL)
      continue;
    if (is_overdue(generation, now_ns))
      end_overdue(generation);
    else if (is_silent(generation, now_ns))
      lls_reply_silence(generation);
  }
}

void lls_api_set_timer(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  uint64_t tick_ms = tick_of(&api->config.limits);
  if (!api->has_timer)
    uv_timer_init(api->config.uv, &api->timer);
  api->has_timer = true;
  api->timer.data = api;
  uv_timer_start(&api->timer, on_tick, tick_ms, tick_ms);
}
