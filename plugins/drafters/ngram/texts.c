/* SPDX-License-Identifier: Apache-2.0 */
/* See texts.h. */
#include "texts.h"

#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST     256        /* tokens of the smallest automaton */
#define MOST      (1u << 20) /* ... of the largest */
#define MOST_LEFT 1024       /* sessions that left a text */

/* ---- memory ----------------------------------------------------------------------- */

static size_t bytes_of(const struct text *t)
{
  return t->automaton.capacity > 0 ? automaton_bytes(t->automaton.capacity) : 0;
}

static void drop(struct texts *all, struct text *t)
{
  if (t == NULL)
    return;
  all->bytes -= bytes_of(t);
  automaton_free(&t->automaton);
  free(t);
}

static void unlink_left(struct texts *all, struct text *t)
{
  *(t->older != NULL ? &t->older->newer : &all->oldest) = t->newer;
  *(t->newer != NULL ? &t->newer->older : &all->newest) = t->older;
  t->older = t->newer = NULL;
  all->n_left--;
}

static void forget_oldest(struct texts *all)
{
  struct text *t = all->oldest;
  unlink_left(all, t);
  drop(all, t);
}

/* Empties the text; it has memory for as many tokens as before. */
static void begin_again(struct text *t)
{
  automaton_clear(&t->automaton);
  t->begin = t->skip = t->read = 0;
}

/* Makes room for a token and a separator, in twice the memory if there is that much.
 * Returns false if there is none. */
static bool make_room(struct texts *all, struct text *t)
{
  struct automaton *a = &t->automaton;
  if (a->n + 2 <= a->capacity)
    return true;
  uint32_t capacity = a->capacity > 0 ? 2 * a->capacity : LEAST;
  size_t more = automaton_bytes(capacity) - bytes_of(t);
  while (all->bytes + more > all->most_bytes && all->n_left > 0)
    forget_oldest(all);
  if (capacity > MOST || all->bytes + more > all->most_bytes ||
      automaton_reserve(a, capacity) < 0)
    return false;
  all->bytes += more;
  return true;
}

int texts_init(struct texts *all, uint32_t slots, uint32_t max_drafts, size_t most_bytes)
{
  *all = (struct texts){.slots = slots,
                        .max_drafts = max_drafts,
                        .most_bytes = most_bytes,
                        .by_slot = calloc(slots, sizeof(struct text *))};
  return all->by_slot != NULL ? 0 : -ENOMEM;
}

void texts_free(struct texts *all)
{
  for (uint32_t i = 0; all->by_slot != NULL && i < all->slots; i++)
    drop(all, all->by_slot[i]);
  while (all->n_left > 0)
    forget_oldest(all);
  free(all->by_slot);
}

/* ---- sessions --------------------------------------------------------------------- */

static struct text *left_by(struct texts *all, uint64_t session)
{
  struct text *t = session != 0 ? all->newest : NULL;
  while (t != NULL && t->session != session)
    t = t->older;
  return t;
}

/* Continues the text by the tokens of a new request, whose prompt usually repeats the
 * last one and its answer: these are not read again. */
static void go_on(struct text *t, const struct lls_request *r)
{
  struct automaton *a = &t->automaton;
  uint32_t same = 0, n = a->n - t->begin;
  while (same < n && t->skip + same < r->prompt_tokens &&
         a->text[t->begin + same] == r->tokens[t->skip + same])
    same++;
  t->read = same > 0 ? t->skip + same : 0;
  if (same == n && t->skip == 0)
    return;
  if (a->n > 0)
    automaton_separate(a);
  t->skip = t->read;
  t->begin = a->n;
}

struct text *texts_begin(struct texts *all, const struct lls_request *r)
{
  uint64_t session = r->session != NULL ? r->session->id : 0;
  struct text *t = left_by(all, session);
  if (t != NULL) {
    unlink_left(all, t);
    if (make_room(all, t))
      go_on(t, r);
    else
      begin_again(t);
  } else {
    t = calloc(1, sizeof *t + all->max_drafts * sizeof(int32_t));
  }
  if (t == NULL)
    return NULL;
  t->guesses = (int32_t *)(t + 1);
  t->session = session;
  t->n_guesses = t->expected = t->followed = 0;
  t->own = (struct own_odds){0};
  all->by_slot[r->slot] = t;
  return t;
}

void texts_end(struct texts *all, const struct lls_request *r, bool keep)
{
  struct text *t = all->by_slot[r->slot];
  all->by_slot[r->slot] = NULL;
  if (t == NULL || !keep || t->session == 0 || t->automaton.n == 0) {
    drop(all, t);
    return;
  }
  struct text *before = left_by(all, t->session);
  if (before != NULL) { /* of another request of the session */
    unlink_left(all, before);
    drop(all, before);
  }
  t->older = all->newest;
  *(all->newest != NULL ? &all->newest->newer : &all->oldest) = t;
  all->newest = t;
  if (++all->n_left > MOST_LEFT)
    forget_oldest(all);
}

/* ---- reading ---------------------------------------------------------------------- */

/* Returns the next token of the request that is not read: of what its client expects,
 * then of the request itself. The two are texts apart. */
static int32_t next_token(struct text *t, const struct lls_request *r)
{
  if (t->expected < r->n_expected)
    return r->expected[t->expected++];
  if (t->expected > 0 && t->expected == r->n_expected) {
    t->expected++;
    automaton_separate(&t->automaton);
    t->begin = t->automaton.n;
    t->skip = t->read;
  }
  return r->tokens[t->read++];
}

bool texts_read(struct texts *all, struct text *t, const struct lls_request *r,
                uint32_t pace)
{
  uint32_t length = lls_request_length(r);
  for (uint32_t i = 0; i < pace && t->read < length; i++) {
    if (!make_room(all, t)) {
      if (t->automaton.capacity < LEAST)
        return false;
      uint32_t newest = length - lls_pol_min(length, t->automaton.capacity) / 4;
      begin_again(t);
      t->skip = t->read = newest;
      t->expected = r->n_expected + 1;
    }
    automaton_add(&t->automaton, next_token(t, r));
  }
  return t->read == length;
}
