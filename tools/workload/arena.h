/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one workload: taken piece by piece, given back all at once. */
#ifndef LLS_WORKLOAD_ARENA_H
#define LLS_WORKLOAD_ARENA_H

#include <stddef.h>

struct lls_arena;

/* NULL where there is no memory. */
struct lls_arena *lls_arena_create(void);
void lls_arena_destroy(struct lls_arena *);
/* Aligned for anything, not zeroed; NULL where there is no memory. */
void *lls_arena_take(struct lls_arena *, size_t bytes);
void *lls_arena_copy(struct lls_arena *, const void *data, size_t bytes);
char *lls_arena_text(struct lls_arena *, const char *text, size_t length);

#endif
