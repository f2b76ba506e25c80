/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of HTTP requests by path: the http_ series under the names of FastAPI's
 * instrumentation, which vLLM exposes too. routes.c counts them.
 */
#include <stdio.h>

#include "core/api/metrics/prometheus.h"

static void answers(struct lls_page *page, const struct lls_api *api)
{
  static const char name[] = "http_requests_total";
  lls_page_head(page, name, "counter",
                "Requests that were answered, by path, method and class of status.");
  for (size_t i = 0; i < api->n_routes; i++)
    for (unsigned c = 0; c < LLS_STATUS_CLASSES; c++) {
      char status[] = {(char)('0' + c), 'x', 'x', '\0'};
      if (api->routes[i].answers[c] > 0)
        lls_page_labelled(page, name, (double)api->routes[i].answers[c], "handler",
                          api->routes[i].path, "method", api->routes[i].method, "status",
                          status, NULL);
    }
}

/* Writes a summary without quantiles: the sum and the count for each path. */
static void sizes(struct lls_page *page, const struct lls_api *api, const char *name,
                  const char *help, size_t member)
{
  char sum[64], count[64];
  snprintf(sum, sizeof sum, "%s_sum", name);
  snprintf(count, sizeof count, "%s_count", name);
  lls_page_head(page, name, "summary", help);
  for (size_t i = 0; i < api->n_routes; i++) {
    const struct lls_route_stats *stats = &api->routes[i];
    uint64_t n = lls_histogram_count(&stats->seconds);
    const void *bytes = (const char *)stats + member;
    if (n == 0)
      continue;
    lls_page_labelled(page, count, (double)n, "handler", stats->path, NULL);
    lls_page_labelled(page, sum, (double)*(const uint64_t *)bytes, "handler", stats->path,
                      NULL);
  }
}

static void durations(struct lls_page *page, const struct lls_api *api)
{
  static const char name[] = "http_request_duration_seconds";
  lls_page_histogram(page, "http_request_duration_highr_seconds",
                     "From a request's last byte to its answer's, of all paths.",
                     &api->answer_seconds);
  lls_page_head(page, name, "histogram",
                "From a request's last byte to its answer's, by path and method.");
  for (size_t i = 0; i < api->n_routes; i++) {
    struct lls_text labels = {0};
    if (lls_histogram_count(&api->routes[i].seconds) == 0)
      continue;
    lls_metrics_label(&labels, "handler", api->routes[i].path);
    lls_metrics_label(&labels, "method", api->routes[i].method);
    if (!labels.failed)
      lls_metrics_histogram(&page->text, name, labels.data, &api->routes[i].seconds);
    lls_text_free(&labels);
  }
}

void lls_page_http(struct lls_page *page, const struct lls_api *api)
{
  answers(page, api);
  sizes(page, api, "http_request_size_bytes", "Bytes of the bodies of requests.",
        offsetof(struct lls_route_stats, received_bytes));
  sizes(page, api, "http_response_size_bytes", "Bytes of the bodies of answers.",
        offsetof(struct lls_route_stats, sent_bytes));
  durations(page, api);
}