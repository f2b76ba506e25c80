/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health endpoints, for load balancers and orchestrators. GET /health: 200 while
 * new requests are accepted, else 503; the body says why, and says "degraded" if some
 * instances are down. GET /ready: 200 if new requests are accepted and answered; 503
 * also while the last instance of its kind, or a rank that a step waits for, sends no
 * messages. GET /live: 503 if the process should be killed and restarted, because its
 * engine has failed or a plugin hangs, else 200. A silent instance or rank does not
 * count there: it may recover, and otherwise the process ends by itself after
 * rank_timeout.
 */
#include "core/api/api_internal.h"

/* Returns why a plugin was replaced by its fallback, or null: requests are served, but
 * not as configured. */
static json_t *fallback_json(const struct lls_loop_status *status)
{
  return status->fallen_back ? json_string(status->fallback_reason) : json_null();
}

/* Returns "failed" or "hangs" with the reason in *why, or NULL if all is well. */
static const char *trouble(const struct lls_api *api, struct lls_error *why)
{
  if (lls_loop_failed(api->config.loop, why))
    return "failed";
  return lls_loop_hangs(api->config.loop, why) ? "hangs" : NULL;
}

void lls_handle_live(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct lls_error why = {0};
  const char *state = trouble(api, &why);
  lls_api_reply_json(exchange, state != NULL ? 503 : 200,
                     json_pack("{s:s, s:s*}", "status", state != NULL ? state : "ok",
                               "error", state != NULL ? why.text : NULL));
}

void lls_handle_ready(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error;
  struct lls_error why = {0};
  int rc = lls_api_check_open(api, &error);
  if (rc == 0 && !lls_loop_answers(api->config.loop, &why)) {
    rc = lls_api_fail(&error, 503, "instance_silent", NULL, "%s", why.text);
    error.retry_after = 1;
  }
  if (rc == 0)
    lls_api_reply_json(exchange, 200, json_pack("{s:s}", "status", "ok"));
  else
    lls_api_error_reply(exchange, &error);
}

void lls_handle_health(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_loop_status status;
  struct lls_error why = {0};
  const char *bad = trouble(api, &why);
  lls_loop_status(api->config.loop, &status);
  bool all_up = bad != NULL || lls_loop_all_up(api->config.loop, &why);
  const char *state = bad != NULL     ? bad
                      : api->draining ? "draining"
                      : all_up        ? "ok"
                                      : "degraded";
  json_t *body = json_pack("{s:s, s:s, s:o, s:s*}", "status", state, "model",
                           api->model_name, "scheduler_fallback", fallback_json(&status),
                           "error", why.text[0] != '\0' ? why.text : NULL);
  lls_api_reply_json(exchange, bad != NULL || api->draining ? 503 : 200, body);
}
