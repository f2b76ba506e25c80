/* SPDX-License-Identifier: Apache-2.0 */
/* An event as bytes; see remote_wire.h. Data that it points to belongs to its request,
 * and is packed, too. */
#include "core/cluster/remote_wire.h"

#include "core/instance/life.h"
#include "core/instance/request.h"

struct numbers {
  uint64_t request;
  uint64_t bytes; /* bytes of everything that follows */
  uint32_t kind, reason;
  bool hidden_token, lost;
  uint32_t n_generated; /* tokens, including those of this event */
  uint32_t shared_tokens, prompt_tokens, generated_tokens, preemptions;
  int32_t grammar_error;
  int64_t arrival_ns, first_scheduled_ns, first_token_ns, last_token_ns, finished_ns;
  struct lls_prediction prediction;
  uint32_t n_forced, n_scores, n_top;
  bool pooled, life, no_number;
};

static void move_times(struct numbers *n, int64_t ahead_ns)
{
  int64_t *const times[] = {&n->arrival_ns,     &n->first_scheduled_ns,
                            &n->first_token_ns, &n->last_token_ns,
                            &n->finished_ns,    &n->prediction.made_ns};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    *times[i] = lls_wire_time(*times[i], ahead_ns);
}

/* ---- packing ---------------------------------------------------------------------- */

static void fill_token(struct numbers *n, const struct lls_event *e)
{
  n->hidden_token = e->hidden_token;
  n->n_forced = e->n_forced;
  n->n_top = e->token.n_top;
}

static void fill_finished(struct numbers *n, const struct lls_event *e)
{
  n->prompt_tokens = e->prompt_tokens;
  n->generated_tokens = e->generated_tokens;
  n->grammar_error = e->grammar_error;
  n->preemptions = e->preemptions;
  n->arrival_ns = e->arrival_ns;
  n->first_scheduled_ns = e->first_scheduled_ns;
  n->first_token_ns = e->first_token_ns;
  n->last_token_ns = e->live != NULL ? e->live->view.last_token_ns : LLS_NEVER;
  n->finished_ns = e->finished_ns;
  n->prediction = e->prediction;
  n->pooled = e->pooled != NULL;
  n->life = e->life != NULL;
  n->lost = e->lost;
  n->no_number = e->no_number;
}

/* Packs the alternatives in use, like lls_sampled_copy. */
static void pack_token(const struct lls_sampled *t, struct lls_pack *p)
{
  LLS_PACK(p, t->token);
  LLS_PACK(p, t->logprob);
  LLS_PACK(p, t->rank);
  lls_pack_put(p, t->top_token, t->n_top * sizeof *t->top_token);
  lls_pack_put(p, t->top_logprob, t->n_top * sizeof *t->top_logprob);
}

static void pack_life(const struct lls_life *life, int64_t ahead_ns, struct lls_pack *p)
{
  struct lls_life moved = *life;
  for (uint32_t i = 0; i < moved.n; i++)
    moved.changes[i].at_ns += ahead_ns;
  LLS_PACK(p, moved);
}

void lls_wire_pack_event(const struct lls_wire *w, const struct lls_event *e,
                         struct lls_pack *p)
{
  struct numbers n;
  size_t at = p->n;
  memset(&n, 0, sizeof n);
  n.request = e->request;
  n.kind = e->kind;
  n.reason = e->reason;
  n.shared_tokens = e->shared_tokens;
  bool is_token = e->kind == LLS_EVENT_TOKEN;
  if (is_token)
    fill_token(&n, e);
  else
    fill_finished(&n, e);
  if (is_token && e->prompt_scores != NULL)
    n.n_scores = e->n_prompt_scores;
  n.n_generated = is_token ? 1 + e->n_forced : 0;
  move_times(&n, w->ahead_ns);
  LLS_PACK(p, n);
  if (is_token)
    pack_token(&e->token, p);
  lls_pack_put(p, e->forced, n.n_forced * sizeof *e->forced);
  lls_pack_put(p, e->prompt_scores, n.n_scores * sizeof *e->prompt_scores);
  if (n.pooled)
    lls_pack_put(p, e->pooled, w->live.vector_columns * sizeof *e->pooled);
  if (n.life)
    pack_life(e->life, w->ahead_ns, p);
  if (p->failed)
    return;
  n.bytes = p->n - at - sizeof n;
  memcpy(p->data + at, &n, sizeof n);
}

/* ---- unpacking -------------------------------------------------------------------- */

bool lls_wire_next_event(struct lls_unpack *u, uint64_t *request, bool *lost)
{
  struct numbers n;
  if (u->failed || u->n - u->at < sizeof n)
    return false;
  memcpy(&n, u->data + u->at, sizeof n);
  *request = n.request;
  *lost = n.lost;
  return n.bytes <= u->n - u->at - sizeof n;
}

void lls_wire_skip_event(struct lls_unpack *u)
{
  struct numbers n = {0};
  LLS_UNPACK(u, n);
  lls_unpack_bytes(u, n.bytes);
}

static void take_token(struct lls_unpack *u, const struct numbers *n,
                       struct lls_live *home, struct lls_event *out)
{
  struct lls_sampled *t = &out->token;
  t->n_top = n->n_top <= LLS_MAX_LOGPROBS ? n->n_top : 0;
  LLS_UNPACK(u, t->token);
  LLS_UNPACK(u, t->logprob);
  LLS_UNPACK(u, t->rank);
  lls_unpack_take(u, t->top_token, t->n_top * sizeof *t->top_token);
  lls_unpack_take(u, t->top_logprob, t->n_top * sizeof *t->top_logprob);
  uint32_t at = lls_request_length(&home->view);
  out->hidden_token = n->hidden_token;
  out->n_forced = 0;
  if (at + n->n_generated > home->max_length)
    return;
  home->tokens[at] = t->token;
  out->forced = home->tokens + at + 1;
  out->n_forced = n->n_forced;
  lls_unpack_take(u, home->tokens + at + 1, n->n_forced * sizeof *home->tokens);
  home->view.generated_tokens += n->n_generated;
  home->n_scored = home->view.prompt_tokens; /* scores of the prompt come with the
                                              * first token */
  lls_live_name_blocks(home);
}

static void take_end(struct lls_unpack *u, const struct lls_wire *w,
                     const struct numbers *n, struct lls_live *home,
                     struct lls_event *out)
{
  out->prompt_tokens = n->prompt_tokens;
  out->generated_tokens = n->generated_tokens;
  out->grammar_error = n->grammar_error;
  out->preemptions = n->preemptions;
  out->arrival_ns = n->arrival_ns;
  out->first_scheduled_ns = n->first_scheduled_ns;
  out->first_token_ns = n->first_token_ns;
  out->finished_ns = n->finished_ns;
  out->lost = false;
  out->no_number = n->no_number;
  out->prediction = n->prediction;
  out->pooled = NULL;
  out->life = &home->life;
  out->live = home;
  if (n->pooled && home->pooled != NULL) {
    lls_unpack_take(u, home->pooled, w->live.vector_columns * sizeof *home->pooled);
    out->pooled = home->pooled;
  }
  if (n->life)
    LLS_UNPACK(u, home->life);
  for (uint32_t i = 0; i < home->life.n && i < LLS_LIFE_CHANGES; i++)
    home->life.changes[i].at_ns -= w->ahead_ns;
  struct lls_request *v = &home->view; /* for code that looks at the ended request */
  v->generated_tokens = n->generated_tokens;
  v->finish_reason = n->reason;
  v->last_token_ns = n->last_token_ns;
  v->prediction = n->prediction;
  home->first_token_ns = n->first_token_ns;
}

void lls_wire_unpack_event(const struct lls_wire *w, struct lls_unpack *u,
                           struct lls_live *home, struct lls_event *out)
{
  struct numbers n = {0};
  LLS_UNPACK(u, n);
  struct lls_unpack rest = {.data = u->data + u->at, .n = n.bytes};
  lls_unpack_bytes(u, n.bytes);
  move_times(&n, -w->ahead_ns);
  out->kind = n.kind;
  out->reason = n.reason;
  out->request = n.request;
  out->owner = home->owner;
  out->shared_tokens = n.shared_tokens;
  if (n.kind == LLS_EVENT_FINISHED) {
    take_end(&rest, w, &n, home, out);
    return;
  }
  take_token(&rest, &n, home, out);
  if (n.n_scores > 0 && home->scores != NULL && n.n_scores <= home->view.prompt_tokens)
    lls_unpack_take(&rest, home->scores, n.n_scores * sizeof *home->scores);
  out->prompt_scores = home->scores;
}
