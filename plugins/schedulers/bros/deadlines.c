/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Urgency of requests, and the time that the batch may take (section 4.1, (6), and
 * Algorithm 1, lines 3 and 4).
 *
 *   slack = T_SLO - t - (k - 1) T_avg
 *
 * t: since the last token went out (or arrival); k: tokens that are left of its group, of
 * which the deadline holds for the last. T_SLO is TTFT's for the first token, then
 * token_group times TPOT's. attainable: slack >= C of the request alone;
 *
 *   T_res = min slack of the attainable; TPOT's SLO if there are only others; else none.
 *
 * Attainable ones come first, by slack (missed = last), or all by slack (first). A
 * request that has missed its deadline and not run for `starve` comes before all.
 */
#include "bros.h"

#include <llmserve/policy/check.h>

#include <math.h>

/* User words: the group of a request's next token, and the time it began. */
enum { GROUP, GROUP_BEGAN_NS };

static const int64_t behind = INT64_C(1) << 60; /* more than any slack */

static int64_t least_ns(int64_t a, int64_t b)
{
  return a != LLS_NEVER && a < b ? a : b;
}

static int64_t tpot_slo(const struct bros *b, const struct lls_request *r)
{
  int64_t slo = least_ns(r->slo.tpot_ns, least_ns(r->slo.tbt_ns, INT64_MAX));
  return slo != INT64_MAX ? slo : b->params.tpot_slo;
}

int64_t bros_first_slo(const struct bros *b, const struct lls_request *r)
{
  return r->slo.ttft_ns != LLS_NEVER ? r->slo.ttft_ns : b->params.ttft_slo;
}

/* When the group of the request's next token began; its number counts from 1. */
static int64_t group_began(const struct lls_request *r, uint64_t group)
{
  if (r->user[GROUP] != group) {
    r->user[GROUP] = group;
    r->user[GROUP_BEGAN_NS] = (uint64_t)r->last_token_ns;
  }
  return (int64_t)r->user[GROUP_BEGAN_NS];
}

/* T_SLO - t - (k - 1) T_avg in nanoseconds. */
static int64_t slack_ns(const struct bros *b, const struct lls_request *r)
{
  if (r->generated_tokens == 0)
    return bros_first_slo(b, r) - (b->view->now_ns - r->last_token_ns);
  uint32_t size = (uint32_t)b->params.token_group, done = r->generated_tokens - 1;
  if (size == 1)
    return tpot_slo(b, r) - (b->view->now_ns - r->last_token_ns);
  int64_t t = b->view->now_ns - group_began(r, 1 + done / size);
  uint32_t k = size - done % size;
  double before = b->t_avg > 0 ? (k - 1) * b->t_avg * 1e9 : 0;
  return size * tpot_slo(b, r) - t - (int64_t)before;
}

/* Sets the tokens and context of the request's next run. Shared prefixes are not looked
 * up before it is reserved. */
static void describe(const struct lls_request *r, struct bros_candidate *c)
{
  uint32_t pending = lls_request_pending(r);
  *c = (struct bros_candidate){
      .request = r,
      .tokens = pending,
      .context = r->cached_tokens,
      .missing = r->missing_tokens,
      .prompt = r->cached_tokens == 0 || pending > 1,
  };
}

static bool is_older(const struct lls_request *r, const struct bros_candidate *than)
{
  return r->last_token_ns < than->request->last_token_ns;
}

static void count_missed(struct bros *b, uint32_t entry)
{
  struct lls_pol_heap_entry *e = &b->realtime.entries[entry];
  struct bros_candidate *c = e->item;
  c->attainable = false;
  if (b->oldest == UINT32_MAX ||
      is_older(c->request, b->realtime.entries[b->oldest].item))
    b->oldest = entry;
  e->key += b->params.missed == BROS_LAST ? behind : 0;
}

static void look_at_realtime(struct bros *b, struct bros_candidate *c)
{
  const struct lls_request *r = c->request;
  int64_t slack = slack_ns(b, r);
  c->slack = (double)slack * 1e-9;
  c->attainable = c->slack >= bros_time_alone(&b->cost, c);
  b->n_realtime++;
  LLS_POL_CHECK(b->realtime.n < b->realtime.capacity);
  b->realtime.entries[b->realtime.n++] =
      (struct lls_pol_heap_entry){slack, r->id, c, NULL};
  if (!c->attainable) {
    count_missed(b, b->realtime.n - 1);
    return;
  }
  b->n_attainable++;
  b->t_res = fmin(b->t_res, c->slack);
}

static void look_at(struct bros *b, const struct lls_request *const *list, uint32_t n,
                    struct bros_candidate **at)
{
  uint32_t block = b->view->cache->block_tokens;
  for (uint32_t i = 0; i < n; i++) {
    struct bros_candidate *c = (*at)++;
    if (i + 4 < n) {
      __builtin_prefetch(list[i + 4]);
      __builtin_prefetch(&list[i + 4]->last_token_ns);
    }
    describe(list[i], c);
    if (bros_is_realtime(list[i]))
      look_at_realtime(b, c);
    else {
      b->be_tokens += c->context - c->missing;
      b->be_missing += (c->missing + block - 1) / block;
      b->best_effort.entries[b->best_effort.n++] =
          (struct lls_pol_heap_entry){c->missing, list[i]->id, c, NULL};
    }
  }
  LLS_POL_CHECK(b->best_effort.n <= b->best_effort.capacity);
}

/* Puts the request first that has missed its deadline and waited longest, if longer than
 * `starve`. At most one in a tenth of this time, since each delays all others. */
static void put_starved_first(struct bros *b)
{
  int64_t since_ns = b->view->now_ns - b->starved_ran_ns;
  if (b->oldest == UINT32_MAX || b->params.starve == 0 ||
      (b->starved_ran_ns > 0 && since_ns < b->params.starve / 10))
    return;
  struct lls_pol_heap_entry *e = &b->realtime.entries[b->oldest];
  struct bros_candidate *c = e->item;
  c->starved = b->view->now_ns - c->request->last_token_ns >= b->params.starve;
  e->key -= c->starved ? 2 * behind : 0;
}

/* Marks requests with less slack than t_res as not attainable. */
static void give_up(struct bros *b, double t_res)
{
  b->n_left_out = 0;
  if (t_res <= b->t_res)
    return;
  b->t_res = INFINITY;
  for (uint32_t i = 0; i < b->realtime.n; i++) {
    struct lls_pol_heap_entry *e = &b->realtime.entries[i];
    struct bros_candidate *c = e->item;
    if (!c->attainable)
      continue;
    if (c->slack >= t_res) {
      b->t_res = fmin(b->t_res, c->slack);
      continue;
    }
    count_missed(b, i);
    b->n_attainable--;
    b->n_left_out++;
  }
}

void bros_look(struct bros *b, const struct lls_step_view *v)
{
  struct bros_candidate *at = b->candidates;
  b->view = v;
  b->n_realtime = b->n_attainable = 0;
  b->be_tokens = b->be_missing = 0;
  b->oldest = UINT32_MAX;
  b->t_res = INFINITY;
  b->realtime.n = b->best_effort.n = 0;
  look_at(b, v->running, v->n_running, &at);
  look_at(b, v->preempted, v->n_preempted, &at);
  struct lls_pol_ends e = lls_pol_ends_of(&b->off, &b->urgent, v, b->params.look);
  look_at(b, e.first, e.n_first, &at);
  look_at(b, e.between, e.n_between, &at);
  look_at(b, e.last, e.n_last, &at);
  give_up(b, bros_relaxed(b));
  if (b->n_attainable == 0 && b->n_realtime > 0)
    b->t_res = (double)b->params.tpot_slo * 1e-9;
  LLS_POL_CHECK(b->n_attainable <= b->n_realtime && b->realtime.n == b->n_realtime);
  put_starved_first(b);
  lls_pol_heap_build(&b->realtime);
}
