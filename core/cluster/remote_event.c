/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event of a request as bytes; see remote_wire.h. A head comes first, by which a
 * receiver finds the event's request or skips the event; then the members that an event
 * of its kind has, in the order of `walk`, which both sides use.
 */
#include "core/cluster/remote_wire.h"

#include "core/instance/life.h"
#include "core/instance/request.h"

struct head {
  uint64_t request;
  uint64_t bytes; /* length of the event after the head */
  bool lost;
};

/* The parts of an event that lie outside of struct lls_event, or that it points to. */
struct parts {
  const void *forced, *scores, *pooled; /* the receiver's lie in the message */
  bool has_pooled, has_life;
  struct lls_life *life;
  int64_t last_token_ns;
  uint32_t cached_tokens;
};

/* ---- both ways -------------------------------------------------------------------- */

/* As lls_sampled_copy: only the alternatives that the token has. */
static void walk_sampled(const struct lls_pack_walk *k, struct lls_sampled *t)
{
  LLS_WALK(k, t->token);
  LLS_WALK(k, t->logprob);
  LLS_WALK(k, t->rank);
  LLS_WALK(k, t->surprise);
  LLS_WALK(k, t->n_top);
  t->n_top = t->n_top <= LLS_MAX_LOGPROBS ? t->n_top : 0;
  lls_pack_walk_bytes(k, t->top_token, t->n_top * sizeof *t->top_token);
  lls_pack_walk_bytes(k, t->top_logprob, t->n_top * sizeof *t->top_logprob);
}

static void walk_token(const struct lls_pack_walk *k, struct lls_event *e,
                       struct parts *x)
{
  LLS_WALK(k, e->hidden_token);
  LLS_WALK(k, e->n_forced);
  LLS_WALK(k, e->n_prompt_scores);
  walk_sampled(k, &e->token);
  lls_pack_walk_array(k, &x->forced, e->n_forced * sizeof *e->forced);
  lls_pack_walk_array(k, &x->scores, e->n_prompt_scores * sizeof *e->prompt_scores);
}

static void walk_end(const struct lls_pack_walk *k, const struct lls_wire *w,
                     struct lls_event *e, struct parts *x)
{
  LLS_WALK(k, e->keeps_prefix);
  LLS_WALK(k, e->no_number);
  LLS_WALK(k, e->grammar_error);
  LLS_WALK(k, e->prompt_tokens);
  LLS_WALK(k, e->generated_tokens);
  LLS_WALK(k, e->preemptions);
  LLS_WALK(k, e->drafted_tokens);
  LLS_WALK(k, e->accepted_tokens);
  LLS_WALK(k, e->arrival_ns);
  LLS_WALK(k, e->first_scheduled_ns);
  LLS_WALK(k, e->first_token_ns);
  LLS_WALK(k, e->finished_ns);
  LLS_WALK(k, e->prediction);
  LLS_WALK(k, x->last_token_ns);
  LLS_WALK(k, x->cached_tokens);
  LLS_WALK(k, x->has_pooled);
  LLS_WALK(k, x->has_life);
  if (x->has_pooled)
    lls_pack_walk_array(k, &x->pooled, w->live.vector_columns * sizeof *e->pooled);
  if (x->has_life)
    LLS_WALK(k, *x->life);
}

static void walk(const struct lls_pack_walk *k, const struct lls_wire *w,
                 struct lls_event *e, struct parts *x)
{
  LLS_WALK(k, e->kind);
  LLS_WALK(k, e->reason);
  LLS_WALK(k, e->shared_tokens);
  if (e->kind == LLS_EVENT_TOKEN)
    walk_token(k, e, x);
  else if (e->kind == LLS_EVENT_PROGRESS)
    LLS_WALK(k, e->computed_tokens);
  else
    walk_end(k, w, e, x);
}

/* Moves the times of an end from one process's clock to another's. */
static void move_times(struct lls_event *e, struct parts *x, int64_t ahead_ns)
{
  int64_t *const times[] = {&e->arrival_ns,     &e->first_scheduled_ns,
                            &e->first_token_ns, &e->finished_ns,
                            &x->last_token_ns,  &e->prediction.made_ns};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    *times[i] = lls_wire_time(*times[i], ahead_ns);
  for (uint32_t i = 0; x->has_life && i < x->life->n && i < LLS_LIFE_CHANGES; i++)
    x->life->changes[i].at_ns += ahead_ns;
}

/* ---- packing ---------------------------------------------------------------------- */

static void prepare_token(struct lls_event *e, struct parts *x)
{
  x->forced = e->forced;
  x->scores = e->prompt_scores;
  if (e->prompt_scores == NULL)
    e->n_prompt_scores = 0;
}

static void prepare_end(const struct lls_wire *w, struct lls_event *e, struct parts *x)
{
  x->pooled = e->pooled;
  x->has_pooled = e->pooled != NULL;
  x->has_life = e->life != NULL;
  if (x->has_life)
    *x->life = *e->life;
  x->last_token_ns = e->live != NULL ? e->live->view.last_token_ns : LLS_NEVER;
  x->cached_tokens = e->live != NULL ? e->live->view.cached_tokens : 0;
  move_times(e, x, w->ahead_ns);
}

void lls_wire_pack_event(const struct lls_wire *w, const struct lls_event *event,
                         struct lls_pack *p)
{
  struct lls_event e = *event;
  struct lls_life life;
  struct parts x = {.life = &life};
  struct head head;
  size_t at = p->n;
  memset(&head, 0, sizeof head); /* its padding is sent as well */
  head.request = e.request;
  head.lost = e.kind == LLS_EVENT_FINISHED && e.lost;
  LLS_PACK(p, head);
  if (e.kind == LLS_EVENT_TOKEN)
    prepare_token(&e, &x);
  else if (e.kind == LLS_EVENT_FINISHED)
    prepare_end(w, &e, &x);
  walk(&(struct lls_pack_walk){.out = p}, w, &e, &x);
  if (p->failed)
    return;
  head.bytes = p->n - at - sizeof head;
  memcpy(p->data + at, &head, sizeof head);
}

/* ---- unpacking -------------------------------------------------------------------- */

bool lls_wire_next_event(struct lls_unpack *u, uint64_t *request, bool *lost)
{
  struct head head;
  if (u->failed || u->n - u->at < sizeof head)
    return false;
  memcpy(&head, u->data + u->at, sizeof head);
  *request = head.request;
  *lost = head.lost;
  return head.bytes <= u->n - u->at - sizeof head;
}

void lls_wire_skip_event(struct lls_unpack *u)
{
  struct head head = {0};
  LLS_UNPACK(u, head);
  lls_unpack_bytes(u, head.bytes);
}

/* Appends the event's tokens to the request, and sets its prompt scores. */
static void take_token(struct lls_live *home, struct lls_event *e, const struct parts *x)
{
  uint32_t at = lls_request_length(&home->view), n = 1 + e->n_forced;
  e->prompt_scores = home->scores;
  if (x->scores != NULL && home->scores != NULL &&
      e->n_prompt_scores <= home->view.prompt_tokens)
    memcpy(home->scores, x->scores, e->n_prompt_scores * sizeof *home->scores);
  if (x->forced == NULL || at + n > home->max_length) {
    e->n_forced = 0;
    return;
  }
  home->tokens[at] = e->token.token;
  e->forced = home->tokens + at + 1;
  memcpy(home->tokens + at + 1, x->forced, e->n_forced * sizeof *home->tokens);
  home->view.generated_tokens += n;
  lls_sampling_observe(&home->sampling, &e->token);
  home->n_scored = home->view.prompt_tokens; /* the scores come with the first token */
  lls_live_name_blocks(home);
}

/* Writes the end to the request too, for code that reads a finished request. */
static void take_end(const struct lls_wire *w, struct lls_live *home, struct lls_event *e,
                     struct parts *x)
{
  struct lls_request *v = &home->view;
  move_times(e, x, -w->ahead_ns);
  if (x->pooled != NULL && home->pooled != NULL) {
    memcpy(home->pooled, x->pooled, w->live.vector_columns * sizeof *home->pooled);
    e->pooled = home->pooled;
  }
  e->life = &home->life;
  e->live = home;
  v->generated_tokens = e->generated_tokens;
  v->finish_reason = e->reason;
  v->last_token_ns = x->last_token_ns;
  v->cached_tokens = x->cached_tokens; /* for its session; bounded by its keys */
  v->prediction = e->prediction;
  home->first_token_ns = e->first_token_ns;
}

void lls_wire_unpack_event(const struct lls_wire *w, struct lls_unpack *u,
                           struct lls_live *home, struct lls_event *out)
{
  struct head head = {0};
  struct parts x = {.life = &home->life};
  LLS_UNPACK(u, head);
  struct lls_unpack rest = {.data = u->data + u->at, .n = head.bytes};
  lls_unpack_bytes(u, head.bytes);
  *out = (struct lls_event){.request = head.request, .owner = home->owner};
  walk(&(struct lls_pack_walk){.in = &rest}, w, out, &x);
  if (out->kind == LLS_EVENT_TOKEN)
    take_token(home, out, &x);
  else if (out->kind == LLS_EVENT_FINISHED)
    take_end(w, home, out, &x);
}
