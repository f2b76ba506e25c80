/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of /admin/events (doc/api.md): counters and gauges as "figures", and the
 * requests of each instance as rows, "queues". To keep events small, rows are arrays
 * without member names, and at most MOST_ROWS requests of a state are listed: 1,000
 * requests as objects are 250 KB.
 */
#include <string.h>

#include "core/api/api_internal.h"
#include "core/config/instance_list.h"
#include "core/loop/policy_stats_json.h"
#include "core/record/snapshot.h"

#define MOST_ROWS        60 /* requests listed for each state */
#define MOST_LINES       60 /* lines of a scheduler's description */
#define MOST_TENANTS     12
#define LABEL_CHARACTERS 24

/* ---- figures ----------------------------------------------------------------------- */

static json_t *verdicts_json(const struct lls_group_stats *stats)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < LLS_VERDICTS; i++)
    json_array_append_new(list, json_integer((json_int_t)stats->verdicts[i]));
  return list;
}

static json_t *group_json(const struct lls_group_stats *stats)
{
  return json_pack("{s:I, s:I, s:I, s:o}", "requests", (json_int_t)stats->requests,
                   "prompt_tokens", (json_int_t)stats->prompt_tokens, "generated_tokens",
                   (json_int_t)stats->generated_tokens, "slo", verdicts_json(stats));
}

static json_t *cached_json(const uint64_t tokens[LLS_FORM_HIDDEN + 1])
{
  return json_pack("{s:I, s:I}", "kv", (json_int_t)tokens[LLS_FORM_KV], "hidden",
                   (json_int_t)tokens[LLS_FORM_HIDDEN]);
}

static json_t *memory_json(const struct lls_loop_status *s)
{
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:o, s:o, s:I}", "device_units",
      (json_int_t)s->device_units_total, "device_units_free",
      (json_int_t)s->device_units_free, "host_units", (json_int_t)s->host_units_total,
      "host_units_free", (json_int_t)s->host_units_free, "device_tokens",
      cached_json(s->cached_on_device), "host_tokens", cached_json(s->cached_on_host),
      "copied_bytes", (json_int_t)s->copied_bytes);
}

/* Counters of steps: from two events a client computes rates and the time of each part
 * of a step. */
static json_t *steps_json(const struct lls_loop_status *s)
{
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "n", (json_int_t)s->steps, "plan_ns",
                   (json_int_t)s->plan_ns_sum, "step_ns", (json_int_t)s->step_ns_sum,
                   "run_ns", (json_int_t)s->device_ns_sum, "tokens",
                   (json_int_t)s->batch_tokens_sum, "sequences",
                   (json_int_t)s->batch_sequences_sum);
}

static json_t *instance_figures(struct lls_loop *loop, uint32_t i)
{
  struct lls_loop_status s;
  struct lls_instance_life life;
  uint32_t role;
  lls_loop_instance_status(loop, i, &role, &s);
  lls_loop_instance_life(loop, i, &life);
  return json_pack(
      "{s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s?}",
      "role", lls_role_name(role), "up", life.state == LLS_INSTANCE_UP, "waiting",
      (json_int_t)s.waiting, "running", (json_int_t)s.running, "preempted",
      (json_int_t)s.preempted, "offered", (json_int_t)s.offered, "memory",
      memory_json(&s), "steps", steps_json(&s), "prompt_tokens",
      (json_int_t)s.prompt_tokens, "generated_tokens", (json_int_t)s.generated_tokens,
      "shared_tokens", (json_int_t)s.shared_tokens, "recomputed",
      (json_int_t)s.preempted_recompute, "swapped", (json_int_t)s.preempted_swap,
      "displaced", (json_int_t)s.displaced, "policies", lls_policy_stats_json(loop, i),
      "fallback", s.fallen_back ? s.fallback_reason : NULL);
}

static const char *state_of(struct lls_api *api, struct lls_error *why)
{
  if (lls_loop_failed(api->config.loop, why))
    return "failed";
  if (lls_loop_hangs(api->config.loop, why))
    return "hangs";
  if (api->draining)
    return "draining";
  return lls_loop_all_up(api->config.loop, why) ? "ok" : "degraded";
}

json_t *lls_figures_json(struct lls_api *api, int64_t unix_ms)
{
  const struct lls_admin_state *admin = api->config.admin.state;
  struct lls_error why = {0};
  const char *state = state_of(api, &why);
  json_t *instances = json_array();
  LLS_API_ON_MAIN(api);
  for (uint32_t i = 0; i < lls_loop_n_instances(api->config.loop); i++)
    json_array_append_new(instances, instance_figures(api->config.loop, i));
  return json_pack(
      "{s:I, s:s, s:s, s:s, s:I, s:I, s:{s:o, s:o, s:o}, s:o}", "time",
      (json_int_t)unix_ms, "state", state, "why", why.text, "model", api->model_name,
      "generation", (json_int_t)(admin != NULL ? admin->generation : 0), "ended",
      (json_int_t)api->lives.n, "classes", "none",
      group_json(&api->classes[LLS_CLASS_NONE]), "realtime",
      group_json(&api->classes[LLS_CLASS_REALTIME]), "best_effort",
      group_json(&api->classes[LLS_CLASS_BEST_EFFORT]), "instances", instances);
}

/* ---- queues ------------------------------------------------------------------------ */

static const char *tenant_name(const struct lls_api *api, uint32_t tenant)
{
  return tenant < sizeof api->tenants.list / sizeof api->tenants.list[0]
             ? api->tenants.list[tenant].name
             : "";
}

static json_t *label_json(const char *label)
{
  size_t length = strnlen(label, LABEL_CHARACTERS);
  json_t *string = json_stringn(label, length);
  return string != NULL ? string : json_null(); /* NULL if cut inside a character */
}

static json_t *row_json(const struct lls_api *api, const struct lls_snapshot_request *r)
{
  return json_pack(
      "[I, o, s, I, s, I, I, I, I, I, i, I, I, I, I, I, o]", (json_int_t)r->id,
      label_json(r->label), r->state, (json_int_t)r->request_class,
      tenant_name(api, r->tenant), (json_int_t)r->prompt_tokens,
      (json_int_t)r->generated_tokens, (json_int_t)r->cached_tokens,
      (json_int_t)r->preemptions, (json_int_t)r->predicted_tokens, (int)r->priority,
      (json_int_t)(r->alive_ns / LLS_NS_PER_MS), (json_int_t)r->form,
      (json_int_t)r->owned_units, (json_int_t)(r->device_units - r->owned_units),
      (json_int_t)r->host_units, lls_life_json(&r->life));
}

/* Cache units of the requests without a row, by form; the console's picture of the
 * cache includes them. */
struct rest {
  uint64_t requests, owned[LLS_FORM_HIDDEN + 1], shared, host;
};

static void add_rest(struct rest *rest, const struct lls_snapshot_request *r)
{
  rest->requests++;
  rest->owned[r->form <= LLS_FORM_HIDDEN ? r->form : LLS_FORM_KV] += r->owned_units;
  rest->shared += r->device_units - r->owned_units;
  rest->host += r->host_units;
}

static json_t *rest_json(const struct rest *rest)
{
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "requests", (json_int_t)rest->requests,
                   "kv", (json_int_t)rest->owned[LLS_FORM_KV], "hidden",
                   (json_int_t)rest->owned[LLS_FORM_HIDDEN], "shared",
                   (json_int_t)rest->shared, "host", (json_int_t)rest->host);
}

/* Makes rows of a snapshot's requests, which are sorted by state. */
static json_t *rows_json(const struct lls_api *api, const struct lls_snapshot *q,
                         struct rest *rest)
{
  json_t *rows = json_array();
  const char *state = "";
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->n; i++) {
    const struct lls_snapshot_request *r = &q->requests[i];
    n = strcmp(state, r->state) == 0 ? n + 1 : 1;
    state = r->state;
    if (n <= MOST_ROWS)
      json_array_append_new(rows, row_json(api, r));
    else
      add_rest(rest, r);
  }
  return rows;
}

static json_t *counts_json(const struct lls_snapshot *q)
{
  json_t *counts = json_object();
  for (uint32_t i = 0; i < q->n_counts; i++) {
    const uint32_t *n = q->counts[i].by_class;
    json_object_set_new(counts, q->counts[i].state,
                        json_pack("[I, I, I]", (json_int_t)n[LLS_CLASS_NONE],
                                  (json_int_t)n[LLS_CLASS_REALTIME],
                                  (json_int_t)n[LLS_CLASS_BEST_EFFORT]));
  }
  return counts;
}

/* Returns {"tenant": {"running": 3, ...}} for the first MOST_TENANTS tenants of a
 * snapshot. */
static json_t *tenants_json(const struct lls_api *api, const struct lls_snapshot *q)
{
  json_t *tenants = json_object();
  for (uint32_t i = 0; i < q->n; i++) {
    const struct lls_snapshot_request *r = &q->requests[i];
    const char *name = tenant_name(api, r->tenant);
    json_t *tenant = json_object_get(tenants, name);
    if (name[0] == '\0' || (tenant == NULL && json_object_size(tenants) == MOST_TENANTS))
      continue;
    if (tenant == NULL && json_object_set_new(tenants, name, tenant = json_object()) < 0)
      continue;
    json_int_t n = json_integer_value(json_object_get(tenant, r->state));
    json_object_set_new(tenant, r->state, json_integer(n + 1));
  }
  return tenants;
}

static json_t *lines_json(const struct lls_snapshot *q)
{
  json_t *list = json_array();
  size_t at = 0;
  for (int n = 0; n < MOST_LINES && at < q->length; n++) {
    const char *line = q->lines + at, *end = memchr(line, '\n', q->length - at);
    json_array_append_new(list, json_stringn(line, (size_t)(end - line)));
    at += (size_t)(end - line) + 1;
  }
  return list;
}

static json_t *instance_queues(const struct lls_api *api, uint32_t i)
{
  const struct lls_snapshot *q = lls_loop_snapshot(api->config.loop, i);
  struct rest rest = {.requests = q->n_left_out};
  json_t *rows = rows_json(api, q, &rest);
  return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "scheduler", q->scheduler,
                   "switched_off", q->built_in, "counts", counts_json(q), "tenants",
                   tenants_json(api, q), "rows", rows, "rest", rest_json(&rest), "lines",
                   lines_json(q));
}

json_t *lls_live_queues_json(struct lls_api *api)
{
  json_t *instances = json_array();
  LLS_API_ON_MAIN(api);
  for (uint32_t i = 0; i < lls_loop_n_instances(api->config.loop); i++)
    json_array_append_new(instances, instance_queues(api, i));
  return json_pack("{s:o}", "instances", instances);
}
