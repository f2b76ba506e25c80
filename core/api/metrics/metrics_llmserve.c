/* SPDX-License-Identifier: Apache-2.0 */
/* The series llmserve_*: the work of policies, and outcomes of requests. */
#include "core/api/metrics/prometheus.h"

#include <stdio.h>

#include "config.h"
#include "core/api/store/store_front.h"
#include "core/config/instance_list.h"
#include "core/traces/exporter.h"

static void build(struct lls_page *page)
{
  static const char name[] = "llmserve_build_info";
  char api_version[16];
  snprintf(api_version, sizeof api_version, "%d", LLS_API_VERSION);
  lls_page_head(page, name, "gauge",
                "Always 1: the version, and the plugin API's, that were built.");
  lls_page_labelled(page, name, 1, "version", PACKAGE_VERSION, "plugin_api", api_version,
                    NULL);
}

static void step_numbers(struct lls_page *page, const struct lls_loop_status *status)
{
  lls_page_counter(page, "llmserve_steps_total", "Steps run.", status->steps);
  lls_page_counter(page, "llmserve_step_sequences_total",
                   "Sequences in all steps together.", status->batch_sequences_sum);
  lls_page_counter(page, "llmserve_step_tokens_total",
                   "Tokens computed in all steps together.", status->batch_tokens_sum);
  lls_page_counter(page, "llmserve_forced_tokens_total",
                   "Tokens of answers that were not drawn: nothing else could follow in "
                   "their grammars.",
                   status->forced_tokens);
  lls_page_counter(page, "llmserve_grammar_work_total",
                   "Units of work (of [plugins] mask_work) for answers that keep to "
                   "grammars.",
                   status->grammar_work);
  lls_page_counter(page, "llmserve_postponed_draws_total",
                   "Steps in which a request drew no token, since its grammar takes more "
                   "work than a step does.",
                   status->postponed_draws);
  lls_page_counter(page, "llmserve_plans_refused_total",
                   "Plans of the scheduler that were refused whole.",
                   status->plans_refused);
  lls_page_counter(page, "llmserve_plans_late_total", "Plans that overran their time.",
                   status->plans_late);
  lls_page_counter(page, "llmserve_plan_items_refused_total",
                   "Items of plans that could not be placed.", status->items_refused);
  lls_page_histogram(page, "llmserve_plan_seconds",
                     "Processor time of each of the scheduler's plans.",
                     &status->plan_seconds);
  lls_page_number(page, "llmserve_step_seconds_total", "counter", "Time spent in steps.",
                  (double)status->step_ns_sum / 1e9);
  lls_page_number(page, "llmserve_device_seconds_total", "counter",
                  "Time spent in the forward passes of steps.",
                  (double)status->device_ns_sum / 1e9);
  lls_page_number(page, "llmserve_draft_seconds_total", "counter",
                  "Time that the drafter took between steps.",
                  (double)status->draft_ns_sum / 1e9);
}

static void preemptions(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char name[] = "llmserve_preemptions_total";
  lls_page_head(page, name, "counter", "Preemptions by kind.");
  lls_page_labelled(page, name, (double)status->preempted_recompute, "kind", "recompute",
                    NULL);
  lls_page_labelled(page, name, (double)status->preempted_swap, "kind", "swap", NULL);
  lls_page_labelled(page, name, (double)status->displaced, "kind", "displaced", NULL);
  lls_page_counter(page, "llmserve_copied_bytes_total",
                   "Bytes of cache copied between tiers.", status->copied_bytes);
}

static void sessions(struct lls_page *page, struct lls_loop *loop,
                     const struct lls_loop_status *status)
{
  static const char name[] = "llmserve_sessions", hits[] = "llmserve_prefix_tokens_total";
  uint32_t alive, idle;
  lls_loop_count_sessions(loop, &alive, &idle);
  lls_page_head(page, name, "gauge", "Sessions, with a request or without.");
  lls_page_labelled(page, name, alive, "state", "alive", NULL);
  lls_page_labelled(page, name, idle, "state", "idle", NULL);
  lls_page_gauge(page, "llmserve_sessions_leased",
                 "Sessions whose blocks were kept from others at the last step.",
                 status->sessions_leased);
  lls_page_counter(page, "llmserve_sessions_retained_total",
                   "Times that a session's blocks were kept from others.",
                   status->sessions_retained);
  lls_page_counter(page, "llmserve_sessions_fetched_total",
                   "Times that a session's blocks were brought to another tier.",
                   status->sessions_fetched);
  uint64_t below = status->shared_on_host + status->shared_on_disk;
  lls_page_head(page, hits, "counter",
                "Prompt tokens found in the cache, by where they were.");
  lls_page_labelled(page, hits, (double)(status->shared_tokens - below), "tier", "device",
                    NULL);
  lls_page_labelled(page, hits, (double)status->shared_on_host, "tier", "host", NULL);
  lls_page_labelled(page, hits, (double)status->shared_on_disk, "tier", "disk", NULL);
}

static void disk(struct lls_page *page, const struct lls_loop_status *status)
{
  if (status->disk_blocks_total == 0)
    return;
  lls_page_gauge(page, "llmserve_disk_blocks", "Blocks that the disk tier has room for.",
                 (double)status->disk_blocks_total);
  lls_page_gauge(page, "llmserve_disk_blocks_used", "Blocks on disk.",
                 (double)status->disk_blocks_used);
  lls_page_gauge(page, "llmserve_disk_blocks_held",
                 "Blocks on disk that sessions retain there.",
                 (double)status->disk_blocks_held);
  lls_page_counter(page, "llmserve_disk_fetched_tokens_total",
                   "Tokens read from disk for sessions before they returned.",
                   status->disk_fetched_tokens);
  lls_page_counter(page, "llmserve_disk_written_bytes_total",
                   "Bytes of blocks written to disk.", status->disk_written_bytes);
  lls_page_counter(page, "llmserve_disk_read_bytes_total",
                   "Bytes of blocks read from disk.", status->disk_read_bytes);
  lls_page_counter(page, "llmserve_disk_failed_total",
                   "Blocks that could not be written, or were damaged when read.",
                   status->disk_failed);
}

static void predictions(struct lls_page *page, const struct lls_loop_status *status)
{
  lls_page_counter(page, "llmserve_predicted_requests_total",
                   "Requests that ended by themselves and whose length was predicted.",
                   status->predicted);
  lls_page_counter(page, "llmserve_prediction_error_tokens_total",
                   "Tokens by which those predictions were off, all together.",
                   status->prediction_error);
}

static void estimates(struct lls_page *page, const struct lls_cost_accuracy *a)
{
  if (a->steps == 0)
    return;
  lls_page_gauge(page, "llmserve_step_estimate_error_ratio",
                 "Mean error of the estimated times of the last 1000 steps, as a "
                 "fraction of the measured time.",
                 a->error);
  lls_page_gauge(page, "llmserve_step_estimate_bias_ratio",
                 "The same with its sign: above 0 they were too long.", a->bias);
}

static void cache_units(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char total[] = "llmserve_cache_units",
                    unused[] = "llmserve_cache_units_free";
  lls_page_head(page, total, "gauge", "Unit blocks of the cache by tier.");
  lls_page_labelled(page, total, status->device_units_total, "tier", "device", NULL);
  lls_page_labelled(page, total, status->host_units_total, "tier", "host", NULL);
  lls_page_head(page, unused, "gauge", "Unit blocks that are free.");
  lls_page_labelled(page, unused, status->device_units_free, "tier", "device", NULL);
  lls_page_labelled(page, unused, status->host_units_free, "tier", "host", NULL);
}

static void http_numbers(struct lls_page *page, const struct lls_api *api)
{
  const struct lls_http_counters *http = lls_http_server_counters(api->http);
  lls_page_gauge(page, "llmserve_http_connections", "Open connections.", http->open);
  lls_page_gauge(page, "llmserve_http_requests_in_hand", "HTTP requests being answered.",
                 http->busy);
  lls_page_gauge(page, "llmserve_generations_live",
                 "Generation requests that are not over yet in the step loop.",
                 api->stats.live);
  lls_page_counter(page, "llmserve_http_requests_total", "HTTP requests received.",
                   http->requests);
  lls_page_counter(page, "llmserve_http_connections_total", "Connections accepted.",
                   http->accepted);
  lls_page_counter(page, "llmserve_http_connections_refused_total",
                   "Connections closed because there were too many.", http->refused);
  lls_page_counter(page, "llmserve_http_malformed_total",
                   "HTTP requests refused before they were complete.", http->malformed);
  lls_page_counter(page, "llmserve_http_timeouts_total",
                   "Connections closed for a timeout.", http->timeouts);
  lls_page_counter(page, "llmserve_http_slow_readers_total",
                   "Connections cut off because the answer was not read.",
                   http->slow_readers);
  lls_page_gauge(page, "llmserve_http_held_bytes",
                 "Bytes held of requests: heads, bodies, and requests sent ahead.",
                 (double)lls_http_server_held(api->http));
  lls_page_gauge(page, "llmserve_http_unread_bytes",
                 "Bytes of answers that clients have not taken.",
                 (double)lls_http_server_unread(api->http));
  lls_page_counter(page, "llmserve_http_crowded_total",
                   "Requests refused because too many bytes were held.", http->crowded);
  lls_page_counter(page, "llmserve_tls_failed_total",
                   "Connections closed for what their client sent in TLS.",
                   http->tls_failed);
  lls_page_counter(page, "llmserve_http_clients_gone_total",
                   "Clients that left before their answer was complete.", http->gone);
  lls_page_counter(page, "llmserve_generations_refused_total",
                   "Generation requests that were answered with an error at once.",
                   api->stats.refused);
}

/* ---- classes and tenants --------------------------------------------------------- */

/* A family of metrics with one sample per group (a class or a tenant). */
struct family {
  const char *name, *label, *help;
};

static const char *const verdict_names[LLS_VERDICTS] = {
    "attained",    "missed_ttft",       "missed_tbt",
    "missed_tpot", "missed_completion", "failed"};

struct group {
  const char *name;
  const struct lls_group_stats *stats;
};

static void group_counter(struct lls_page *page, const struct family *family,
                          const struct group *groups, size_t n, size_t member)
{
  lls_page_head(page, family->name, "counter", family->help);
  for (size_t i = 0; i < n; i++) {
    const void *at = (const char *)groups[i].stats + member;
    lls_page_labelled(page, family->name, (double)*(const uint64_t *)at, family->label,
                      groups[i].name, NULL);
  }
}

static void group_verdicts(struct lls_page *page, const struct family *family,
                           const struct group *groups, size_t n)
{
  lls_page_head(page, family->name, "counter", family->help);
  for (size_t i = 0; i < n; i++)
    for (unsigned v = 0; v < LLS_VERDICTS; v++)
      lls_page_labelled(page, family->name, (double)groups[i].stats->verdicts[v],
                        family->label, groups[i].name, "outcome", verdict_names[v], NULL);
}

static void class_numbers(struct lls_page *page, const struct lls_api *api)
{
  const struct group groups[] = {
      {"none", &api->classes[LLS_CLASS_NONE]},
      {"realtime", &api->classes[LLS_CLASS_REALTIME]},
      {"best_effort", &api->classes[LLS_CLASS_BEST_EFFORT]},
  };
  const struct family requests = {"llmserve_class_requests_total", "class",
                                  "Requests that have ended, by class."},
                      tokens = {"llmserve_class_generated_tokens_total", "class",
                                "Tokens generated, by class."},
                      slo = {"llmserve_class_slo_requests_total", "class",
                             "Requests with deadlines, by class and what came of them."};
  group_counter(page, &requests, groups, 3, offsetof(struct lls_group_stats, requests));
  group_counter(page, &tokens, groups, 3,
                offsetof(struct lls_group_stats, generated_tokens));
  group_verdicts(page, &slo, groups, 3);
}

static void tenant_numbers(struct lls_page *page, const struct lls_api *api)
{
  static const struct family
      requests = {"llmserve_tenant_requests_total", "tenant",
                  "Requests that have ended, by tenant; other: those without a place."},
      prompts = {"llmserve_tenant_prompt_tokens_total", "tenant",
                 "Tokens of prompts, by tenant."},
      tokens = {"llmserve_tenant_generated_tokens_total", "tenant",
                "Tokens generated, by tenant."},
      limited = {"llmserve_tenant_limited_total", "tenant",
                 "Requests refused for a limit of the tenant."},
      slo = {"llmserve_tenant_slo_requests_total", "tenant",
             "Requests with deadlines, by tenant and what came of them."};
  struct group groups[sizeof api->tenants.list / sizeof api->tenants.list[0]];
  size_t n = 0;
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    const struct lls_tenant *tenant = &api->tenants.list[i];
    if (tenant->stats.requests > 0 || tenant->stats.limited > 0)
      groups[n++] = (struct group){tenant->name, &tenant->stats};
  }
  group_counter(page, &requests, groups, n, offsetof(struct lls_group_stats, requests));
  group_counter(page, &prompts, groups, n,
                offsetof(struct lls_group_stats, prompt_tokens));
  group_counter(page, &tokens, groups, n,
                offsetof(struct lls_group_stats, generated_tokens));
  group_counter(page, &limited, groups, n, offsetof(struct lls_group_stats, limited));
  group_verdicts(page, &slo, groups, n);
}

/* ---- instances --------------------------------------------------------------------- */

struct instance_labels {
  char index[16];
  const char *role;
};

static struct instance_labels labels_of(uint32_t index, uint32_t role)
{
  struct instance_labels l = {.role = lls_role_name(role)};
  snprintf(l.index, sizeof l.index, "%u", index);
  return l;
}

/* Writes 1 for each instance that is up, 0 for one that is lost or sends no messages.
 * One that waits for a process to join is no fault, which an alert would be about. */
static void instance_up(struct lls_page *page, struct lls_loop *loop)
{
  static const char name[] = "llmserve_instance_up";
  lls_page_head(page, name, "gauge", "1 while an instance is up and sends messages.");
  for (uint32_t i = 0; i < lls_loop_n_instances(loop); i++) {
    struct lls_instance_life life;
    struct lls_loop_status s;
    uint32_t role;
    lls_loop_instance_status(loop, i, &role, &s);
    lls_loop_instance_life(loop, i, &life);
    if (life.state == LLS_INSTANCE_ABSENT)
      continue;
    struct instance_labels l = labels_of(i, role);
    lls_page_labelled(page, name, life.state == LLS_INSTANCE_UP, "instance", l.index,
                      "role", l.role, NULL);
  }
}

static void instance_requests(struct lls_page *page, struct lls_loop *loop)
{
  static const char name[] = "llmserve_instance_requests";
  lls_page_head(page, name, "gauge", "Requests of each instance.");
  for (uint32_t i = 0; i < lls_loop_n_instances(loop); i++) {
    struct lls_loop_status s;
    uint32_t role;
    lls_loop_instance_status(loop, i, &role, &s);
    struct instance_labels l = labels_of(i, role);
    const struct {
      const char *state;
      uint32_t n;
    } states[] = {{"waiting", s.waiting},
                  {"running", s.running},
                  {"preempted", s.preempted},
                  {"offered", s.offered},
                  {"reading", s.reading}};
    for (size_t j = 0; j < sizeof states / sizeof *states; j++)
      lls_page_labelled(page, name, states[j].n, "instance", l.index, "role", l.role,
                        "state", states[j].state, NULL);
  }
}

static void instance_units(struct lls_page *page, struct lls_loop *loop)
{
  static const char name[] = "llmserve_instance_cache_units_free";
  lls_page_head(page, name, "gauge", "Free units of each instance's cache.");
  for (uint32_t i = 0; i < lls_loop_n_instances(loop); i++) {
    struct lls_loop_status s;
    uint32_t role;
    lls_loop_instance_status(loop, i, &role, &s);
    struct instance_labels l = labels_of(i, role);
    lls_page_labelled(page, name, s.device_units_free, "instance", l.index, "role",
                      l.role, NULL);
  }
}

/* Writes the metrics per instance. With a single instance only its state is written:
 * its other numbers would repeat the server's. */
static void instance_numbers(struct lls_page *page, struct lls_loop *loop,
                             const struct lls_loop_status *status)
{
  instance_up(page, loop);
  if (lls_loop_n_instances(loop) < 2)
    return;
  instance_requests(page, loop);
  instance_units(page, loop);
  lls_page_counter(page, "llmserve_handed_over_total",
                   "Requests that left an instance for another.", status->handed_over);
  lls_page_counter(page, "llmserve_taken_over_total",
                   "Requests that an instance took over from another.",
                   status->taken_over);
  lls_page_counter(page, "llmserve_handed_bytes_total",
                   "Bytes of cache copied between instances.", status->handed_bytes);
  lls_page_number(page, "llmserve_handed_seconds_total", "counter",
                  "Time spent transferring requests' blocks from other processes.",
                  (double)status->handed_ns / LLS_NS_PER_S);
}

static void cached_tokens(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char name[] = "llmserve_cached_tokens";
  static const char *const forms[] = {"none", "kv", "hidden"};
  lls_page_head(page, name, "gauge", "Tokens of live requests in the cache.");
  for (unsigned form = LLS_FORM_KV; form <= LLS_FORM_HIDDEN; form++) {
    lls_page_labelled(page, name, (double)status->cached_on_device[form], "form",
                      forms[form], "tier", "device", NULL);
    lls_page_labelled(page, name, (double)status->cached_on_host[form], "form",
                      forms[form], "tier", "host", NULL);
  }
}

static void reload_numbers(struct lls_page *page, const struct lls_api *api)
{
  const struct lls_admin_state *state = api->config.admin.state;
  if (state == NULL)
    return;
  lls_page_gauge(page, "llmserve_config_generation",
                 "1 from the start, and one more with each reload that worked.",
                 (double)state->generation);
  lls_page_counter(page, "llmserve_reloads_total", "Reloads that worked.",
                   state->reloads);
  lls_page_counter(page, "llmserve_reloads_refused_total",
                   "Reloads that were refused and changed nothing.",
                   state->reloads_refused);
}

static void batch_numbers(struct lls_page *page, const struct lls_api *api)
{
  static const char state[] = "llmserve_batches", lines[] = "llmserve_batch_lines_total";
  struct lls_store_counts c;
  if (!lls_store_front_count(api, &c))
    return;
  lls_page_head(page, state, "gauge", "Batches that are not over.");
  lls_page_labelled(page, state, c.validating, "state", "validating", NULL);
  lls_page_labelled(page, state, c.in_progress, "state", "in_progress", NULL);
  lls_page_labelled(page, state, c.ending, "state", "ending", NULL);
  lls_page_gauge(page, "llmserve_batch_lines_queued",
                 "Lines of these that are not answered.", (double)c.lines_queued);
  lls_page_head(page, lines, "counter", "Lines of batches that were answered.");
  lls_page_labelled(page, lines, (double)c.lines_completed, "outcome", "completed", NULL);
  lls_page_labelled(page, lines, (double)c.lines_failed, "outcome", "failed", NULL);
  lls_page_gauge(page, "llmserve_batches_blocked",
                 "1 while the folder of [server] state cannot be written.", c.blocked);
  lls_page_gauge(page, "llmserve_state_up",
                 "1; 0 while the database of [server] state_database does not answer or "
                 "the folder of state cannot be written.",
                 !c.blocked && !c.lost);
}

static void traces(struct lls_page *page, const struct lls_api *api)
{
  static const char name[] = "llmserve_trace_spans_total";
  struct lls_export_counts c;
  if (api->config.traces == NULL)
    return;
  lls_exporter_count(api->config.traces, &c);
  lls_page_head(page, name, "counter",
                "Spans for the collector: sent; failed: it did not take them; dropped: "
                "there were too many.");
  lls_page_labelled(page, name, (double)c.sent, "outcome", "sent", NULL);
  lls_page_labelled(page, name, (double)c.failed, "outcome", "failed", NULL);
  lls_page_labelled(page, name, (double)c.dropped, "outcome", "dropped", NULL);
}

void lls_page_llmserve(struct lls_page *page, const struct lls_api *api,
                       const struct lls_loop_status *status)
{
  build(page);
  step_numbers(page, status);
  preemptions(page, status);
  sessions(page, api->config.loop, status);
  disk(page, status);
  predictions(page, status);
  estimates(page, &status->estimates);
  lls_page_policies(page, api, status);
  cache_units(page, status);
  cached_tokens(page, status);
  instance_numbers(page, api->config.loop, status);
  class_numbers(page, api);
  tenant_numbers(page, api);
  lls_page_gauge(page, "llmserve_scheduler_fallback",
                 "1 when the built-in order has replaced the scheduler.",
                 status->fallen_back);
  reload_numbers(page, api);
  batch_numbers(page, api);
  http_numbers(page, api);
  traces(page, api);
}
