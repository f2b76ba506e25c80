/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the rest of the step with requests that could wait: SELECT over a pool of similar
 * slack (Algorithm 2), or, without it, the queue in its order (section 4.2).
 */
#include "accelgen.h"

/* ---- demands ----------------------------------------------------------------------- */

/* Sets the tokens of blocks to restore from the host, and the free slots of the last one.
 */
static void held(const struct accelgen *a, const struct lls_pol_step *s,
                 const struct lls_request *r, struct accelgen_option *o)
{
  struct lls_cache_info info = {.size = sizeof info};
  struct lls_need need = {.size = sizeof need};
  s->cache->info(s->cache->context, r, &info);
  o->slots = info.free_slots;
  if (r->state != LLS_PREEMPTED)
    return;
  s->cache->need(s->cache->context, r, 1, LLS_FORM_NONE, &need);
  o->before = lls_pol_fit_tokens(&a->fit, need.restore_units + a->fit.growth_units - 1);
}

/*
 * Prompts that take several steps may be cut: long ones, those larger than any step, and
 * begun ones. Short prompts are cut with chunk_short, else taken whole or not at all. No
 * cut prompt begins while another one is unfinished.
 */
static void set_cut(const struct accelgen *a, const struct accelgen_candidate *c,
                    struct accelgen_option *o)
{
  const struct accelgen_params *p = &a->params;
  bool several = c->tokens > a->budget || c->is_long;
  o->cut =
      p->chunk && !c->decode && (several || c->started || p->chunk_short || !p->batch);
  o->started = c->started;
  o->exclusive = o->cut && several && !c->started && p->era != ACCELGEN_ERA_OFF;
}

struct accelgen_option accelgen_option(const struct accelgen *a,
                                       const struct lls_pol_step *s,
                                       const struct accelgen_candidate *c)
{
  struct accelgen_option o = {.slack = c->slack,
                              .id = c->id,
                              .tokens = c->tokens,
                              .candidate = (uint32_t)(c - a->candidates)};
  set_cut(a, c, &o);
  if (!c->fresh)
    held(a, s, c->request, &o);
  return o;
}

/* Without `chunk`: an uncut prompt longer than the budget takes all tokens left; the
 * memory of its other tokens is added to o->before. */
static void fit_uncut(const struct accelgen *a, const struct lls_pol_step *s,
                      const struct accelgen_candidate *c, struct accelgen_option *o)
{
  uint32_t all = accelgen_uncut(a, s, c), b = s->cache->block_tokens;
  if (all <= s->tokens)
    return;
  o->tokens = s->tokens;
  o->before +=
      accelgen_memory(all, o->slots, b) - accelgen_memory(o->tokens, o->slots, b);
}

/* ---- the pool ---------------------------------------------------------------------- */

static bool may_wait(const struct accelgen_candidate *c)
{
  return !c->urgent && !c->done;
}

/* True if a begun prompt could have its last chunk in this step. */
static bool one_may_end(const struct accelgen *a, uint32_t tokens)
{
  for (uint32_t i = a->n_decodes; i < a->n_all && a->candidates[i].started; i++)
    if (may_wait(&a->candidates[i]) && a->candidates[i].tokens <= tokens)
      return true;
  return false;
}

/* Collects requests with a slack up to `most`: late ones, or those in time and begun
 * prompts. Leaves out requests that could not be taken in any case. Returns false if some
 * were left out for their slack. */
static bool set_pool(struct accelgen *a, const struct lls_pol_step *s, bool late,
                     int64_t most, struct accelgen_pool *p)
{
  bool all = true, closed = a->under_way > 0 && !one_may_end(a, p->tokens);
  p->n = 0;
  for (uint32_t i = a->n_decodes; i < a->n_all; i++) {
    const struct accelgen_candidate *c = &a->candidates[i];
    if (!may_wait(c) || (c->late && !c->started) != late)
      continue;
    if (c->slack > most) {
      all = false;
      continue;
    }
    struct accelgen_option *o = &p->options[p->n];
    *o = accelgen_option(a, s, c);
    if (!a->params.chunk)
      fit_uncut(a, s, c, o);
    p->n += o->cut ? !(o->exclusive && closed) : o->tokens <= p->tokens;
  }
  return all;
}

/* Reduces a pick to `tokens`. */
static void pick_fewer(const struct accelgen_pool *p, struct accelgen_pick *pick,
                       uint32_t tokens)
{
  const struct accelgen_option *o = &pick->option;
  pick->tokens = tokens;
  pick->memory = o->before + accelgen_memory(tokens, o->slots, p->block_tokens);
}

/* Picks and plans requests until none fits; returns how many. */
static uint32_t take(struct accelgen *a, struct lls_pol_step *s, struct accelgen_pool *p)
{
  struct accelgen_pick pick;
  uint32_t n = 0;
  while (s->sequences > 0 && s->tokens > 0 && p->tokens > 0 &&
         accelgen_select(p, &pick)) {
    struct accelgen_candidate *c = &a->candidates[pick.option.candidate];
    uint32_t tokens = pick.tokens;
    if (accelgen_hopeless(a, s, c))
      continue;
    if (!a->params.chunk && !c->decode)
      tokens = accelgen_uncut(a, s, c);
    tokens = accelgen_run(a, s, c, tokens, pick.option.cut);
    if (tokens == 0)
      continue;
    if (pick.option.cut)
      pick_fewer(p, &pick, tokens);
    accelgen_selected(p, &pick);
    n++;
  }
  return n;
}

/* Takes requests whose slack is at most the first one's plus gamma; if none fits, from
 * all requests. */
static void take_similar(struct accelgen *a, struct lls_pol_step *s, bool late,
                         uint32_t first, struct accelgen_pool *p)
{
  int64_t most = INT64_MAX;
  if (first != UINT32_MAX)
    most = a->candidates[first].slack + a->params.gamma;
  bool all = set_pool(a, s, late, most, p);
  uint32_t n = take(a, s, p);
  if (n == 0 && !all && a->params.extend) {
    set_pool(a, s, late, INT64_MAX, p);
    n = take(a, s, p);
    lls_pol_scheduler_count(&a->base, "extended", 1);
  }
  lls_pol_scheduler_count(&a->base, "selected", n);
}

/* Plans late requests, after all others. They leave a part of the cache free for new
 * requests, since they keep their memory until they end. */
static void select_from_pool(struct accelgen *a, struct lls_pol_step *s, uint32_t memory)
{
  uint32_t total = lls_pol_fit_tokens(&a->fit, s->total_units);
  struct accelgen_pool pool = {
      .options = a->options,
      .tokens = s->tokens,
      .memory = memory,
      .block_tokens = s->cache->block_tokens,
      .token_scale = a->params.norm ? 1.0 / a->budget : 1,
      .kv_scale = a->params.norm ? 1.0 / (total + 1) : 1,
      .under_way = a->under_way,
      .one_at_a_time = a->params.era != ACCELGEN_ERA_OFF,
  };
  take_similar(a, s, false, a->first, &pool);
  uint32_t kept = (uint32_t)(a->params.late_reserve * total);
  kept -= kept % pool.block_tokens;
  if (a->first_late == UINT32_MAX || pool.memory < kept)
    return;
  pool.memory -= kept;
  take_similar(a, s, true, a->first_late, &pool);
}

/* ---- without the method `batch` ---------------------------------------------------- */

/* Takes requests in the order of the queue until one does not fit. */
static void take_in_order(struct accelgen *a, struct lls_pol_step *s, uint32_t memory)
{
  a->heap.n = 0;
  for (uint32_t i = a->n_decodes; i < a->n_all; i++) {
    struct accelgen_candidate *c = &a->candidates[i];
    if (may_wait(c))
      a->heap.entries[a->heap.n++] =
          (struct lls_pol_heap_entry){.key = c->key, .tie = c->id, .item = c};
  }
  lls_pol_heap_build(&a->heap);
  struct accelgen_pool one = {.options = a->options,
                              .tokens = s->tokens,
                              .memory = memory,
                              .block_tokens = s->cache->block_tokens,
                              .token_scale = 1,
                              .kv_scale = 1,
                              .under_way = a->under_way,
                              .one_at_a_time = a->params.era != ACCELGEN_ERA_OFF};
  while (a->heap.n > 0) {
    struct accelgen_candidate *c = lls_pol_heap_pop(&a->heap).item;
    one.options[0] = accelgen_option(a, s, c);
    one.n = 1;
    if (one.options[0].exclusive && one.under_way > 0)
      continue; /* the request waits for begun prompts; later ones need not wait for it */
    if (!a->params.chunk)
      fit_uncut(a, s, c, &one.options[0]);
    if (!accelgen_hopeless(a, s, c) && take(a, s, &one) == 0)
      return;
  }
}

void accelgen_fill(struct accelgen *a, struct lls_pol_step *s)
{
  uint64_t kept = (uint64_t)a->params.kvc_headroom * a->fit.growth_units * a->n_decodes;
  uint32_t free_units = lls_pol_step_free_units(s);
  if (s->tokens == 0 || s->sequences == 0 || a->n_all == a->n_decodes ||
      free_units < kept)
    return;
  uint32_t memory = lls_pol_fit_tokens(&a->fit, free_units - (uint32_t)kept);
  if (a->params.batch)
    select_from_pool(a, s, memory);
  else
    take_in_order(a, s, memory);
}
