/* SPDX-License-Identifier: Apache-2.0 */
/* Stops the server: drains, refuses new connections, then closes libuv's handles; see
 * daemon.h. */
#include <stdlib.h>

#include "core/serve/daemon.h"

/* A connection that the kernel is accepting now arrives after one round trip. */
#define LAST_CALL_LEAST_MS 50
#define LAST_CALL_EVERY_MS 10
#define LAST_CALL_MOST_MS  1000

static void close_handles(struct server *s)
{
  server_give_up_whatif(s);
  uv_close((uv_handle_t *)&s->autopilot.timer, NULL);
  uv_close((uv_handle_t *)&s->wake, NULL);
  uv_close((uv_handle_t *)&s->prepared, NULL);
  uv_close((uv_handle_t *)&s->load.loaded, NULL);
  uv_close((uv_handle_t *)&s->terminate, NULL);
  uv_close((uv_handle_t *)&s->interrupt, NULL);
  uv_close((uv_handle_t *)&s->hangup, NULL);
  uv_close((uv_handle_t *)&s->deadline, NULL);
  uv_close((uv_handle_t *)&s->watchdog, NULL);
  uv_close((uv_handle_t *)&s->look, NULL);
}

static void on_http_closed(void *context)
{
  close_handles(context);
}

/* Closes the server. While the model is being loaded it does nothing, and server_loaded
 * calls it again. */
void server_close(struct server *s)
{
  if (s->closing || s->load.running)
    return;
  s->closing = true;
  if (s->api != NULL)
    lls_api_close(s->api, on_http_closed, s);
  else if (s->http != NULL)
    lls_http_server_close(s->http, on_http_closed, s);
  else
    close_handles(s);
}

void server_fail(struct server *s, const struct lls_error *err, int rc)
{
  lls_log(&s->log, LLS_LOG_ERROR, "server", "%s", lls_error_text(err, rc));
  s->status = EXIT_FAILURE;
  server_close(s);
}

static bool is_done(const struct server *s)
{
  return s->stopping && lls_api_idle(s->api) && lls_loop_idle(s->loop);
}

/* Closes the server once the requests that arrived last were answered (with 503, since
 * it drains), or the time for that is over. */
static void on_last_call(uv_timer_t *timer)
{
  struct server *s = timer->data;
  bool waits = !is_done(s) || lls_http_server_expects(s->http);
  if (!waits || uv_now(&s->uv) >= s->last_call_until_ms)
    server_close(s);
}

void server_close_if_done(struct server *s)
{
  if (!is_done(s) || s->closing || s->last_call_until_ms != 0)
    return;
  s->last_call_until_ms = uv_now(&s->uv) + LAST_CALL_MOST_MS;
  lls_http_server_last_call(s->http);
  lls_api_last_call(s->api);
  uv_timer_start(&s->deadline, on_last_call, LAST_CALL_LEAST_MS, LAST_CALL_EVERY_MS);
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
  if (s->load.running) {
    s->load.given_up = true;
    return;
  }
  lls_api_drain(s->api);
  lls_loop_drain(s->loop);
  uv_timer_start(&s->deadline, on_deadline,
                 (uint64_t)(s->config->server.drain_timeout / 1000000), 0);
  server_close_if_done(s);
}
