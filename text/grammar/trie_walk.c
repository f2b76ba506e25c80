/* SPDX-License-Identifier: Apache-2.0 */
/* See trie_walk.h. */
#include "text/grammar/trie_walk.h"

#include <stdlib.h>

#define ENTRIES 4096 /* a power of two */

struct entry {
  uint64_t key, walk; /* walk: number of the walk that stored the entry; others than
                       * the current one are free */
  struct lls_configuration to;
  bool reached;
};

struct lls_walk_memory {
  uint64_t walk;
  uint32_t n; /* entries of the current walk */
  struct entry entries[ENTRIES];
};

struct lls_walk_memory *lls_walk_memory_create(void)
{
  struct lls_walk_memory *memory = calloc(1, sizeof *memory);
  if (memory != NULL)
    memory->walk = 1;
  return memory;
}

static void forget(struct lls_walk *w)
{
  w->memory->walk++;
  w->memory->n = 0;
  lls_stacks_back(w->stacks, w->mark);
}

void lls_walk_begin(struct lls_walk *w, struct lls_walk_memory *memory,
                    struct lls_stacks *s, const struct lls_configuration *from,
                    uint32_t depth)
{
  w->stacks = s;
  w->memory = memory;
  w->before = w->mark = lls_stacks_mark(s);
  w->first = s->n_threads;
  w->at[0] = *from;
  w->reached[0] = false;
  w->mark.threads = s->n_threads + depth + 1;
  if (depth >= LLS_WALK_DEPTH || w->mark.threads > s->thread_capacity)
    s->full = true;
  else
    forget(w);
}

void lls_walk_end(struct lls_walk *w)
{
  lls_stacks_back(w->stacks, w->before);
}

/* Handles a step in which one thread continues in the middle of its rule, or ends
 * there. Returns false for all other steps. */
static bool step_one(struct lls_walk *w, uint32_t depth, uint8_t byte)
{
  struct lls_stacks *s = w->stacks;
  const struct lls_thread t = s->threads[w->at[depth - 1].first];
  uint32_t to = lls_dfa_next(s->dfa, t.state, byte);
  const struct lls_dfa_state *state = &s->dfa->states[to];
  if (to == LLS_DFA_DEAD && s->dfa->full)
    return false;
  if (to != LLS_DFA_DEAD && (state->accepts || state->n_calls > 0))
    return false;
  w->reached[depth] = false;
  w->at[depth] = (struct lls_configuration){w->first + depth, to != LLS_DFA_DEAD, false};
  s->threads[w->first + depth] = (struct lls_thread){to, t.frame, 1};
  return true;
}

/* Returns the cache key: the configuration at this depth and the kind of the byte. */
static uint64_t key_of(const struct lls_walk *w, uint32_t depth, uint8_t byte)
{
  const struct lls_stacks *s = w->stacks;
  const struct lls_configuration *from = &w->at[depth - 1];
  uint64_t class = s->dfa->nfa->class_of[byte];
  if (from->n > 1)
    return (uint64_t)from->first << 8 | class;
  const struct lls_thread *t = &s->threads[from->first];
  return UINT64_C(1) << 63 | (uint64_t)t->state << 32 | (uint64_t)t->frame << 8 | class;
}

/* Returns the entry of the key, or a free one if there is none. */
static struct entry *find(struct lls_walk_memory *memory, uint64_t key)
{
  uint64_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> 40;
  for (;; at++) {
    struct entry *e = &memory->entries[at % ENTRIES];
    if (e->walk != memory->walk || e->key == key)
      return e;
  }
}

static bool is_crowded(const struct lls_walk *w)
{
  const struct lls_stacks *s = w->stacks;
  return w->memory->n > ENTRIES / 4 * 3 || s->n_threads > s->thread_capacity / 4 * 3 ||
         s->n_frames > s->frame_capacity / 4 * 3 || s->n_edges > s->edge_capacity / 4 * 3;
}

static struct entry *note(struct lls_walk_memory *memory, uint64_t key,
                          const struct lls_configuration *to, bool reached)
{
  struct entry *e = find(memory, key);
  *e = (struct entry){key, memory->walk, *to, reached};
  memory->n++;
  return e;
}

/* Merges equivalent configurations: *to becomes one already stored. */
static void share(struct lls_walk *w, struct lls_configuration *to,
                  struct lls_stacks_mark before)
{
  struct lls_stacks *s = w->stacks;
  uint64_t key = UINT64_C(1) << 62 | lls_stacks_hash(s, to);
  const struct entry *e = find(w->memory, key);
  if (e->walk != w->memory->walk) {
    note(w->memory, key, to, false);
  } else if (lls_stacks_same(s, &e->to, to)) {
    to->first = e->to.first;
    lls_stacks_back(s, before);
  }
}

static struct entry *step_anew(struct lls_walk *w, uint32_t depth, uint8_t byte)
{
  struct lls_stacks *s = w->stacks;
  const struct lls_stacks_mark before = lls_stacks_mark(s);
  struct lls_configuration to = lls_stacks_step(s, &w->at[depth - 1], byte);
  bool reached = s->root_reached;
  if (to.n > 0 && !s->full)
    share(w, &to, before);
  return note(w->memory, key_of(w, depth, byte), &to, reached);
}

static void step(struct lls_walk *w, uint32_t depth, uint8_t byte, bool may_forget);

/* Walks the path to this depth again, after clearing the cache. */
static void begin_again(struct lls_walk *w, uint32_t depth)
{
  forget(w);
  for (uint32_t i = 1; i <= depth && !w->stacks->full; i++, w->stacks->work++)
    step(w, i, w->bytes[i], false);
}

static void step(struct lls_walk *w, uint32_t depth, uint8_t byte, bool may_forget)
{
  if (w->at[depth - 1].n == 1 && step_one(w, depth, byte))
    return;
  w->reached[depth] = false;
  w->at[depth] = (struct lls_configuration){0};
  if (w->at[depth - 1].n == 0)
    return;
  struct entry *e = find(w->memory, key_of(w, depth, byte));
  if (e->walk != w->memory->walk && may_forget && is_crowded(w)) {
    begin_again(w, depth);
    return;
  }
  if (e->walk != w->memory->walk)
    e = step_anew(w, depth, byte);
  w->at[depth] = e->to;
  w->reached[depth] = e->reached;
}

void lls_walk_step(struct lls_walk *w, uint32_t depth, uint8_t byte)
{
  w->bytes[depth] = byte;
  w->stacks->work++;
  step(w, depth, byte, true);
}
