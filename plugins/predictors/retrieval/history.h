/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Earlier answers: prompt vectors with answer lengths, searched by similarity, at most
 * `bound` of them.
 *
 * They are kept in two generations of half the bound each. Answers go into the young one;
 * when it is full the old one is freed as a whole and the young one becomes old. So the
 * newest answers are kept, between half of the bound and all of it, and no vector is ever
 * removed from a graph, which would cost it links. The answer of a prompt that is kept
 * already replaces its length.
 *
 * One thread at a time.
 */
#ifndef LLS_RETRIEVAL_HISTORY_H
#define LLS_RETRIEVAL_HISTORY_H

#include "plugins/predictors/retrieval/estimate.h"
#include "plugins/predictors/retrieval/store.h"

#define HISTORY_MOST_NEIGHBOURS 64

struct history;

/* store: the file to which answers are written as well, or NULL; the history owns it from
 * now on. */
int history_create(uint32_t dims, uint32_t bound, struct store *store,
                   struct history **out);
void history_destroy(struct history *); /* NULL is fine */

/* history_load reads the answers from the store that are newer than those in memory, and
 * returns 0. history_load_some then inserts up to `most` of them, since inserting all
 * takes long; it returns 1 if more are left, else 0. Both return -errno on failure. */
int history_load(struct history *);
int history_load_some(struct history *, uint32_t most);
uint32_t history_near(const struct history *, const float *vector, uint32_t k,
                      struct neighbour *out);
/* Returns 0 or -ENOMEM. The store has the answer after history_commit. */
int history_add(struct history *, const float *vector, uint32_t length);
void history_commit(struct history *);
uint32_t history_count(const struct history *);
bool history_is_stored(const struct history *);

/* For a reload: entries from the oldest to the newest. */
void history_each(const struct history *,
                  void (*entry)(void *context, const float *vector, uint32_t length),
                  void *context);

#endif
