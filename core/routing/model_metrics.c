/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics of the router: the models' states, and its own HTTP and process series.
 * The series of a loaded model are at /metrics?model=NAME. */
#include "core/routing/routing_internal.h"

#include <utlist.h>

#include "core/api/metrics/prometheus.h"

struct series {
  const char *name, *type, *help;
  double (*value)(const struct lls_hosted *model);
};

static double is_loaded(const struct lls_hosted *m)
{
  return m->state == LLS_HOSTED_LOADED;
}

static double has_failed(const struct lls_hosted *m)
{
  return m->failed;
}

static double count_active(const struct lls_hosted *m)
{
  return m->n_active;
}

static double count_waiting(const struct lls_hosted *m)
{
  const struct lls_relay *r;
  double n = 0;
  DL_FOREACH (m->waiting, r)
    n++;
  return n;
}

static double count_loads(const struct lls_hosted *m)
{
  return (double)m->loads;
}

static double count_failures(const struct lls_hosted *m)
{
  return (double)m->load_failures;
}

static double count_crashes(const struct lls_hosted *m)
{
  return (double)m->crashes;
}

static double count_unloads(const struct lls_hosted *m)
{
  return (double)m->unloads;
}

static double memory_of(const struct lls_hosted *m)
{
  return m->process != NULL ? (double)lls_model_process_memory(m->process) : 0;
}

static const struct series all[] = {
    {"llmserve_model_loaded", "gauge", "1 if the model is loaded.", is_loaded},
    {"llmserve_model_failed", "gauge", "1 if its last process ended by itself.",
     has_failed},
    {"llmserve_model_requests", "gauge", "Requests in its process.", count_active},
    {"llmserve_model_requests_waiting", "gauge", "Requests that wait until it is loaded.",
     count_waiting},
    {"llmserve_model_memory_bytes", "gauge", "Resident memory of its process.",
     memory_of},
    {"llmserve_model_loads_total", "counter", "How often it was loaded.", count_loads},
    {"llmserve_model_load_failures_total", "counter", "How often it could not be loaded.",
     count_failures},
    {"llmserve_model_crashes_total", "counter",
     "How often its process ended by itself after it was loaded.", count_crashes},
    {"llmserve_model_unloads_total", "counter", "How often it was unloaded.",
     count_unloads},
};

static void write_series(struct lls_page *page, const struct lls_routing *routing,
                         const struct series *s)
{
  const struct lls_hosted *m;
  lls_page_head(page, s->name, s->type, s->help);
  LL_FOREACH (routing->models, m) {
    if (!m->removed)
      lls_page_labelled(page, s->name, s->value(m), "model_name", m->name, NULL);
  }
}

void lls_routing_metrics(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  struct lls_page page = {0};
  LLS_ROUTING_ON_MAIN(routing);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    write_series(&page, routing, &all[i]);
  lls_page_http(&page, routing->api);
  lls_page_process(&page, routing->api);
  lls_http_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                 page.text.data, page.text.length);
  lls_text_free(&page.text);
  lls_text_free(&page.labels);
}
