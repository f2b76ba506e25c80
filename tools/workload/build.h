/* SPDX-License-Identifier: Apache-2.0 */
/* The stages in workload.h's diagram; each works on the rows of the previous one. */
#ifndef LLS_WORKLOAD_BUILD_H
#define LLS_WORKLOAD_BUILD_H

#include "tools/workload/reader.h"

/* Makes rows of the datasets that are no file: random, prefix_repetition, agents. */
int lls_make_random(const struct lls_workload_options *, uint32_t n, struct lls_rows *,
                    struct lls_error *);
int lls_make_prefix_repetition(const struct lls_workload_options *, uint32_t n,
                               struct lls_rows *, struct lls_error *);

/* Makes n sessions. */
int lls_make_agents(const struct lls_workload_options *, uint32_t n, struct lls_rows *,
                    struct lls_error *);

/* Parses --request-rate: requests per second, infinity, or NaN for auto. */
int lls_rate_parse(const char *text, double *rate, struct lls_error *);

/* Sets every row's arrival_ns and sorts the rows by arrival. */
int lls_set_arrivals(const struct lls_workload_options *, struct lls_rows *,
                     struct lls_error *);

/* Sets classes, tenants, then SLOs. Rows that already have some keep them. */
int lls_set_classes(const struct lls_workload_options *, struct lls_rows *,
                    struct lls_error *);
int lls_set_slos(const struct lls_workload_options *, struct lls_rows *,
                 struct lls_error *);

/* Appends the best-effort batches; periodic batches up to until_ns. */
int lls_add_batches(const struct lls_workload_options *, int64_t until_ns,
                    struct lls_rows *, struct lls_error *);

#endif
