/* SPDX-License-Identifier: Apache-2.0 */
/* Steps 1 and 3 to 5 of vLLM's scheduling, a subset of which Sarathi-Serve uses; see
 * step.h. */
#include <llmserve/policy/check.h>
#include <llmserve/policy/step.h>

/* Time to the next plan if the cache answered every reservation with "later". */
static const int64_t retry_ns = LLS_NS_PER_S / 1000;

uint32_t lls_pol_step_free_units(const struct lls_pol_step *s)
{
  struct lls_capacity capacity = {.size = sizeof capacity};
  s->cache->capacity(s->cache->context, LLS_TIER_DEVICE, &capacity);
  return capacity.free_units;
}

/* watermark = floor(fraction * total) */
void lls_pol_step_begin(struct lls_pol_step *s, const struct lls_step_view *view,
                        struct lls_plan *plan, double watermark)
{
  struct lls_capacity capacity = {.size = sizeof capacity};
  view->cache->capacity(view->cache->context, LLS_TIER_DEVICE, &capacity);
  *s = (struct lls_pol_step){
      .view = view,
      .cache = view->cache,
      .plan = plan,
      .tokens = view->max_tokens,
      .sequences = view->max_sequences,
      .order = view->running,
      .tail = view->n_running,
      .total_units = capacity.total_units,
      .watermark_units = (uint32_t)(watermark * capacity.total_units),
      .drafts = LLS_POL_DRAFTS_NONE,
  };
}

/* Every decode comes before any guess: of two decodes and many guesses both run. */
void lls_pol_step_own_drafts(struct lls_pol_step *s, const struct lls_pol_drafts *drafts)
{
  uint64_t own = 0;
  s->drafts = *drafts;
  s->drafts.fewest = s->view->min_drafts;
  for (uint32_t i = 0; i < s->view->n_running; i++)
    if (lls_request_decodes(s->view->running[i]))
      own += lls_request_pending(s->view->running[i]);
  s->draft_tokens = own < s->tokens ? s->tokens - (uint32_t)own : 0;
  s->draft_tokens = lls_pol_min(s->draft_tokens, lls_pol_drafts_most(s->view));
}

void lls_pol_step_drafts(struct lls_pol_step *s, const struct lls_cost *cost)
{
  struct lls_pol_drafts drafts;
  lls_pol_drafts_choose(&drafts, cost, s->view);
  lls_pol_step_own_drafts(s, &drafts);
}

uint32_t lls_pol_step_drafts_of(const struct lls_pol_step *s, const struct lls_request *r,
                                uint32_t tokens)
{
  if (r->drafted_tokens == 0 || tokens < lls_request_pending(r) || tokens > s->tokens)
    return 0;
  return lls_pol_min(lls_pol_drafts_of(&s->drafts, r),
                     lls_pol_min(s->draft_tokens, s->tokens - tokens));
}

void lls_pol_step_end(struct lls_pol_step *s)
{
  const struct lls_step_view *v = s->view;
  bool work = v->n_waiting + v->n_running + v->n_preempted > 0;
  s->plan->idle_until_ns = work ? lls_time_after(v->now_ns, retry_ns) : LLS_NEVER;
}

void lls_pol_step_run(struct lls_pol_step *s, const struct lls_request *r,
                      uint32_t tokens)
{
  LLS_POL_CHECK(tokens > 0 && tokens <= s->tokens && s->sequences > 0);
  uint32_t drafts = lls_pol_step_drafts_of(s, r, tokens);
  lls_plan_run_drafts(s->plan, r, tokens, drafts);
  s->runs++;
  s->sequences--;
  s->tokens -= tokens + drafts;
  s->draft_tokens -= drafts;
  s->prompts += r->state == LLS_DECODING ? 0 : tokens;
}

uint32_t lls_pol_step_pending(const struct lls_pol_step *s, const struct lls_request *r)
{
  uint32_t pending = lls_request_pending(r);
  if (r->cached_tokens == 0)
    pending -= s->cache->prefix(s->cache->context, r);
  return pending;
}

uint32_t lls_pol_step_chunk(const struct lls_pol_step *s,
                            const struct lls_engine_caps *engine, uint32_t pending,
                            uint32_t budget, bool whole)
{
  uint32_t left = s->prompts < budget ? budget - s->prompts : 0;
  if (pending <= left && pending <= s->tokens)
    return pending;
  if (!engine->chunked_prefill)
    return s->prompts == 0 && pending <= s->tokens ? pending : 0;
  if (whole && s->prompts > 0)
    return 0;
  return lls_pol_min(left, s->tokens);
}

bool lls_pol_step_too_long(struct lls_pol_step *s, const struct lls_engine_caps *engine,
                           const struct lls_request *r, uint32_t pending)
{
  if (engine->chunked_prefill || pending <= s->view->max_tokens)
    return false;
  lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  return true;
}

static uint32_t block_units(const struct lls_pol_step *s, const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  s->cache->need(s->cache->context, r, s->cache->block_tokens, LLS_FORM_NONE, &need);
  return need.new_units;
}

/* True if a whole block is free. vLLM asks for that before it lets any sequence grow,
 * even if its last block has room. s->sure counts the blocks known to be free, so that
 * one call of capacity() serves many decodes: this runs for each decode of a step. */
static bool block_is_free(struct lls_pol_step *s, const struct lls_request *r,
                          uint32_t tokens)
{
  bool by_a_block = tokens <= s->cache->block_tokens;
  if (by_a_block && s->sure > 1) {
    s->sure--;
    return true;
  }
  uint32_t units = block_units(s, r), free = lls_pol_step_free_units(s);
  s->sure = by_a_block && units > 0 ? free / units : 0;
  return free >= units;
}

static bool preempt(struct lls_pol_step *s, const struct lls_request *r, uint32_t mode)
{
  if (s->cache->preempt(s->cache->context, r, mode) < 0)
    return false;
  lls_plan_preempt(s->plan, r, mode);
  s->preempted++;
  return true;
}

bool lls_pol_step_take_off(struct lls_pol_step *s, const struct lls_request *r)
{
  uint32_t mode = s->view->preempt_mode;
  return preempt(s, r, mode) ||
         (mode != LLS_PREEMPT_RECOMPUTE && preempt(s, r, LLS_PREEMPT_RECOMPUTE));
}

/* If there is no memory for guesses, the rest of the plan does without: what was reserved
 * before may be run with fewer tokens. */
int lls_pol_step_reserve_as(struct lls_pol_step *s, const struct lls_request *r,
                            uint32_t tokens, uint32_t form, uint32_t flags)
{
  const struct lls_cache_service *cache = s->cache;
  uint32_t drafts = lls_pol_step_drafts_of(s, r, tokens);
  if (drafts > 0) {
    int rc = cache->reserve(cache->context, r, tokens + drafts, form, flags);
    if (rc == LLS_RESERVE_OK)
      return rc;
    /* LATER, or NEVER: the pool may have room for the tokens alone */
    s->drafts = (struct lls_pol_drafts)LLS_POL_DRAFTS_NONE;
  }
  return cache->reserve(cache->context, r, tokens, form, flags);
}

int lls_pol_step_reserve(struct lls_pol_step *s, const struct lls_request *r,
                         uint32_t tokens)
{
  return lls_pol_step_reserve_as(s, r, tokens, LLS_FORM_NONE, 0);
}

bool lls_pol_step_grow(struct lls_pol_step *s, uint32_t i, uint32_t tokens)
{
  const struct lls_request *r = s->order[i];
  LLS_POL_CHECK(i < s->tail && s->tail <= s->view->n_running);
  for (;;) {
    bool alone = s->tail == 1;
    int rc = LLS_RESERVE_LATER;
    if (alone || s->no_margin || block_is_free(s, r, tokens))
      rc = lls_pol_step_reserve(s, r, tokens);
    if (rc == LLS_RESERVE_OK)
      return true;
    /* the request could not grow even if alone in memory */
    if (rc != LLS_RESERVE_LATER) {
      lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
      return false;
    }
    if (alone)
      return false;
    s->tail--;
    if (!lls_pol_step_take_off(s, s->order[s->tail]) || s->tail == i)
      return false;
  }
}

uint32_t lls_pol_step_decode(struct lls_pol_step *s, uint32_t i)
{
  const struct lls_request *r = s->order[i];
  uint32_t tokens = lls_pol_step_decode_tokens(s, r);
  if (tokens == 0 || s->sequences == 0 || !lls_pol_step_grow(s, i, tokens))
    return 0;
  lls_pol_step_run(s, r, tokens);
  return tokens;
}

/* Never-fits rule: the prompt must leave the watermark free in an empty cache. A request
 * which already has generated tokens may use the whole cache. */
bool lls_pol_step_never_fits(struct lls_pol_step *s, const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  if (r->generated_tokens > 0)
    return false;
  s->cache->need(s->cache->context, r, lls_request_pending(r), LLS_FORM_NONE, &need);
  if (need.new_units + need.restore_units <= s->total_units - s->watermark_units)
    return false;
  lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  return true;
}

/* Reserves memory for r. Rolls this back if fewer than `spare` units stay free, unless no
 * other request runs or was planned. */
static enum lls_pol_step_answer try_reserve(struct lls_pol_step *s,
                                            const struct lls_request *r, uint32_t pending,
                                            uint32_t spare)
{
  bool alone = s->tail == 0 && s->runs == 0;
  uint32_t mark = s->cache->mark(s->cache->context);
  int rc = lls_pol_step_reserve(s, r, pending);
  if (rc == LLS_RESERVE_OK && (alone || lls_pol_step_free_units(s) >= spare))
    return LLS_POL_STEP_YES;
  s->cache->rollback(s->cache->context, mark);
  if (rc == LLS_RESERVE_OK || rc == LLS_RESERVE_LATER)
    return LLS_POL_STEP_NOT_NOW;
  lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  return LLS_POL_STEP_REJECTED;
}

enum lls_pol_step_answer lls_pol_step_admit(struct lls_pol_step *s,
                                            const struct lls_request *r, uint32_t pending)
{
  if (lls_pol_step_never_fits(s, r))
    return LLS_POL_STEP_REJECTED;
  return try_reserve(s, r, pending, s->watermark_units);
}

enum lls_pol_step_answer lls_pol_step_bring_back(struct lls_pol_step *s,
                                                 const struct lls_request *r,
                                                 uint32_t pending)
{
  struct lls_need all = {.size = sizeof all}, more = all;
  uint32_t tokens = s->cache->block_tokens;
  s->cache->need(s->cache->context, r, pending, LLS_FORM_NONE, &more);
  s->cache->need(s->cache->context, r, pending + tokens, LLS_FORM_NONE, &all);
  return try_reserve(s, r, pending, all.new_units - more.new_units);
}

void lls_pol_step_preferences(struct lls_scheduler_caps *caps, int64_t preempt)
{
  if (preempt == LLS_POL_STEP_SWAP)
    caps->preempt[caps->n_preempt++] = LLS_PREEMPT_SWAP;
  caps->preempt[caps->n_preempt++] = LLS_PREEMPT_RECOMPUTE;
  caps->needs |= LLS_USES_DRAFTS;
}
