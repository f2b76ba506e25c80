/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Earlier answers: vectors with lengths, found again by nearness, bounded.
 *
 * Two generations of half the bound each. Answers go into the young one; when it is full
 * the old one is forgotten as a whole and the young one becomes old. So between half of
 * the bound and all of it is remembered, always the newest, and nothing has ever to be
 * taken out of a graph, which would cost it links. A prompt that is there already gets
 * the new length in its place.
 *
 * One thread at a time.
 */
#ifndef LLS_RETRIEVAL_HISTORY_H
#define LLS_RETRIEVAL_HISTORY_H

#include "plugins/predictors/retrieval/estimate.h"
#include "plugins/predictors/retrieval/store.h"

#define HISTORY_MOST_NEIGHBOURS 64

struct history;

/* store: where answers are written too, or NULL; belongs to the history from now on. */
int history_create(uint32_t dims, uint32_t bound, struct store *store,
                   struct history **out);
void history_destroy(struct history *); /* NULL is fine */

/* Reads from the store what is newer than what is known. It is put in its place by calls
 * of history_load_some, a few at a time since that takes a while; 1: there is more, 0:
 * that was all. Both 0 or a negative errno. */
int history_load(struct history *);
int history_load_some(struct history *, uint32_t most);
uint32_t history_near(const struct history *, const float *vector, uint32_t k,
                      struct neighbour *out);
/* 0 or -ENOMEM. Written out by history_commit. */
int history_add(struct history *, const float *vector, uint32_t length);
void history_commit(struct history *);
uint32_t history_count(const struct history *);
bool history_is_stored(const struct history *);

/* For a reload: entries from the oldest to the newest. */
void history_each(const struct history *,
                  void (*entry)(void *context, const float *vector, uint32_t length),
                  void *context);

#endif
