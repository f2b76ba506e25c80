/* SPDX-License-Identifier: Apache-2.0 */
/* Two generations, searched together; see history.h. */
#include "plugins/predictors/retrieval/history.h"

#include <llmserve/policy/check.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/predictors/retrieval/index.h"

struct entry {
  uint32_t length;
  int64_t row; /* row of the entry in the store */
};

struct generation {
  struct graph *index;
  struct entry *entries; /* (capacity) by number in the index */
  uint32_t n;
};

/* Rows read from the store, the newest first, that are not in a graph yet. */
struct loading {
  uint32_t n;
  float *vectors;        /* (2 capacity, dims) */
  struct entry *entries; /* (2 capacity) */
};

struct history {
  uint32_t dims, capacity; /* dimensions of a vector; entries of a generation */
  struct generation young, old;
  int64_t newest; /* row */
  struct store *store;
  struct loading loading;
};

static int generation_init(struct generation *g, const struct history *h)
{
  *g = (struct generation){.index = index_create(h->dims, h->capacity),
                           .entries = malloc(h->capacity * sizeof *g->entries)};
  return g->index != NULL && g->entries != NULL ? 0 : -ENOMEM;
}

static void generation_free(struct generation *g)
{
  index_destroy(g->index);
  free(g->entries);
}

static int generation_add(struct generation *g, const float *vector, struct entry e)
{
  int rc = index_add(g->index, vector);
  if (rc == 0)
    g->entries[g->n++] = e;
  return rc;
}

int history_create(uint32_t dims, uint32_t bound, struct store *store,
                   struct history **out)
{
  struct history *h = calloc(1, sizeof *h);
  if (h == NULL)
    return -ENOMEM;
  h->dims = dims;
  h->capacity = (bound + 1) / 2;
  if (generation_init(&h->young, h) < 0 || generation_init(&h->old, h) < 0) {
    history_destroy(h);
    return -ENOMEM;
  }
  h->store = store;
  *out = h;
  return 0;
}

void history_destroy(struct history *h)
{
  if (h == NULL)
    return;
  generation_free(&h->young);
  generation_free(&h->old);
  store_close(h->store);
  free(h->loading.vectors);
  free(h->loading.entries);
  free(h);
}

/* ---- looking up -------------------------------------------------------------------- */

struct place {
  struct generation *generation;
  struct found found;
};

/* Returns the k best of both generations, the best first. */
static uint32_t search(const struct history *h, const float *vector, uint32_t k,
                       struct place *out)
{
  struct found young[HISTORY_MOST_NEIGHBOURS], old[HISTORY_MOST_NEIGHBOURS];
  LLS_POL_CHECK(k <= HISTORY_MOST_NEIGHBOURS);
  uint32_t n_young = index_search(h->young.index, vector, k, young);
  uint32_t n_old = index_search(h->old.index, vector, k, old), n = 0;
  for (uint32_t y = 0, o = 0; n < k && (y < n_young || o < n_old); n++) {
    bool from_young =
        o == n_old || (y < n_young && young[y].similarity >= old[o].similarity);
    LLS_POL_CHECK(from_young ? young[y].number < h->young.n : old[o].number < h->old.n);
    out[n] = from_young ? (struct place){(struct generation *)&h->young, young[y++]}
                        : (struct place){(struct generation *)&h->old, old[o++]};
  }
  return n;
}

uint32_t history_near(const struct history *h, const float *vector, uint32_t k,
                      struct neighbour *out)
{
  struct place places[HISTORY_MOST_NEIGHBOURS];
  uint32_t n = search(h, vector, k, places);
  for (uint32_t i = 0; i < n; i++)
    out[i] = (struct neighbour){
        .similarity = places[i].found.similarity,
        .length = places[i].generation->entries[places[i].found.number].length,
    };
  return n;
}

/* ---- adding ------------------------------------------------------------------------ */

static int64_t first_row(const struct generation *g)
{
  int64_t first = INT64_MAX;
  for (uint32_t i = 0; i < g->n; i++)
    first = g->entries[i].row < first ? g->entries[i].row : first;
  return first;
}

/* Makes the full young generation the old one. */
static int age(struct history *h)
{
  struct generation fresh;
  LLS_POL_CHECK(h->young.n == h->capacity);
  int rc = generation_init(&fresh, h);
  if (rc < 0) {
    generation_free(&fresh);
    return rc;
  }
  generation_free(&h->old);
  h->old = h->young;
  h->young = fresh;
  if (h->store != NULL)
    store_drop_before(h->store, first_row(&h->old));
  return 0;
}

static int put(struct history *h, const float *vector, struct entry e)
{
  int rc = h->young.n == h->capacity ? age(h) : 0;
  return rc < 0 ? rc : generation_add(&h->young, vector, e);
}

/* Returns the geometric mean of an answer's length and the earlier estimate for the
 * same prompt. Sampled answers differ, so two predict better than one (by arithmetic:
 * if their logarithms are normal with a deviation of .42, the error is .59 from the
 * last one and .49 from this mean); equal answers keep their length. */
static uint32_t blend_lengths(uint32_t before, uint32_t now)
{
  return (uint32_t)lround(sqrt((double)before * now));
}

int history_add(struct history *h, const float *vector, uint32_t length)
{
  struct place same;
  if (search(h, vector, 1, &same) == 1 && same.found.similarity >= ESTIMATE_SAME) {
    struct entry *e = &same.generation->entries[same.found.number];
    e->length = blend_lengths(e->length, length);
    if (h->store != NULL)
      store_change(h->store, e->row, e->length);
    return 0;
  }
  /* A file may say that its newest row is the last there can be. */
  int64_t row = h->newest < INT64_MAX ? h->newest + 1 : INT64_MAX;
  struct entry e = {.length = length, .row = row};
  if (h->store != NULL)
    store_add(h->store, length, vector, &e.row);
  h->newest = e.row > h->newest ? e.row : h->newest;
  return put(h, vector, e);
}

void history_commit(struct history *h)
{
  if (h->store != NULL)
    store_commit(h->store);
}

/* ---- filling ----------------------------------------------------------------------- */

static void forget_loading(struct history *h)
{
  free(h->loading.vectors);
  free(h->loading.entries);
  h->loading = (struct loading){0};
}

static void keep_row(void *context, int64_t id, uint32_t length, const float *vector)
{
  struct history *h = context;
  struct loading *l = &h->loading;
  LLS_POL_CHECK(l->n < 2 * (size_t)h->capacity);
  memcpy(l->vectors + (size_t)l->n * h->dims, vector, h->dims * sizeof *vector);
  l->entries[l->n++] = (struct entry){.length = length, .row = id};
  h->newest = id > h->newest ? id : h->newest;
}

int history_load(struct history *h)
{
  size_t most = 2 * (size_t)h->capacity;
  if (h->store == NULL)
    return 0;
  forget_loading(h);
  h->loading.vectors = malloc(most * h->dims * sizeof(float));
  h->loading.entries = malloc(most * sizeof(struct entry));
  if (h->loading.vectors == NULL || h->loading.entries == NULL)
    return -ENOMEM;
  return store_load(h->store, h->newest, (uint32_t)most, keep_row, h);
}

/* Inserts rows from the oldest to the newest, in the order in which they were written. */
int history_load_some(struct history *h, uint32_t most)
{
  struct loading *l = &h->loading;
  for (; l->n > 0 && most > 0; most--) {
    uint32_t i = --l->n;
    int rc = put(h, l->vectors + (size_t)i * h->dims, l->entries[i]);
    if (rc < 0)
      return rc;
  }
  if (l->n > 0)
    return 1;
  forget_loading(h);
  return 0;
}

/* ---- asking ------------------------------------------------------------------------ */

uint32_t history_count(const struct history *h)
{
  return h->young.n + h->old.n;
}

bool history_is_stored(const struct history *h)
{
  return h->store != NULL;
}

void history_each(const struct history *h,
                  void (*entry)(void *context, const float *vector, uint32_t length),
                  void *context)
{
  const struct generation *const both[] = {&h->old, &h->young};
  float *vector = malloc(h->dims * sizeof *vector);
  for (size_t i = 0; vector != NULL && i < 2; i++)
    for (uint32_t j = 0; j < both[i]->n; j++) {
      index_vector(both[i]->index, j, vector);
      entry(context, vector, both[i]->entries[j].length);
    }
  free(vector);
}
