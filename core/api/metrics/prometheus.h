/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a page in Prometheus' text format, family by family. */
#ifndef LLS_API_PROMETHEUS_H
#define LLS_API_PROMETHEUS_H

#include "core/api/api_internal.h"

struct lls_page {
  struct lls_text text;
  struct lls_text labels; /* model_name and engine, for the vllm: series */
};

/* Each writes a family of one sample; vllm: series get the labels of the page. */
void lls_page_number(struct lls_page *page, const char *name, const char *type,
                     const char *help, double value);
void lls_page_gauge(struct lls_page *page, const char *name, const char *help,
                    double value);
void lls_page_counter(struct lls_page *page, const char *name, const char *help,
                      uint64_t value);
void lls_page_histogram(struct lls_page *page, const char *name, const char *help,
                        const struct lls_histogram *values);

/* lls_page_head writes the head of a family with more labels, lls_page_labelled one
 * sample of it; the labels follow as name, value, ..., NULL. */
void lls_page_head(struct lls_page *page, const char *name, const char *type,
                   const char *help);
void lls_page_labelled(struct lls_page *page, const char *name, double value, ...)
    __attribute__((sentinel));

/* Each writes one part of the page. */
void lls_page_vllm(struct lls_page *page, const struct lls_api *api,
                   const struct lls_loop_status *status);
void lls_page_llmserve(struct lls_page *page, const struct lls_api *api,
                       const struct lls_loop_status *status);
void lls_page_policies(struct lls_page *page, const struct lls_api *api,
                       const struct lls_loop_status *status);
void lls_page_http(struct lls_page *page, const struct lls_api *api);
void lls_page_process(struct lls_page *page, const struct lls_api *api);
/* Metrics under former names of vLLM and under llama.cpp's names: written if
 * configured. */
void lls_page_legacy(struct lls_page *page, const struct lls_api *api,
                     const struct lls_loop_status *status);
void lls_page_llamacpp(struct lls_page *page, const struct lls_api *api,
                       const struct lls_loop_status *status);

#endif
