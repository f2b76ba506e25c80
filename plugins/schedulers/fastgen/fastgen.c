/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DeepSpeed-FastGen's dynamic SplitFuse: every step has the same size. Decodes are
 * planned first, then prompts, cut or combined until the budget is used up exactly. No
 * request is preempted for another: a request that can't grow is passed over. Only if
 * nothing at all can run, the last request that holds memory is flushed: it goes to the
 * back of the queue and is computed again. The queue is in order of entry, not of
 * arrival.
 */
#include <llmserve/policy/lists.h>
#include <llmserve/policy/step.h>

#include <errno.h>
#include <stdlib.h>

struct params {
  int64_t budget, max_seqs;
};

struct fastgen {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_lists waiting; /* one queue */
};

static uint32_t no_group(void *scheduler, const struct lls_request *r)
{
  (void)scheduler, (void)r;
  return 0;
}

static void reject(struct lls_pol_step *s, const struct lls_request *r)
{
  lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
}

/* Plans decodes; a request that can't grow is passed over. */
static void generate(struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++) {
    const struct lls_request *r = s->order[i];
    if (r->state != LLS_DECODING)
      continue;
    uint32_t tokens = lls_pol_step_decode_tokens(s, r);
    int rc = lls_pol_step_reserve(s, r, tokens);
    if (rc == LLS_RESERVE_OK)
      lls_pol_step_run(s, r, tokens);
    else if (rc != LLS_RESERVE_LATER)
      reject(s, r);
  }
}

/* Runs as many tokens of a prompt as the budget has left, if all its remaining tokens
 * fit the free memory now. */
static enum lls_pol_step_answer take_prompt(struct lls_pol_step *s,
                                            const struct lls_engine_caps *engine,
                                            const struct lls_request *r)
{
  uint32_t pending = lls_pol_step_pending(s, r), free = lls_pol_step_free_units(s);
  struct lls_need need = {.size = sizeof need};
  s->cache->need(s->cache->context, r, pending, LLS_FORM_NONE, &need);
  if (need.new_units > s->total_units) {
    reject(s, r);
    return LLS_POL_STEP_REJECTED;
  }
  uint32_t tokens = lls_pol_step_chunk(s, engine, pending, s->view->max_tokens, false);
  if (need.new_units > free || tokens == 0 || s->sequences == 0)
    return LLS_POL_STEP_NOT_NOW;
  int rc = lls_pol_step_reserve(s, r, tokens);
  if (rc == LLS_RESERVE_LATER)
    return LLS_POL_STEP_NOT_NOW;
  if (rc != LLS_RESERVE_OK) {
    reject(s, r);
    return LLS_POL_STEP_REJECTED;
  }
  lls_pol_step_run(s, r, tokens);
  return LLS_POL_STEP_YES;
}

/* Plans prompts after the decodes. The rest of a cut prompt is at the head of the
 * queue; no prompt overtakes another. */
static void prefill(struct fastgen *f, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail; i++)
    if (s->order[i]->state != LLS_DECODING &&
        take_prompt(s, f->base.host->engine, s->order[i]) == LLS_POL_STEP_NOT_NOW)
      return;
  const struct lls_request *r;
  while (s->tokens > 0 && s->sequences > 0 &&
         (r = lls_pol_lists_first(&f->waiting, 0)) != NULL)
    if (lls_pol_backlog_take(&f->waiting.backlog, r) &&
        take_prompt(s, f->base.host->engine, r) == LLS_POL_STEP_NOT_NOW) {
      lls_pol_backlog_add(&f->waiting.backlog, r);
      return;
    }
}

/* Preempts the last request that holds memory, if nothing can run. */
static bool flush_last(const struct fastgen *f, struct lls_pol_step *s)
{
  if (s->runs > 0 || s->tail == 0 || s->plan->n_items > s->preempted)
    return false;
  lls_pol_scheduler_count(&f->base, "flushed", 1);
  return lls_pol_step_take_off(s, s->order[--s->tail]);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct fastgen *f = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, 0);
  /* without chunked prefill a prompt longer than the budget could never run */
  if (f->base.host->engine->chunked_prefill)
    s.tokens = lls_pol_min(s.tokens, (uint32_t)f->params.budget);
  lls_pol_step_drafts(&s, f->base.host->cost);
  s.sequences = lls_pol_min(s.sequences, (uint32_t)f->params.max_seqs);
  lls_pol_backlog_begin(&f->waiting.backlog, view);
  do {
    generate(&s);
    prefill(f, &s);
  } while (flush_last(f, &s));
  lls_pol_backlog_end(&f->waiting.backlog, out);
  lls_pol_step_end(&s);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, LLS_POL_STEP_RECOMPUTE);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  lls_pol_lists_dump(&((struct fastgen *)self)->waiting, sink);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, budget, "768", 16, 65536, "tokens",
                  "tokens of every step", .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_MAX_SEQS(struct params, "512"),
};

static void destroy(void *self)
{
  lls_pol_lists_free(&((struct fastgen *)self)->waiting);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct fastgen *f = LLS_POL_SCHEDULER_NEW(struct fastgen, host, parameters, params);
  if (f == NULL)
    return -ENOMEM;
  int rc = lls_pol_lists_init(&f->waiting, &f->base, 1, no_group);
  f->waiting.by_entry = true;
  if (rc < 0)
    destroy(f);
  else
    *self = f;
  return rc;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = lls_pol_backlog_on_arrival,
    .on_finish = lls_pol_backlog_on_finish,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("fastgen", struct params,
                         "dynamic SplitFuse: steps of one size");
