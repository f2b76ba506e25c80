/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api/spans.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/api/api_internal.h"
#include "core/traces/exporter.h"

#define KIND_INTERNAL 1 /* enum SpanKind of opentelemetry/proto/trace/v1 */
#define KIND_SERVER   2
#define STATUS_ERROR  2

#define ID_BYTES    8
#define TRACE_BYTES 16
/* one for the request, and one for each phase */
#define MOST_SPANS (1 + LLS_LIFE_CHANGES)

struct ids {
  uint8_t trace[TRACE_BYTES];
  uint8_t spans[MOST_SPANS][ID_BYTES];
};

static const char *to_hex(const uint8_t *bytes, size_t n, char *out)
{
  for (size_t i = 0; i < n; i++)
    snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  return out;
}

/* ---- attributes ------------------------------------------------------------ */

static void put(json_t *list, const char *key, json_t *value)
{
  json_array_append_new(list, json_pack("{s:s, s:o}", "key", key, "value", value));
}

/* OTLP writes 64-bit integers as strings. */
static void put_number(json_t *list, const char *key, uint64_t number)
{
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, number);
  put(list, key, json_pack("{s:s}", "intValue", text));
}

static void put_text(json_t *list, const char *key, const char *text)
{
  json_t *string = json_string(text); /* NULL: not UTF-8 */
  if (string != NULL && text[0] != '\0')
    put(list, key, json_pack("{s:O}", "stringValue", string));
  json_decref(string);
}

static void put_seconds(json_t *list, const char *key, double seconds)
{
  if (seconds >= 0)
    put(list, key, json_pack("{s:f}", "doubleValue", seconds));
}

static json_t *attributes(const struct lls_choice *choice, const struct lls_event *event,
                          const char *outcome, double first_s, double total_s)
{
  static const char *const classes[] = {"none", "realtime", "best_effort"};
  const struct lls_generation *g = choice->generation;
  json_t *list = json_array();
  put_text(list, "gen_ai.request.id", g->label);
  put_text(list, "gen_ai.response.id", g->id);
  put_text(list, "gen_ai.response.model", lls_generation_model(g));
  put(list, "gen_ai.response.finish_reasons",
      json_pack("{s:{s:[{s:s}]}}", "arrayValue", "values", "stringValue", outcome));
  put_number(list, "gen_ai.usage.input_tokens", event->prompt_tokens);
  put_number(list, "gen_ai.usage.output_tokens", event->generated_tokens);
  put_seconds(list, "gen_ai.latency.time_to_first_token", first_s);
  put_seconds(list, "gen_ai.latency.e2e", total_s);
  put_number(list, "llmserve.cached_tokens", event->shared_tokens);
  put_number(list, "llmserve.preemptions", event->preemptions);
  put_number(list, "llmserve.choice", choice->index);
  put_text(list, "llmserve.class", classes[g->params.request_class]);
  put_text(list, "llmserve.tenant", g->api->tenants.list[g->tenant].name);
  if (event->life != NULL && event->life->n_left_out > 0)
    put_number(list, "llmserve.phases_left_out", event->life->n_left_out);
  return list;
}

/* ---- spans ----------------------------------------------------------------- */

/* parent: its id, or NULL. */
static json_t *span(const struct ids *ids, unsigned own, const uint8_t *parent,
                    const char *name, int64_t begun_ns, int64_t ended_ns)
{
  char trace[2 * TRACE_BYTES + 1], id[2 * ID_BYTES + 1], above[2 * ID_BYTES + 1] = "";
  char begun[24], ended[24];
  if (parent != NULL)
    to_hex(parent, ID_BYTES, above);
  snprintf(begun, sizeof begun, "%" PRId64, begun_ns);
  snprintf(ended, sizeof ended, "%" PRId64, ended_ns > begun_ns ? ended_ns : begun_ns);
  return json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s}", "traceId",
                   to_hex(ids->trace, TRACE_BYTES, trace), "spanId",
                   to_hex(ids->spans[own], ID_BYTES, id), "parentSpanId", above, "name",
                   name, "kind", own == 0 ? KIND_SERVER : KIND_INTERNAL,
                   "startTimeUnixNano", begun, "endTimeUnixNano", ended);
}

static void export_phases(struct lls_exporter *exporter, const struct ids *ids,
                          const struct lls_event *event, int64_t ended_unix_ns)
{
  static const char *const names[] = {
      [LLS_PHASE_QUEUED] = "queue",    [LLS_PHASE_PREFILL] = "prefill",
      [LLS_PHASE_DECODE] = "decode",   [LLS_PHASE_PAUSED] = "paused",
      [LLS_PHASE_SWAPPED] = "swapped", [LLS_PHASE_MOVING] = "moving"};
  const struct lls_life *life = event->life;
  if (life == NULL || event->finished_ns == LLS_NEVER)
    return;
  for (uint32_t i = 0; i < life->n; i++) {
    int64_t until_ns = i + 1 < life->n ? life->changes[i + 1].at_ns : event->finished_ns;
    int64_t begun_ns = ended_unix_ns - (event->finished_ns - life->changes[i].at_ns);
    lls_exporter_add(exporter,
                     span(ids, i + 1, ids->spans[0], names[life->changes[i].phase],
                          begun_ns, ended_unix_ns - (event->finished_ns - until_ns)));
  }
}

void lls_spans_export(const struct lls_choice *choice, const struct lls_event *event,
                      const char *outcome, double first_s)
{
  const struct lls_generation *g = choice->generation;
  const struct lls_trace_parent *parent = &g->params.trace;
  struct lls_exporter *exporter = g->api->config.traces;
  struct timespec now;
  struct ids ids;
  LLS_API_ON_MAIN(g->api);
  if (exporter == NULL || (parent->given && !parent->sampled))
    return;
  uv_random(NULL, NULL, &ids, sizeof ids, 0, NULL);
  if (parent->given)
    memcpy(ids.trace, parent->trace, sizeof ids.trace);
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t unix_ns = (int64_t)now.tv_sec * LLS_NS_PER_S + now.tv_nsec;
  int64_t took_ns = (int64_t)uv_hrtime() - g->arrival_ns;
  json_t *root = span(&ids, 0, parent->given ? parent->span : NULL, "llm_request",
                      unix_ns - took_ns, unix_ns);
  json_object_set_new(
      root, "attributes",
      attributes(choice, event, outcome, first_s, (double)took_ns / LLS_NS_PER_S));
  if (strcmp(outcome, "error") == 0)
    json_object_set_new(root, "status", json_pack("{s:i}", "code", STATUS_ERROR));
  lls_exporter_add(exporter, root);
  export_phases(exporter, &ids, event, unix_ns);
}
