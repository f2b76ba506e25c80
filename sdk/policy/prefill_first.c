/* SPDX-License-Identifier: Apache-2.0 */
/* See prefill_first.h. Step numbers refer to vLLM's loop in the README of fcfs. */
#include <llmserve/policy/prefill_first.h>

struct pass { /* one plan in the making */
  const struct lls_engine_caps *engine;
  struct lls_pol_step *step;
  uint32_t budget; /* prompt tokens in the step */
  uint32_t seats;
};

/* Runs the next chunk of a prompt longer than the token budget, before anything else. */
static void continue_prefills(const struct pass *p)
{
  struct lls_pol_step *s = p->step;
  for (uint32_t i = 0; i < s->tail; i++) {
    const struct lls_request *r = s->order[i];
    if (r->state != LLS_PREFILLING)
      continue;
    uint32_t pending = lls_request_pending(r);
    if (lls_pol_step_grow(s, i, pending)) {
      lls_pol_step_run(s, r, lls_pol_min(pending, p->budget));
      return;
    }
  }
}

/* Returns true if the next request in the queue may be tried as well. */
static bool admit(const struct pass *p, const struct lls_pol_admission *a,
                  const struct lls_request *r)
{
  struct lls_pol_step *s = p->step;
  uint32_t pending = lls_pol_step_pending(s, r);
  if (s->prompts == 0 && lls_pol_step_too_long(s, p->engine, r, pending))
    return true;
  uint32_t tokens = lls_pol_step_chunk(s, p->engine, pending, p->budget, true);
  if (tokens == 0)
    return a->skip_misfits && s->prompts < p->budget;
  switch (lls_pol_step_admit(s, r, pending)) {
  case LLS_POL_STEP_NOT_NOW:
    return a->skip_misfits && lls_pol_step_free_units(s) > s->watermark_units;
  case LLS_POL_STEP_REJECTED:
    return true;
  default:
    lls_pol_step_run(s, r, tokens);
    if (a->let_in != NULL)
      a->let_in(a->context, r);
    return tokens == pending;
  }
}

/* Step 1: whole prompts in the order of the queue until the first that does not fit. */
static void admit_waiting(const struct pass *p, const struct lls_pol_admission *a)
{
  const struct lls_request *r;
  while (p->step->view->n_running + p->step->runs < p->seats &&
         (r = a->next(a->context)) != NULL)
    if (!admit(p, a, r))
      return;
}

/* Step 5: preempted requests return to the device in order of arrival. */
static void bring_back(const struct pass *p)
{
  struct lls_pol_step *s = p->step;
  for (uint32_t i = 0; i < s->view->n_preempted; i++) {
    const struct lls_request *r = s->view->preempted[i];
    uint32_t pending = lls_pol_step_pending(s, r);
    if (s->tail + i >= p->seats || s->tokens == 0 || s->sequences == 0 ||
        (pending > 1 && s->runs > 0))
      return;
    enum lls_pol_step_answer answer = lls_pol_step_bring_back(s, r, pending);
    if (answer == LLS_POL_STEP_NOT_NOW)
      return;
    if (answer == LLS_POL_STEP_YES)
      lls_pol_step_run(s, r, lls_pol_min(pending, p->budget));
    if (pending > 1)
      return;
  }
}

/* Step 3: decodes run if no prompt does. */
static void decode(const struct pass *p)
{
  struct lls_pol_step *s = p->step;
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++)
    if (s->order[i]->state == LLS_DECODING)
      lls_pol_step_decode(s, i);
}

void lls_pol_prefill_first_plan(const struct lls_host *host,
                                const struct lls_pol_prefill_first_params *params,
                                const struct lls_pol_admission *admission,
                                const struct lls_step_view *view, struct lls_plan *out)
{
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, params->watermark);
  lls_pol_step_drafts(&s, host->cost);
  const struct pass p = {
      .engine = host->engine,
      .step = &s,
      .budget = lls_pol_min((uint32_t)params->max_tokens, view->max_tokens),
      .seats = lls_pol_min((uint32_t)params->max_seqs, view->max_sequences),
  };
  continue_prefills(&p);
  if (s.runs == 0 && s.preempted == 0 && view->n_preempted == 0)
    admit_waiting(&p, admission);
  if (s.runs == 0) {
    decode(&p);
    if (s.preempted == 0)
      bring_back(&p);
  }
  lls_pol_step_end(&s);
}

struct walk {
  const struct lls_step_view *view;
  uint32_t next;
};

static const struct lls_request *next_in_order(void *context)
{
  struct walk *w = context;
  return w->next < w->view->n_waiting ? w->view->waiting[w->next++] : NULL;
}

void lls_pol_prefill_first_plan_in_order(
    const struct lls_host *host, const struct lls_pol_prefill_first_params *params,
    const struct lls_step_view *view, struct lls_plan *out)
{
  struct walk walk = {.view = view};
  const struct lls_pol_admission admission = {.context = &walk, .next = next_in_order};
  lls_pol_prefill_first_plan(host, params, &admission, view, out);
}
