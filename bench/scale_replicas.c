/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated replicas: their caches, their steps, in the order of the steps' ends; see
 * bench/scale.c. */
#include <string.h>

#include "bench/scale_cluster.h"

#define MAX_SEQUENCES 256

/* ---- steps in the order of their ends ---------------------------------------------- */

static bool sooner(const struct world *w, uint32_t a, uint32_t b)
{
  return w->replicas[w->heap[a]].ready < w->replicas[w->heap[b]].ready;
}

static void exchange(struct world *w, uint32_t a, uint32_t b)
{
  uint32_t kept = w->heap[a];
  w->heap[a] = w->heap[b];
  w->heap[b] = kept;
}

static void push(struct world *w, uint32_t replica)
{
  uint32_t at = w->n_heap++;
  w->heap[at] = replica;
  for (; at > 0 && sooner(w, at, (at - 1) / 2); at = (at - 1) / 2)
    exchange(w, at, (at - 1) / 2);
}

static uint32_t pop(struct world *w)
{
  uint32_t first = w->heap[0], at = 0;
  w->heap[0] = w->heap[--w->n_heap];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child + 1 < w->n_heap && sooner(w, child + 1, child))
      child++;
    if (child >= w->n_heap || !sooner(w, child, at))
      return first;
    exchange(w, at, child);
    at = child;
  }
}

/* ---- a replica --------------------------------------------------------------------- */

/* Returns true if the prefix is cached, and makes it the last used one. */
static bool look_up(struct replica *r, uint32_t prefix)
{
  uint32_t i = 0;
  while (i < r->n_cached && r->cached[i] != prefix)
    i++;
  if (i == r->n_cached)
    return false;
  memmove(r->cached + 1, r->cached, i * sizeof *r->cached);
  r->cached[0] = prefix;
  return true;
}

void keep(const struct world *w, struct replica *r, uint32_t prefix)
{
  if (look_up(r, prefix))
    return;
  if (r->n_cached < w->room)
    r->n_cached++;
  memmove(r->cached + 1, r->cached, (r->n_cached - 1) * sizeof *r->cached);
  r->cached[0] = prefix;
}

static void begin_prompt(struct replica *r, struct request *q)
{
  if (q->to_compute != 0)
    return;
  q->hit = look_up(r, q->prefix);
  q->to_compute = (uint16_t)((q->hit ? 0 : PREFIX_TOKENS) + OWN_TOKENS + q->generated);
}

/* Sets the step's end time and the prompt tokens which it computes. */
void begin_step(struct world *w, uint32_t index, double now)
{
  struct replica *r = &w->replicas[index];
  struct lls_cost_load load = {.sequences = r->decodes,
                               .rows = r->decodes,
                               .drawn = r->decodes,
                               .cached = r->context + r->decodes,
                               .longest = PREFIX_TOKENS + OWN_TOKENS + ANSWER};
  uint32_t budget = CHUNK > r->decodes ? CHUNK - r->decodes : 0,
           room = MAX_SEQUENCES - r->decodes;
  r->ready = -1;
  if (r->state == SILENT || r->state == ABSENT || (r->decodes == 0 && r->head == NONE))
    return;
  for (uint32_t i = r->head; i != NONE && budget > 0 && room > 0; room--) {
    struct request *q = &w->requests[i];
    begin_prompt(r, q);
    uint32_t before = q->hit ? PREFIX_TOKENS : 0, tokens = q->to_compute - q->computed;
    if (tokens > budget)
      tokens = budget;
    lls_cost_add(&w->rates, &load, tokens, before + q->computed);
    q->computed = (uint16_t)(q->computed + tokens);
    load.drawn += q->computed == q->to_compute;
    budget -= tokens;
    i = q->next;
  }
  r->ready = now + lls_cost_step_ns(&w->rates, &load) / 1e9;
  push(w, index);
}

void take_back(struct world *w, const struct request *q)
{
  w->under_way[q->gateway * w->n_replicas + q->replica]--;
  w->total[q->gateway]--;
}

static void end_answer(struct world *w, struct replica *r, struct request *q, double now)
{
  q->end = now;
  r->served++;
  take_back(w, q);
}

static void end_answers(struct world *w, struct replica *r, double now)
{
  uint32_t *ends = &r->ends[r->steps % ANSWER];
  for (uint32_t i = *ends; i != NONE; i = w->requests[i].next) {
    end_answer(w, r, &w->requests[i], now);
    r->decodes--;
    r->context -= PREFIX_TOKENS + OWN_TOKENS + ANSWER;
  }
  *ends = NONE;
}

/* Records the first token of a prompt, or the next one of an answer that goes on here. */
static void note_token(struct world *w, struct request *q, double now)
{
  if (q->cut > 0)
    w->gaps[w->n_gaps++ % w->most_gaps] = now - q->cut;
  if (q->first <= 0)
    q->first = now;
  q->cut = 0;
}

bool is_open(const struct world *w, uint32_t index)
{
  return w->replicas[index].state == UP || w->replicas[index].state == SILENT;
}

void set_state(struct world *w, uint32_t index, enum state state, double until)
{
  struct replica *r = &w->replicas[index];
  w->n_open -= is_open(w, index);
  r->state = state;
  r->changes = until;
  w->n_open += is_open(w, index);
  w->next_change = NEVER;
  for (uint32_t i = 0; i < w->n_replicas; i++)
    if (w->replicas[i].changes < w->next_change)
      w->next_change = w->replicas[i].changes;
}

static void end_step(struct world *w, uint32_t index)
{
  struct replica *r = &w->replicas[index];
  double now = r->ready;
  if (r->state == SILENT || r->state == ABSENT) { /* its step has been lost */
    r->ready = -1;
    return;
  }
  r->steps++;
  r->stepped = now;
  r->context += r->decodes;
  end_answers(w, r, now);
  while (r->head != NONE) {
    struct request *q = &w->requests[r->head];
    uint32_t i = r->head;
    uint32_t *ends = &r->ends[(r->steps + ANSWER - q->generated - 1) % ANSWER];
    if (q->to_compute == 0 || q->computed < q->to_compute)
      break;
    r->head = q->next;
    r->waiting--;
    note_token(w, q, now);
    keep(w, r, q->prefix);
    if (q->generated + 1 == ANSWER) {
      end_answer(w, r, q, now);
      continue;
    }
    q->next = *ends;
    *ends = i;
    r->decodes++;
    r->context += PREFIX_TOKENS + OWN_TOKENS + q->generated + 1;
  }
  begin_step(w, index, now);
  if (r->state == LEAVING && r->ready < 0)
    set_state(w, index, ABSENT, now + w->down_s);
}

void end_next_step(struct world *w)
{
  end_step(w, pop(w));
}
