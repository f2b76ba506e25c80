/* SPDX-License-Identifier: Apache-2.0 */
/* The way down: drain, then close what libuv has open; see server.h. */
#include "core/serve/server.h"

void server_close_handles(struct server *s)
{
  uv_close((uv_handle_t *)&s->wake, NULL);
  uv_close((uv_handle_t *)&s->terminate, NULL);
  uv_close((uv_handle_t *)&s->interrupt, NULL);
  uv_close((uv_handle_t *)&s->hangup, NULL);
  uv_close((uv_handle_t *)&s->deadline, NULL);
  uv_close((uv_handle_t *)&s->watchdog, NULL);
}

static void on_api_closed(void *context)
{
  server_close_handles(context);
}

void server_close(struct server *s)
{
  if (s->closing)
    return;
  s->closing = true;
  lls_api_close(s->api, on_api_closed, s);
}

void server_close_if_done(struct server *s)
{
  if (s->stopping && lls_api_idle(s->api) && lls_loop_idle(s->loop))
    server_close(s);
}

static void on_deadline(uv_timer_t *timer)
{
  struct server *s = timer->data;
  lls_log(&s->log, LLS_LOG_WARNING, "server",
          "drain_timeout passed: cutting off what still runs");
  server_close(s);
}

void server_drain(struct server *s)
{
  s->stopping = true;
  server_stopping();
  lls_api_drain(s->api);
  lls_loop_drain(s->loop);
  uv_timer_start(&s->deadline, on_deadline,
                 (uint64_t)(s->config->server.drain_timeout / 1000000), 0);
  server_close_if_done(s);
}
