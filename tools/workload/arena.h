/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one workload: allocated in pieces, freed all at once. */
#ifndef LLS_WORKLOAD_ARENA_H
#define LLS_WORKLOAD_ARENA_H

#include <stddef.h>

struct lls_arena;

/* Returns NULL if out of memory. */
struct lls_arena *lls_arena_create(void);
void lls_arena_destroy(struct lls_arena *);
/* Returns memory aligned for any type, not zeroed; NULL if out of memory. */
void *lls_arena_take(struct lls_arena *, size_t bytes);
void *lls_arena_copy(struct lls_arena *, const void *data, size_t bytes);
char *lls_arena_text(struct lls_arena *, const char *text, size_t length);

#endif
