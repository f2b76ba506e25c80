/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The position of a text in a grammar. Between calls it is stored compactly in the
 * state. A call copies it into the grammar's stacks, under the lock, and afterwards
 * copies the parts still in use back, so that its size grows with the nesting of a text
 * and not with its length.
 */
#include "text/grammar/fragment_walks.h"
#include "text/grammar/grammar_internal.h"

#include <errno.h>
#include <string.h>

uint64_t lls_grammar_work(const struct lls_grammar *g)
{
  return g->stacks.work + lls_fragments_work(&g->fragments);
}

size_t lls_grammar_state_bytes(void)
{
  return sizeof(struct lls_grammar_state);
}

struct lls_configuration lls_state_open(struct lls_grammar_state *state)
{
  struct lls_stacks *s = &state->grammar->stacks;
  pthread_mutex_lock(&state->grammar->turn);
  pthread_mutex_lock(&state->grammar->lock);
  pthread_mutex_unlock(&state->grammar->turn);
  state->work -= lls_grammar_work(state->grammar);
  state->grammar->dfa.full = s->full = false;
  s->most = s->work + LLS_STATE_WORK;
  s->is_open = false;
  s->n_threads = state->n_threads;
  s->n_frames = state->n_frames;
  s->n_edges = state->n_edges;
  memcpy(s->threads, state->threads, state->n_threads * sizeof *s->threads);
  memcpy(s->frames, state->frames, state->n_frames * sizeof *s->frames);
  memcpy(s->edges, state->edges, state->n_edges * sizeof *s->edges);
  return (struct lls_configuration){.n = state->n_threads, .ended = state->may_end};
}

int lls_state_close(struct lls_grammar_state *state)
{
  bool full = state->grammar->stacks.full;
  state->work += lls_grammar_work(state->grammar);
  pthread_mutex_unlock(&state->grammar->lock);
  return full ? -E2BIG : 0;
}

/* ---- packing ----------------------------------------------------------------------- */

/* Copies the frames in use from the stacks to the state. */
struct packer {
  struct lls_stacks *from;
  struct lls_grammar_state *to;
  uint32_t moved[LLS_STATE_FRAMES]; /* (to->n_frames) the original of each copied frame */
  bool fits;
};

/* Returns the frame's number in the state; copies the frame, without its edges, on
 * first use. */
static uint32_t pack_frame(struct packer *p, uint32_t frame)
{
  struct lls_grammar_state *to = p->to;
  for (uint32_t i = to->n_frames; i-- > 0;)
    if (p->moved[i] == frame)
      return i;
  if (to->n_frames == LLS_STATE_FRAMES) {
    p->fits = false;
    return LLS_STACKS_ROOT;
  }
  p->moved[to->n_frames] = frame;
  to->frames[to->n_frames] = p->from->frames[frame];
  to->frames[to->n_frames].edges = to->frames[to->n_frames].hash = 0;
  return to->n_frames++;
}

static void pack_edges(struct packer *p, uint32_t index)
{
  struct lls_grammar_state *to = p->to;
  uint32_t last = 0;
  for (uint32_t e = p->from->frames[p->moved[index]].edges; e != 0;
       e = p->from->edges[e].next) {
    if (to->n_edges == LLS_STATE_EDGES) {
      p->fits = false;
      return;
    }
    uint32_t frame = pack_frame(p, p->from->edges[e].frame), at = to->n_edges++;
    to->edges[at] = (struct lls_edge){p->from->edges[e].state, frame, 0};
    if (last == 0)
      to->frames[index].edges = at;
    else
      to->edges[last].next = at;
    last = at;
  }
}

/* Packs the stacks into the state. If they do not fit, `from` becomes full, which
 * closing the state reports as -E2BIG; the state is then unusable. */
static void pack(struct lls_stacks *from, const struct lls_configuration *c,
                 struct lls_grammar_state *to)
{
  struct packer p = {.from = from, .to = to, .fits = c->n <= LLS_STATE_THREADS};
  to->n_frames = 1;
  to->n_edges = 1;
  p.moved[0] = LLS_STACKS_ROOT;
  to->n_threads = p.fits ? c->n : 0;
  for (uint32_t i = 0; i < to->n_threads; i++) {
    to->threads[i] = from->threads[c->first + i];
    to->threads[i].frame = pack_frame(&p, to->threads[i].frame);
  }
  for (uint32_t i = 1; i < to->n_frames && p.fits; i++)
    pack_edges(&p, i);
  to->may_end = c->ended;
  from->full |= !p.fits;
}

/* ---- advancing --------------------------------------------------------------------- */

int lls_grammar_state_init(struct lls_grammar_state *state, struct lls_grammar *grammar)
{
  state->grammar = grammar;
  state->n_threads = state->n_frames = state->n_edges = 0;
  state->work = 0;
  state->may_end = state->finished = false;
  lls_state_open(state);
  struct lls_configuration c = lls_stacks_begin(&grammar->stacks, 0);
  state->frames[LLS_STACKS_ROOT] = grammar->stacks.frames[LLS_STACKS_ROOT];
  state->edges[0] = (struct lls_edge){0};
  pack(&grammar->stacks, &c, state);
  state->may_end = grammar->nfa.root_nullable;
  return lls_state_close(state);
}

int lls_grammar_accept_bytes(struct lls_grammar_state *state, const char *bytes, size_t n)
{
  if (state->finished)
    return n == 0 ? 0 : -EINVAL;
  struct lls_configuration c = lls_state_open(state);
  struct lls_stacks *s = &state->grammar->stacks;
  for (size_t i = 0; i < n && c.n > 0 && !s->full; i++) {
    c = lls_stacks_step(s, &c, (uint8_t)bytes[i]);
    if (c.n == 0 && (i + 1 < n || !c.ended))
      c = (struct lls_configuration){0};
  }
  bool goes_on = c.n > 0 || c.ended;
  if (goes_on && !s->full && n > 0)
    pack(s, &c, state);
  int rc = lls_state_close(state);
  return rc == 0 && !goes_on ? -EINVAL : rc;
}

int lls_grammar_accept_token(struct lls_grammar_state *state, int32_t token)
{
  const struct lls_vocabulary *v = state->grammar->vocabulary;
  if (lls_vocabulary_ends(v, token)) {
    if (!state->may_end || state->finished)
      return -EINVAL;
    state->finished = true;
    return 0;
  }
  if (token < 0 || (uint32_t)token >= v->size)
    return -EINVAL;
  uint32_t from = v->offsets[token], n = v->offsets[token + 1] - from;
  return n == 0 ? -EINVAL : lls_grammar_accept_bytes(state, v->text + from, n);
}

uint64_t lls_grammar_state_work(const struct lls_grammar_state *state)
{
  return state->work;
}

bool lls_grammar_may_end(const struct lls_grammar_state *state)
{
  return state->may_end;
}

bool lls_grammar_complete(const struct lls_grammar_state *state)
{
  return state->finished || (state->may_end && state->n_threads == 0);
}
