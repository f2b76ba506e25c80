/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions of lengths, as text:
 *
 *   fixed:N   uniform:A..B   lognormal:MEAN,STD[,A..B]   exponential:MEAN[,A..B]
 *   file:PATH[:COLUMN]       lengths of a CSV column, the first by default
 *   W*DIST+W*DIST...         a mixture; weights need not add up to 1
 *
 * MEAN and STD are those of the whole distribution; lengths outside of A..B are drawn
 * again.
 */
#ifndef LLS_WORKLOAD_LENGTHS_H
#define LLS_WORKLOAD_LENGTHS_H

#include "core/base/error.h"
#include "tools/workload/random.h"

struct lls_lengths;

int lls_lengths_parse(const char *text, struct lls_lengths **out, struct lls_error *err);
void lls_lengths_free(struct lls_lengths *);
/* 1.. */
uint32_t lls_lengths_draw(const struct lls_lengths *, struct lls_random *);

#endif
