/* SPDX-License-Identifier: Apache-2.0 */
/* Writes views as JSON, whose members have their names in <llmserve/types.h>. */
#include "pipe.h"

static json_t *time_of(int64_t ns)
{
  return ns == LLS_NEVER ? json_null() : json_integer(ns);
}

static json_t *prediction_of(const struct lls_prediction *p)
{
  if (p->source == LLS_PREDICTED_NOT)
    return json_null();
  return json_pack("{s:I, s:I, s:I, s:f}", "length", (json_int_t)p->length, "low",
                   (json_int_t)p->low, "high", (json_int_t)p->high, "confidence",
                   (double)p->confidence);
}

static json_t *request_of(const struct lls_request *r)
{
  static const char *const states[] = {"waiting",   "prefilling", "decoding",
                                       "preempted", "moving",     "finished"};
  static const char *const classes[] = {"none", "realtime", "best_effort"};
  return json_pack(
      "{s:I, s:s, s:s, s:i, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, "
      "s:o, s:o, s:o, s:o, s:s}",
      "id", (json_int_t)r->id, "state", states[r->state], "request_class",
      classes[r->request_class], "priority", (int)r->priority, "tenant",
      (json_int_t)r->tenant, "tenant_name", r->tenant_name, "prompt_tokens",
      (json_int_t)r->prompt_tokens, "generated_tokens", (json_int_t)r->generated_tokens,
      "cached_tokens", (json_int_t)r->cached_tokens, "max_new_tokens",
      (json_int_t)r->max_new_tokens, "preemptions", (json_int_t)r->preemptions, "pending",
      (json_int_t)lls_request_pending(r), "arrival_ns", (json_int_t)r->arrival_ns,
      "queue_enter_ns", time_of(r->queue_enter_ns), "first_scheduled_ns",
      time_of(r->first_scheduled_ns), "last_token_ns", time_of(r->last_token_ns),
      "ttft_ns", time_of(r->slo.ttft_ns), "tbt_ns", time_of(r->slo.tbt_ns),
      "completion_ns", time_of(r->slo.completion_ns), "prediction",
      prediction_of(&r->prediction), "label", r->label);
}

static json_t *list_of(const struct lls_request *const *list, uint32_t n)
{
  json_t *all = json_array();
  for (uint32_t i = 0; i < n; i++)
    if (json_array_append_new(all, request_of(list[i])) < 0) {
      json_decref(all);
      return NULL;
    }
  return all;
}

json_t *pipe_view(const struct lls_step_view *v, json_t *events)
{
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:O}", "plan", (json_int_t)v->step, "now_ns",
      (json_int_t)v->now_ns, "max_tokens", (json_int_t)v->max_tokens, "max_sequences",
      (json_int_t)v->max_sequences, "waiting", list_of(v->waiting, v->n_waiting),
      "running", list_of(v->running, v->n_running), "preempted",
      list_of(v->preempted, v->n_preempted), "events", events);
}
