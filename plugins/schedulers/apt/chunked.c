/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apt-Serve-S (section 6.7): chunks of prompts in the same steps as decodes, within a
 * token budget. The greedy algorithm chooses waiting requests for the free memory;
 * running ones are preempted only if memory is short. The first chunk fixes a request's
 * form.
 */
#include "apt.h"

/* Continues begun prompts, which have all their memory; the longest waiting first. */
static void continue_prompts(struct apt *a, struct lls_pol_step *s, uint32_t budget)
{
  const struct lls_engine_caps *engine = a->base.host->engine;
  for (uint32_t i = 0; i < s->tail && s->sequences > 0; i++) {
    const struct lls_request *r = s->order[i];
    if (r->state == LLS_DECODING)
      continue;
    uint32_t pending = lls_request_pending(r);
    uint32_t tokens = lls_pol_step_chunk(s, engine, pending, budget, false);
    if (tokens > 0 && lls_pol_step_reserve(s, r, pending) == LLS_RESERVE_OK)
      lls_pol_step_run(s, r, tokens);
  }
}

/* Begins a chosen request that is not on the device, leaving the watermark free, or, for
 * a violated request, the reserve. */
static void begin_prompt(struct apt *a, struct lls_pol_step *s, struct candidate *c,
                         uint32_t budget)
{
  struct lls_need need = {.size = sizeof need};
  uint32_t pending = lls_pol_step_pending(s, c->request),
           free = lls_pol_step_free_units(s);
  uint32_t form = c->held != LLS_FORM_NONE ? LLS_FORM_NONE : c->form;
  s->cache->need(s->cache->context, c->request, pending, form, &need);
  uint64_t kept = c->violated ? apt_kept_from_violated(a, s) : s->watermark_units;
  if (need.new_units + need.restore_units + kept <= free)
    apt_admit(a, s, c, budget, false);
}

/* Returns the units by which the decodes of this step grow. */
static uint64_t growth(const struct apt *a)
{
  uint64_t units = 0;
  for (uint32_t i = 0; i < a->n_running; i++) {
    const struct lls_request *r = a->candidates[i].request;
    if (r->state == LLS_DECODING)
      units += apt_units(a, lls_request_length(r), a->candidates[i].held) -
               apt_units(a, r->cached_tokens, a->candidates[i].held);
  }
  return units;
}

/* Makes room for chosen requests that are in time and begin in this step. Runs before
 * decodes are planned, so that preempted requests are not among these. */
static void make_room(struct apt *a, struct lls_pol_step *s, uint32_t n_taken,
                      uint32_t budget)
{
  uint64_t units = growth(a) + s->watermark_units, tokens = a->n_running;
  for (uint32_t i = 0; i < n_taken && tokens < budget; i++) {
    const struct candidate *c = &a->candidates[a->n_running + a->taken[i]];
    if (c->violated)
      continue;
    units += c->form == LLS_FORM_HIDDEN ? c->hidden : c->kv;
    tokens += c->tokens;
    if (!apt_make_room(a, s, units))
      return;
  }
}

/* Runs greedy over the waiting requests, for the memory left after the growth of running
 * ones. The paper's choice is over all requests and all memory, where KV form seems to
 * fit always; but running requests keep their forms, so the free memory decides. */
static struct greedy_solution choose(struct apt *a, const struct lls_pol_step *s)
{
  uint64_t kept = growth(a) + s->watermark_units;
  uint64_t room = lls_pol_step_free_units(s) + apt_spare_units(a);
  const struct greedy_problem problem = {
      .candidates = a->candidates + a->n_running,
      .n = a->n_waiting,
      .memory = room > kept ? room - kept : 0,
      .n_rho = a->n_rho,
      .eps = a->eps,
      .skip = a->params.fill == APT_SKIP,
      .hidden_pays = a->hidden_pays,
      .tokens = UINT32_MAX,
      .sequences = UINT32_MAX,
  };
  return apt_greedy(&problem, &a->heap, a->taken);
}

void apt_chunked(struct apt *a, struct lls_pol_step *s)
{
  const struct apt_params *p = &a->params;
  uint32_t chunk = lls_pol_min((uint32_t)p->chunk_tokens, s->view->max_tokens);
  uint32_t most = lls_pol_min((uint32_t)p->max_seqs, s->view->max_sequences);
  struct greedy_solution got = {0};
  uint32_t left = chunk > a->n_running ? chunk - a->n_running : 0;
  if (a->n_stalled == 0 || apt_resume(a, s, left, false))
    got = choose(a, s);
  lls_pol_scheduler_count(&a->base, "single_won", got.single_won);
  if (p->late_share > 0)
    make_room(a, s, got.n, chunk);
  apt_decode(a, s);
  uint32_t budget = s->runs < chunk ? chunk - s->runs : 0;
  uint32_t present = s->tail;
  continue_prompts(a, s, budget);
  for (uint32_t i = 0; i < got.n && s->prompts < budget && present < most; i++) {
    uint32_t before = s->runs;
    begin_prompt(a, s, &a->candidates[a->n_running + a->taken[i]], budget);
    present += s->runs - before;
  }
  lls_pol_scheduler_count(&a->base, "prefill_steps", s->prompts > 0);
}
