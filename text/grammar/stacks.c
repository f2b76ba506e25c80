/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advances threads through calls, byte by byte; see stacks.h.
 *
 * A configuration of an ambiguous grammar has hundreds of threads, each reached many
 * times. A few threads are compared one by one; many are found by a hash, as are the
 * edges of a frame. The work counts every visit of a thread or an edge, whether it is
 * new or not.
 */
#include "text/grammar/stacks.h"

#include <errno.h>
#include <stdlib.h>

#define MOST_THREADS (1u << 16)
#define MOST_FRAMES  (1u << 16)
#define MOST_EDGES   (1u << 17)
#define MOST_AT_ONCE 2048 /* threads of one configuration while it is built */
#define SLOTS        8192 /* table of these threads; edges have twice as many slots */
#define EDGE_SLOTS   16384
#define FEW          8 /* up to this many threads or edges are compared one by one */

int lls_stacks_create(struct lls_stacks *s, struct lls_dfa *dfa)
{
  size_t rules = dfa->nfa->n_rules;
  *s = (struct lls_stacks){.dfa = dfa,
                           .thread_capacity = MOST_THREADS,
                           .frame_capacity = MOST_FRAMES,
                           .edge_capacity = MOST_EDGES,
                           .most = UINT64_MAX};
  s->threads = calloc(MOST_THREADS, sizeof *s->threads);
  s->frames = calloc(MOST_FRAMES, sizeof *s->frames);
  s->edges = calloc(MOST_EDGES, sizeof *s->edges);
  s->frame_of_rule = calloc(rules, sizeof *s->frame_of_rule);
  s->called_at = calloc(rules, sizeof *s->called_at);
  s->edges_of_rule = calloc(rules, sizeof *s->edges_of_rule);
  s->thread_slots = calloc(SLOTS, sizeof *s->thread_slots);
  s->edge_slots = calloc(EDGE_SLOTS, sizeof *s->edge_slots);
  if (s->threads != NULL && s->frames != NULL && s->edges != NULL &&
      s->frame_of_rule != NULL && s->called_at != NULL && s->edges_of_rule != NULL &&
      s->thread_slots != NULL && s->edge_slots != NULL)
    return 0;
  lls_stacks_free(s);
  return -ENOMEM;
}

void lls_stacks_free(struct lls_stacks *s)
{
  free(s->threads);
  free(s->frames);
  free(s->edges);
  free(s->frame_of_rule);
  free(s->called_at);
  free(s->edges_of_rule);
  free(s->thread_slots);
  free(s->edge_slots);
  *s = (struct lls_stacks){0};
}

/* Returns true if both frames continue in the same way. */
static bool same_frame(const struct lls_stacks *s, uint32_t a, uint32_t b)
{
  const struct lls_frame *x = &s->frames[a], *y = &s->frames[b];
  if (a == b)
    return true;
  if (a == LLS_STACKS_ROOT || b == LLS_STACKS_ROOT || x->rule != y->rule ||
      x->done != y->done)
    return false;
  uint32_t e = x->edges, f = y->edges;
  while (e != f && e != 0 && f != 0 && s->edges[e].state == s->edges[f].state &&
         s->edges[e].frame == s->edges[f].frame) {
    e = s->edges[e].next;
    f = s->edges[f].next;
  }
  return e == f;
}

/* Returns true for a call after the last byte, which may still get more edges. */
static bool is_growing(const struct lls_stacks *s, uint32_t frame)
{
  uint32_t rule = s->frames[frame].rule;
  return s->called_at[rule] == s->clock && s->frame_of_rule[rule] == frame;
}

static bool is_known(const struct lls_stacks *s, const struct lls_thread *known,
                     uint32_t state, uint32_t frame, uint32_t arrived)
{
  if (known->state != state || known->arrived != arrived)
    return false;
  return known->frame == frame ||
         (!is_growing(s, frame) && !is_growing(s, known->frame) &&
          same_frame(s, known->frame, frame));
}

/* ---- finding among many ------------------------------------------------------------ */

static uint32_t mix(uint32_t hash, uint32_t a, uint32_t b)
{
  uint64_t h = (hash ^ ((uint64_t)a << 32 | b)) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(h >> 32 ^ h >> 7);
}

/* Hashes frames so that frames equal by same_frame have the same hash. A growing frame
 * is equal only to itself. */
static uint32_t hash_of_frame(struct lls_stacks *s, uint32_t frame)
{
  struct lls_frame *f = &s->frames[frame];
  if (frame == LLS_STACKS_ROOT || is_growing(s, frame))
    return mix(1, frame, 0);
  if (f->hash != 0)
    return f->hash;
  uint32_t hash = mix(2, f->rule, f->done);
  for (uint32_t e = f->edges; e != 0; e = s->edges[e].next, s->work++)
    hash = mix(hash, s->edges[e].state, s->edges[e].frame);
  return f->hash = hash | 1;
}

/* Returns true if the configuration already has the thread at this index, or one known
 * to be equivalent; else adds the thread to the table. */
static bool find_or_note(struct lls_stacks *s, uint32_t index)
{
  const struct lls_thread t = s->threads[index];
  uint32_t at = mix(hash_of_frame(s, t.frame), t.state, t.arrived) % SLOTS;
  for (; s->thread_slots[at].clock == s->clock; at = (at + 1) % SLOTS, s->work++) {
    const struct lls_thread *known = &s->threads[s->thread_slots[at].index];
    if (is_known(s, known, t.state, t.frame, t.arrived))
      return true;
  }
  s->thread_slots[at] = (struct lls_stacks_slot){s->clock, index, 0};
  return false;
}

/* Returns true if the thread after the last one is new in the configuration. */
static bool is_new_thread(struct lls_stacks *s, const struct lls_configuration *c)
{
  uint32_t n = s->n_threads - c->first;
  const struct lls_thread t = s->threads[s->n_threads];
  for (uint32_t i = n == FEW ? c->first : s->n_threads; i < s->n_threads; i++)
    find_or_note(s, i);
  if (n >= FEW)
    return !find_or_note(s, s->n_threads);
  for (uint32_t i = c->first; i < s->n_threads; i++)
    if (is_known(s, &s->threads[i], t.state, t.frame, t.arrived))
      return false;
  return true;
}

static void add_thread(struct lls_stacks *s, struct lls_configuration *c, uint32_t state,
                       uint32_t frame, uint32_t arrived)
{
  if (state <= LLS_DFA_DEAD)
    return;
  if (s->n_threads == s->thread_capacity || s->n_threads - c->first == MOST_AT_ONCE ||
      ++s->work > s->most) {
    s->full = true;
    return;
  }
  s->threads[s->n_threads] = (struct lls_thread){state, frame, arrived};
  s->n_threads += is_new_thread(s, c);
}

static bool same_edge(const struct lls_stacks *s, uint32_t edge, uint32_t state,
                      uint32_t to)
{
  return s->edges[edge].state == state && s->edges[edge].frame == to;
}

/* Like find_or_note, for an edge of the frame. */
static bool find_or_note_edge(struct lls_stacks *s, uint32_t frame, uint32_t index)
{
  uint32_t state = s->edges[index].state, to = s->edges[index].frame;
  uint32_t at = mix(frame, state, to) % EDGE_SLOTS;
  for (; s->edge_slots[at].clock == s->clock; at = (at + 1) % EDGE_SLOTS, s->work++)
    if (s->edge_slots[at].owner == frame &&
        same_edge(s, s->edge_slots[at].index, state, to))
      return true;
  if (++s->noted_edges > EDGE_SLOTS / 2)
    s->full = true;
  else
    s->edge_slots[at] = (struct lls_stacks_slot){s->clock, index, frame};
  return false;
}

/* Returns true if the edge after the last one is new in the frame, which is growing. */
static bool is_new_edge(struct lls_stacks *s, uint32_t frame)
{
  uint32_t first = s->frames[frame].edges, n = s->edges_of_rule[s->frames[frame].rule];
  const struct lls_edge new = s->edges[s->n_edges];
  for (uint32_t e = n == FEW ? first : 0; e != 0; e = s->edges[e].next)
    find_or_note_edge(s, frame, e);
  if (n >= FEW)
    return !find_or_note_edge(s, frame, s->n_edges);
  for (uint32_t e = first; e != 0; e = s->edges[e].next)
    if (same_edge(s, e, new.state, new.frame))
      return false;
  return true;
}

static void add_edge(struct lls_stacks *s, uint32_t frame, uint32_t state, uint32_t to)
{
  struct lls_frame *f = &s->frames[frame];
  if (s->n_edges == s->edge_capacity || ++s->work > s->most) {
    s->full = true;
    return;
  }
  s->edges[s->n_edges] = (struct lls_edge){state, to, f->edges};
  if (!is_new_edge(s, frame) || s->full)
    return;
  f->edges = s->n_edges++;
  s->edges_of_rule[f->rule]++;
}

static uint32_t add_frame(struct lls_stacks *s, uint32_t rule, uint32_t done,
                          uint32_t edges)
{
  if (s->n_frames == s->frame_capacity) {
    s->full = true;
    return LLS_STACKS_ROOT;
  }
  s->frames[s->n_frames] = (struct lls_frame){rule, done, edges, 0};
  return s->n_frames++;
}

/* ---- calls and returns ------------------------------------------------------------- */

static uint32_t frame_for(struct lls_stacks *s, uint32_t rule, bool *is_new)
{
  *is_new = s->called_at[rule] != s->clock;
  if (*is_new) {
    s->called_at[rule] = s->clock;
    s->edges_of_rule[rule] = 0;
    s->frame_of_rule[rule] = add_frame(s, rule, 0, 0);
  }
  return s->frame_of_rule[rule];
}

/* Returns true if the caller ends with this call and its own return places are final. */
static bool is_tail(const struct lls_stacks *s, uint32_t to, uint32_t caller)
{
  return s->dfa->states[to].closed && caller != LLS_STACKS_ROOT &&
         caller < s->old_frames && !s->dfa->nfa->rules[s->frames[caller].rule].counted;
}

static void call(struct lls_stacks *s, struct lls_configuration *c,
                 struct lls_thread caller, uint32_t index)
{
  bool is_new;
  uint32_t rule = s->dfa->calls[s->dfa->states[caller.state].calls + index].rule;
  uint32_t to = lls_dfa_after_call(s->dfa, caller.state, index);
  if (to <= LLS_DFA_DEAD)
    return;
  uint32_t frame = frame_for(s, rule, &is_new);
  if (s->full)
    return;
  if (is_tail(s, to, caller.frame))
    for (uint32_t e = s->frames[caller.frame].edges; e != 0; e = s->edges[e].next)
      add_edge(s, frame, s->edges[e].state, s->edges[e].frame);
  else
    add_edge(s, frame, to, caller.frame);
  if (is_new)
    add_thread(s, c, lls_dfa_start(s->dfa, rule), frame, 0);
}

static void leave(struct lls_stacks *s, struct lls_configuration *c, uint32_t frame)
{
  if (frame == LLS_STACKS_ROOT)
    c->ended = true;
  for (uint32_t e = s->frames[frame].edges; e != 0; e = s->edges[e].next)
    add_thread(s, c, s->edges[e].state, s->edges[e].frame, 1);
}

/* Starts another repetition in a new frame, which counts the finished one; an unbounded
 * rule stops counting at min and keeps its frame. */
static void repeat(struct lls_stacks *s, struct lls_configuration *c, uint32_t frame)
{
  struct lls_frame f = s->frames[frame];
  const struct lls_nfa_rule *rule = &s->dfa->nfa->rules[f.rule];
  bool counts = rule->max != LLS_GRAMMAR_UNBOUNDED || f.done < rule->min;
  uint32_t again = counts ? add_frame(s, f.rule, f.done + 1, f.edges) : frame;
  if (!s->full)
    add_thread(s, c, lls_dfa_start(s->dfa, f.rule), again, 0);
}

static void complete(struct lls_stacks *s, struct lls_configuration *c, uint32_t frame)
{
  const struct lls_frame *f = &s->frames[frame];
  const struct lls_nfa_rule *rule = &s->dfa->nfa->rules[f->rule];
  if (s->is_open && frame == LLS_STACKS_ROOT) {
    s->root_reached = true;
    return;
  }
  uint32_t done = f->done + 1;
  if (!rule->counted || done >= rule->min)
    leave(s, c, frame);
  if (rule->counted && done < rule->max)
    repeat(s, c, frame);
}

/* Returns true if one of the first n threads continues in the same way as *t. */
static bool is_merged(const struct lls_stacks *s, const struct lls_configuration *c,
                      uint32_t n, const struct lls_thread *t)
{
  for (uint32_t j = c->first; j < n; j++)
    if (s->threads[j].state == t->state && same_frame(s, s->threads[j].frame, t->frame))
      return true;
  return false;
}

/* Keeps one of several threads that continue in the same way, and drops threads that
 * cannot continue. Advancing the clock marks the frames' edges as complete. */
static void merge(struct lls_stacks *s, struct lls_configuration *c)
{
  uint32_t n = c->first;
  bool many = s->n_threads - c->first > FEW;
  s->clock++;
  for (uint32_t i = c->first; i < s->n_threads; i++) {
    struct lls_thread t = {s->threads[i].state, s->threads[i].frame, 1};
    if (s->dfa->states[t.state].closed && (n > c->first || i + 1 < s->n_threads))
      continue;
    s->threads[n] = t;
    n += many ? !find_or_note(s, n) : !is_merged(s, c, n, &t);
  }
  s->n_threads = n;
}

/* Adds all threads that are reached without a byte. */
static void close_over(struct lls_stacks *s, struct lls_configuration *c)
{
  for (uint32_t i = c->first; i < s->n_threads && !s->full; i++) {
    struct lls_thread t = s->threads[i];
    const struct lls_dfa_state *state = &s->dfa->states[t.state];
    if (t.arrived && state->accepts)
      complete(s, c, t.frame);
    for (uint32_t k = 0; k < state->n_calls && !s->full; k++)
      call(s, c, t, k);
  }
  if (s->n_threads - c->first > 1)
    merge(s, c);
  c->n = s->n_threads - c->first;
  s->full |= s->dfa->full;
}

static struct lls_configuration open_at_end(struct lls_stacks *s)
{
  s->clock++;
  s->noted_edges = 0;
  s->old_frames = s->n_frames;
  s->root_reached = false;
  return (struct lls_configuration){.first = s->n_threads};
}

/* ---- configurations ---------------------------------------------------------------- */

static struct lls_configuration begin(struct lls_stacks *s, uint32_t rule, uint32_t state)
{
  s->n_threads = 0;
  s->n_frames = 1;
  s->n_edges = 1;
  s->frames[LLS_STACKS_ROOT] = (struct lls_frame){.rule = rule};
  s->work++;
  struct lls_configuration c = open_at_end(s);
  add_thread(s, &c, state, LLS_STACKS_ROOT, 0);
  c.n = s->n_threads;
  return c;
}

struct lls_configuration lls_stacks_begin(struct lls_stacks *s, uint32_t rule)
{
  s->is_open = false;
  struct lls_configuration c = begin(s, rule, lls_dfa_start(s->dfa, rule));
  close_over(s, &c);
  return c;
}

struct lls_configuration lls_stacks_begin_in(struct lls_stacks *s, uint32_t state)
{
  s->is_open = true;
  return begin(s, s->dfa->states[state].rule, state);
}

/* The most frequent step by far: one thread, in the middle of a rule. */
static bool step_one(struct lls_stacks *s, const struct lls_thread *t, uint8_t byte,
                     struct lls_configuration *c)
{
  uint32_t to = lls_dfa_next(s->dfa, t->state, byte);
  const struct lls_dfa_state *state = &s->dfa->states[to];
  if (to == LLS_DFA_DEAD || state->accepts || state->n_calls > 0 ||
      s->n_threads == s->thread_capacity)
    return to == LLS_DFA_DEAD && !s->dfa->full;
  s->threads[s->n_threads++] = (struct lls_thread){to, t->frame, 1};
  c->n = 1;
  return true;
}

struct lls_configuration
lls_stacks_step(struct lls_stacks *s, const struct lls_configuration *from, uint8_t byte)
{
  struct lls_configuration c = open_at_end(s);
  if (from->n == 1 && step_one(s, &s->threads[from->first], byte, &c))
    return c;
  for (uint32_t i = from->first; i < from->first + from->n && !s->full; i++) {
    struct lls_thread t = s->threads[i];
    add_thread(s, &c, lls_dfa_next(s->dfa, t.state, byte), t.frame, 1);
  }
  close_over(s, &c);
  return c;
}

struct lls_configuration lls_stacks_leave(struct lls_stacks *s,
                                          const struct lls_configuration *from,
                                          uint32_t state, const uint32_t *done)
{
  struct lls_configuration c = open_at_end(s);
  for (uint32_t i = from->first; i < from->first + from->n && !s->full; i++) {
    const struct lls_thread *t = &s->threads[i];
    if (t->state == state && (done == NULL || s->frames[t->frame].done == *done))
      leave(s, &c, t->frame);
  }
  close_over(s, &c);
  return c;
}

struct lls_configuration lls_stacks_complete(struct lls_stacks *s,
                                             const struct lls_configuration *from,
                                             uint32_t state)
{
  struct lls_configuration c = open_at_end(s);
  for (uint32_t i = from->first; i < from->first + from->n && !s->full; i++)
    if (s->threads[i].state == state)
      complete(s, &c, s->threads[i].frame);
  close_over(s, &c);
  return c;
}

uint32_t lls_stacks_hash(struct lls_stacks *s, const struct lls_configuration *c)
{
  uint32_t hash = c->n;
  s->clock++; /* no frame is growing any more */
  s->work += c->n;
  for (uint32_t i = c->first; i < c->first + c->n; i++)
    hash = mix(hash, s->threads[i].state, hash_of_frame(s, s->threads[i].frame));
  return hash;
}

bool lls_stacks_same(const struct lls_stacks *s, const struct lls_configuration *a,
                     const struct lls_configuration *b)
{
  if (a->n != b->n)
    return false;
  for (uint32_t i = 0; i < a->n; i++) {
    const struct lls_thread *t = &s->threads[a->first + i];
    const struct lls_thread *u = &s->threads[b->first + i];
    if (t->state != u->state || !same_frame(s, t->frame, u->frame))
      return false;
  }
  return true;
}
