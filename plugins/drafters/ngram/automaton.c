/* SPDX-License-Identifier: Apache-2.0 */
/* The suffix automaton; see automaton.h. Edges are found by a hash of state and token,
 * since the first state has one for each token of the text. */
#include "automaton.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STATES(CAPACITY)  (2 * (size_t)(CAPACITY) + 2)
#define EDGES(CAPACITY)   (3 * (size_t)(CAPACITY) + 4)
#define BUCKETS(CAPACITY) (4 * (size_t)(CAPACITY)) /* a power of two */

/* Ends of the text whose newest occurrence is noted after each token. */
#define NOTED 8

size_t automaton_bytes(uint32_t capacity)
{
  return capacity * sizeof(int32_t) + STATES(capacity) * sizeof(struct state) +
         EDGES(capacity) * sizeof(struct edge) + BUCKETS(capacity) * sizeof(uint32_t);
}

static uint32_t *bucket_of(const struct automaton *a, uint32_t from, int32_t token)
{
  uint64_t hash = ((uint64_t)from << 32 | (uint32_t)token) * UINT64_C(0x9E3779B97F4A7C15);
  return &a->buckets[(hash >> 32) & (BUCKETS(a->capacity) - 1)];
}

static void chain(struct automaton *a, uint32_t i)
{
  struct edge *e = &a->edges[i];
  uint32_t *bucket = bucket_of(a, e->from, e->token);
  e->chained = *bucket;
  *bucket = i;
}

static void chain_all(struct automaton *a)
{
  memset(a->buckets, 0xff, BUCKETS(a->capacity) * sizeof *a->buckets);
  for (uint32_t i = 0; i < a->used_edges; i++)
    chain(a, i);
}

void automaton_clear(struct automaton *a)
{
  a->states[0] = (struct state){.link = NONE, .edges = NONE};
  a->used_states = 1;
  a->n = a->used_edges = a->last = 0;
  a->separators = 0;
  chain_all(a);
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
  uint32_t *buckets = malloc(BUCKETS(capacity) * sizeof *buckets);
  bool done = buckets != NULL && grow((void **)&a->text, capacity, sizeof *a->text) &&
              grow((void **)&a->states, STATES(capacity), sizeof *a->states) &&
              grow((void **)&a->edges, EDGES(capacity), sizeof *a->edges);
  if (!done) {
    free(buckets);
    return -ENOMEM;
  }
  free(a->buckets);
  a->buckets = buckets;
  a->capacity = capacity;
  if (a->used_states == 0)
    automaton_clear(a);
  else
    chain_all(a);
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
  uint32_t i = *bucket_of(a, from, token);
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
