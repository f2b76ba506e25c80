/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /health and /ready: 200 while new requests are taken, 503 otherwise; the body says
 * why. /live: 200 as long as the process should not be killed for a new one.
 */
#include "core/api/internal.h"

/* The plugin fell out of favour: served, but not as configured. */
static json_t *fallback_json(const struct lls_loop_status *status)
{
  return status->fallen_back ? json_string(status->fallback_reason) : json_null();
}

void lls_handle_live(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  bool failed = lls_loop_failed(api->config.loop, NULL);
  lls_api_reply_json(exchange, failed ? 503 : 200,
                     json_pack("{s:s}", "status", failed ? "failed" : "ok"));
}

void lls_handle_ready(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error;
  if (lls_api_check_open(api, &error) == 0)
    lls_api_reply_json(exchange, 200, json_pack("{s:s}", "status", "ok"));
  else
    lls_api_error_reply(exchange, &error);
}

void lls_handle_health(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_loop_status status;
  struct lls_error why = {0};
  bool failed = lls_loop_failed(api->config.loop, &why);
  lls_loop_status(api->config.loop, &status);
  const char *state = failed ? "failed" : api->draining ? "draining" : "ok";
  json_t *body = json_pack("{s:s, s:s, s:o, s:s?}", "status", state, "model",
                           api->model_name, "scheduler_fallback", fallback_json(&status),
                           "error", failed ? why.text : NULL);
  lls_api_reply_json(exchange, failed || api->draining ? 503 : 200, body);
}
