/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /admin/queues: the requests of each instance, and its scheduler's description of
 * how it orders them. The answer is sent when every step thread has reached its next
 * step. A client that asks meanwhile waits for the next snapshot.
 */
#include <string.h>

#include "core/api/api_internal.h"
#include "core/api/admin/waits.h"
#include "core/config/instance_list.h"
#include "core/record/snapshot.h"

static json_t *request_json(const struct lls_snapshot_request *r)
{
  static const char *const classes[] = {"none", "realtime", "best_effort"};
  const char *class =
      r->request_class <= LLS_CLASS_BEST_EFFORT ? classes[r->request_class] : "unknown";
  /* NULL if the label was cut within a character */
  json_t *label = json_string(r->label);
  return json_pack(
      "{s:I, s:o, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:f}", "id",
      (json_int_t)r->id, "label", label != NULL ? label : json_null(), "state", r->state,
      "class", class, "priority", (int)r->priority, "tenant", (json_int_t)r->tenant,
      "prompt_tokens", (json_int_t)r->prompt_tokens, "generated_tokens",
      (json_int_t)r->generated_tokens, "cached_tokens", (json_int_t)r->cached_tokens,
      "preemptions", (json_int_t)r->preemptions, "predicted_tokens",
      r->predicted_tokens > 0 ? json_integer(r->predicted_tokens) : json_null(),
      "seconds", (double)r->alive_ns / 1e9);
}

static json_t *lines_json(const struct lls_snapshot *q)
{
  json_t *list = json_array();
  for (size_t at = 0; at < q->length;) {
    const char *line = q->lines + at, *end = memchr(line, '\n', q->length - at);
    json_array_append_new(list, json_stringn(line, (size_t)(end - line)));
    at += (size_t)(end - line) + 1;
  }
  return list;
}

static json_t *instance_json(struct lls_loop *loop, uint32_t instance)
{
  struct lls_loop_status status;
  uint32_t role;
  lls_loop_instance_status(loop, instance, &role, &status);
  const struct lls_snapshot *q = lls_loop_snapshot(loop, instance);
  json_t *requests = json_array();
  for (uint32_t i = 0; i < q->n; i++)
    json_array_append_new(requests, request_json(&q->requests[i]));
  return json_pack("{s:s, s:s, s:b, s:o, s:I, s:o, s:I}", "role", lls_role_name(role),
                   "scheduler", q->scheduler, "switched_off", q->built_in, "requests",
                   requests, "requests_left_out", (json_int_t)q->n_left_out, "lines",
                   lines_json(q), "lines_left_out", (json_int_t)q->lines_left_out);
}

static json_t *queues_json(struct lls_loop *loop)
{
  json_t *instances = json_array();
  for (uint32_t i = 0; i < lls_loop_n_instances(loop); i++)
    json_array_append_new(instances, instance_json(loop, i));
  return json_pack("{s:o}", "instances", instances);
}

static void out_of_memory(struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
  lls_api_error_reply(exchange, &error);
}

void lls_api_begin_look(struct lls_api *api)
{
  struct lls_http_exchange *exchange;
  LLS_API_ON_MAIN(api);
  if (api->looking || (api->queue_waits == NULL && !api->viewers.due))
    return;
  api->looks++;
  api->looking = true;
  if (lls_loop_ask_snapshot(api->config.loop) == 0)
    return;
  api->looking = false;
  while ((exchange = lls_wait_take(&api->queue_waits, api->looks)) != NULL)
    out_of_memory(exchange);
}

void lls_handle_admin_queues(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  if (lls_wait_add(&api->queue_waits, exchange, api->looks + 1))
    lls_api_begin_look(api);
}

bool lls_api_look(struct lls_api *api)
{
  struct lls_http_exchange *exchange;
  LLS_API_ON_MAIN(api);
  if (!api->looking || !lls_loop_snapshot_ready(api->config.loop))
    return false;
  api->looking = false;
  while ((exchange = lls_wait_take(&api->queue_waits, api->looks)) != NULL)
    lls_api_reply_json(exchange, 200, queues_json(api->config.loop));
  return true;
}
