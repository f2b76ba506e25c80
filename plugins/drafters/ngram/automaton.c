/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suffix automaton; see automaton.h. Edges are found by a hash of state and token,
 * since the first state has one for each token of the text. The hash grows by one bucket
 * an edge (Litwin, "Linear hashing", 1980), so that no token pays for all before it:
 * chaining all edges of 128k tokens at once took 20 ms, longer than a step.
 */
#include "automaton.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STATES(CAPACITY)  (2 * (size_t)(CAPACITY) + 2)
#define EDGES(CAPACITY)   (3 * (size_t)(CAPACITY) + 4)
#define BUCKETS(CAPACITY) (EDGES(CAPACITY) + 1)

/* Ends of the text whose newest occurrence is noted after each token. */
#define NOTED 8

size_t automaton_bytes(uint32_t capacity)
{
  return capacity * sizeof(int32_t) + STATES(capacity) * sizeof(struct state) +
         EDGES(capacity) * sizeof(struct edge) + BUCKETS(capacity) * sizeof(uint32_t);
}

/* Hashes beyond the newest bucket are in the one from which they will move. */
static uint32_t bucket_of(const struct automaton *a, const struct edge *e)
{
  uint64_t hash =
      ((uint64_t)e->from << 32 | (uint32_t)e->token) * UINT64_C(0x9E3779B97F4A7C15);
  uint32_t bucket = (uint32_t)(hash >> 32) & (2 * a->round - 1);
  return bucket < a->used_buckets ? bucket : bucket & (a->round - 1);
}

static void chain(struct automaton *a, uint32_t i)
{
  uint32_t *bucket = &a->buckets[bucket_of(a, &a->edges[i])];
  a->edges[i].chained = *bucket;
  *bucket = i;
}

/* Adds a bucket, with some of the edges of another one. */
static void split(struct automaton *a)
{
  if (a->used_buckets == 2 * a->round)
    a->round *= 2;
  uint32_t *old = &a->buckets[a->used_buckets - a->round], i = *old;
  a->buckets[a->used_buckets++] = *old = NONE;
  while (i != NONE) {
    uint32_t next = a->edges[i].chained;
    chain(a, i);
    i = next;
  }
}

void automaton_clear(struct automaton *a)
{
  a->states[0] = (struct state){.link = NONE, .edges = NONE};
  a->used_states = 1;
  a->n = a->used_edges = a->last = 0;
  a->separators = 0;
  a->used_buckets = a->round = 1;
  a->buckets[0] = NONE;
}

static bool grow(void **array, size_t n, size_t size)
{
  void *grown = realloc(*array, n * size);
  if (grown != NULL)
    *array = grown;
  return grown != NULL;
}

int automaton_reserve(struct automaton *a, uint32_t capacity)
{
  if (!grow((void **)&a->buckets, BUCKETS(capacity), sizeof *a->buckets) ||
      !grow((void **)&a->text, capacity, sizeof *a->text) ||
      !grow((void **)&a->states, STATES(capacity), sizeof *a->states) ||
      !grow((void **)&a->edges, EDGES(capacity), sizeof *a->edges))
    return -ENOMEM;
  a->capacity = capacity;
  if (a->used_states == 0)
    automaton_clear(a);
  return 0;
}

void automaton_free(struct automaton *a)
{
  free(a->text);
  free(a->states);
  free(a->edges);
  free(a->buckets);
  *a = (struct automaton){0};
}

/* ---- extending -------------------------------------------------------------------- */

static struct edge *find(const struct automaton *a, uint32_t from, int32_t token)
{
  const struct edge key = {.from = from, .token = token};
  uint32_t i = a->buckets[bucket_of(a, &key)];
  while (i != NONE && (a->edges[i].from != from || a->edges[i].token != token))
    i = a->edges[i].chained;
  return i != NONE ? &a->edges[i] : NULL;
}

static void connect(struct automaton *a, uint32_t from, int32_t token, uint32_t to)
{
  uint32_t i = a->used_edges++;
  a->edges[i] = (struct edge){
      .from = from, .to = to, .token = token, .next = a->states[from].edges};
  a->states[from].edges = i;
  chain(a, i);
  split(a);
}

/* Divides state q: its texts of at most `length` tokens get a state of their own, which
 * has the same edges and is the link of the others. */
static uint32_t divide(struct automaton *a, uint32_t q, uint32_t length)
{
  uint32_t clone = a->used_states++;
  a->states[clone] = (struct state){.length = length,
                                    .link = a->states[q].link,
                                    .end = a->states[q].end,
                                    .edges = NONE};
  for (uint32_t i = a->states[q].edges; i != NONE; i = a->edges[i].next)
    connect(a, clone, a->edges[i].token, a->edges[i].to);
  a->states[q].link = clone;
  return clone;
}

/* Returns the link of the new state: what p, whose edge is e, becomes by the token. */
static uint32_t link_by(struct automaton *a, uint32_t p, const struct edge *e)
{
  uint32_t q = e->to, length = a->states[p].length + 1;
  int32_t token = e->token;
  if (a->states[q].length == length)
    return q;
  uint32_t clone = divide(a, q, length);
  for (struct edge *at; p != NONE && (at = find(a, p, token)) != NULL && at->to == q;
       p = a->states[p].link)
    at->to = clone;
  return clone;
}

/* Notes that the text's longest ends that occur earlier occur here, too. Called when the
 * text grows, so that a match is not its own occurrence. */
static void note(struct automaton *a)
{
  uint32_t at = a->last;
  for (uint32_t i = 0; i < NOTED && at != 0; i++) {
    a->states[at].end = a->n;
    at = a->states[at].link;
  }
}

void automaton_add(struct automaton *a, int32_t token)
{
  note(a);
  uint32_t new = a->used_states++, p = a->last;
  struct edge *e = NULL;
  a->text[a->n++] = token;
  a->states[new] = (struct state){.length = a->n, .link = 0, .end = a->n, .edges = NONE};
  while (p != NONE && (e = find(a, p, token)) == NULL) {
    connect(a, p, token, new);
    p = a->states[p].link;
  }
  if (p != NONE)
    a->states[new].link = link_by(a, p, e);
  a->last = new;
}

void automaton_separate(struct automaton *a)
{
  automaton_add(a, --a->separators);
}

uint32_t automaton_match(const struct automaton *a, uint32_t *at)
{
  if (a->n == 0)
    return 0;
  const struct state *match = &a->states[a->states[a->last].link];
  *at = match->end;
  return match->length;
}
