/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals of policies, and the numbers that policies report. Each kind of policy has a
 * family of gauges and one of counters; a label has the policy's own name of the
 * number. A family without numbers is omitted.
 */
#include <stdio.h>

#include "core/api/metrics/prometheus.h"
#include "core/instance/policy_figures.h"

static void refusals(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char name[] = "llmserve_requests_refused_total";
  lls_page_head(page, name, "counter",
                "Requests that a plugin refused, since it took over.");
  lls_page_labelled(page, name, (double)status->policies.scheduler.refusals, "plugin",
                    status->policies.scheduler.name, NULL);
  lls_page_labelled(page, name, (double)status->policies.cache.refusals, "plugin",
                    status->policies.cache.name, NULL);
}

static void breaches(struct lls_page *page, const struct lls_loop_status *status)
{
  static const char name[] = "llmserve_plugin_breaches_total";
  lls_page_head(
      page, name, "counter",
      "Answers of a plugin that its contract excludes, and late plans, since it "
      "took over.");
  lls_page_labelled(page, name, (double)status->policies.scheduler.breaches, "plugin",
                    status->policies.scheduler.name, NULL);
  lls_page_labelled(page, name, (double)status->policies.cache.breaches, "plugin",
                    status->policies.cache.name, NULL);
  lls_page_labelled(page, name, (double)status->policies.predictor.breaches, "plugin",
                    status->policies.predictor.name, NULL);
  if (status->policies.drafter.name[0] != '\0') /* programs may have none */
    lls_page_labelled(page, name, (double)status->policies.drafter.breaches, "plugin",
                      status->policies.drafter.name, NULL);
}

/* The figures of one kind of policy: current values, or counters. */
struct policy_family {
  const char *name, *type, *help;
  uint32_t kind;
  bool counters;
};

static const struct policy_family families[] = {
    {"llmserve_scheduler", "gauge",
     "What the scheduler says of itself; see the README of its plugin.",
     LLS_KIND_SCHEDULER, false},
    {"llmserve_scheduler_events_total", "counter",
     "What the scheduler has counted since it took over.", LLS_KIND_SCHEDULER, true},
    {"llmserve_cache", "gauge",
     "What the cache manager says of itself; see the README of its plugin.",
     LLS_KIND_CACHE, false},
    {"llmserve_cache_events_total", "counter",
     "What the cache manager has counted since it took over.", LLS_KIND_CACHE, true},
    {"llmserve_predictor", "gauge",
     "What the predictor says of itself; see the README of its plugin.",
     LLS_KIND_PREDICTOR, false},
    {"llmserve_predictor_events_total", "counter",
     "What the predictor has counted since it took over.", LLS_KIND_PREDICTOR, true},
    {"llmserve_drafter", "gauge",
     "What the drafter says of itself; see the README of its plugin.", LLS_KIND_DRAFTER,
     false},
    {"llmserve_drafter_events_total", "counter",
     "What the drafter has counted since it took over.", LLS_KIND_DRAFTER, true},
};

static void policy_samples(struct lls_page *page, const struct policy_family *family,
                           uint32_t instance, const struct lls_policy_stats *p,
                           bool *begun)
{
  const struct lls_policy_stat *list = family->counters ? p->counters : p->figures;
  uint32_t n = family->counters ? p->n_counters : p->n;
  char index[16];
  snprintf(index, sizeof index, "%u", instance);
  if (n > 0 && !*begun)
    lls_page_head(page, family->name, family->type, family->help);
  *begun |= n > 0;
  for (uint32_t i = 0; i < n; i++)
    lls_page_labelled(page, family->name, list[i].value, "instance", index, "plugin",
                      p->name, family->counters ? "event" : "figure", list[i].name, NULL);
}

static void policy_figures(struct lls_page *page, struct lls_loop *loop)
{
  for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
    bool begun = false;
    for (uint32_t i = 0; i < lls_loop_n_instances(loop); i++) {
      struct lls_loop_policy_stats all;
      lls_loop_policy_stats(loop, i, &all);
      policy_samples(page, &families[k], i, LLS_OF_KIND(&all, families[k].kind), &begun);
    }
  }
}

void lls_page_policies(struct lls_page *page, const struct lls_api *api,
                       const struct lls_loop_status *status)
{
  refusals(page, status);
  breaches(page, status);
  policy_figures(page, api->config.loop);
}
