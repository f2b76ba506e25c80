/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /health: 200 while new requests are taken, 503 otherwise; the body says why, and
 * "degraded" where they are answered by fewer instances than there should be. /ready: 200
 * while they are answered too; 503 also while the last instance of its kind, or a rank
 * that a step waits for, is not heard. /live: 200 as long as the process should not be
 * killed for a new one, which it should when its engine has failed or a plugin hangs;
 * what is not heard may come back, and ends the service itself after rank_timeout.
 */
#include "core/api/api_internal.h"

/* The plugin fell out of favour: served, but not as configured. */
static json_t *fallback_json(const struct lls_loop_status *status)
{
  return status->fallen_back ? json_string(status->fallback_reason) : json_null();
}

/* The state in a word, or NULL: all is well; why is left alone unless it is known. */
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
  json_t *body = json_pack("{s:s, s:s, s:o, s:s?}", "status", state, "model",
                           api->model_name, "scheduler_fallback", fallback_json(&status),
                           "error", why.text[0] != '\0' ? why.text : NULL);
  lls_api_reply_json(exchange, bad != NULL || api->draining ? 503 : 200, body);
}
