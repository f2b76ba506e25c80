/* SPDX-License-Identifier: Apache-2.0 */
/* Writes metric families and samples with the labels of their page; see prometheus.h. */
#include "core/api/metrics/prometheus.h"

#include <stdarg.h>

static const char *labels_of(const struct lls_page *page, const char *name)
{
  return name[0] == 'v' && page->labels.data != NULL ? page->labels.data : "";
}

void lls_page_head(struct lls_page *page, const char *name, const char *type,
                   const char *help)
{
  lls_metrics_head(&page->text, name, type, help);
}

void lls_page_number(struct lls_page *page, const char *name, const char *type,
                     const char *help, double value)
{
  lls_metrics_head(&page->text, name, type, help);
  lls_metrics_sample(&page->text, name, labels_of(page, name), value);
}

void lls_page_gauge(struct lls_page *page, const char *name, const char *help,
                    double value)
{
  lls_page_number(page, name, "gauge", help, value);
}

void lls_page_counter(struct lls_page *page, const char *name, const char *help,
                      uint64_t value)
{
  lls_page_number(page, name, "counter", help, (double)value);
}

void lls_page_histogram(struct lls_page *page, const char *name, const char *help,
                        const struct lls_histogram *values)
{
  lls_metrics_head(&page->text, name, "histogram", help);
  lls_metrics_histogram(&page->text, name, labels_of(page, name), values);
}

void lls_page_labelled(struct lls_page *page, const char *name, double value, ...)
{
  struct lls_text labels = {0};
  va_list args;
  lls_text_puts(&labels, labels_of(page, name));
  va_start(args, value);
  for (const char *label; (label = va_arg(args, const char *)) != NULL;)
    lls_metrics_label(&labels, label, va_arg(args, const char *));
  va_end(args);
  if (!labels.failed)
    lls_metrics_sample(&page->text, name, labels.data, value);
  lls_text_free(&labels);
}
