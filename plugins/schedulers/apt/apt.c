/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apt-Serve: each iteration runs prompts or decodes, whichever have waited longer in
 * total. It chooses the requests, and the forms to cache them in, with the greatest value
 * that fits into memory.
 */
#include "apt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Continues a prompt longer than a step, before other prompts begin. */
static bool continue_prefill(struct apt *a, struct lls_pol_step *s)
{
  uint32_t budget = lls_pol_min((uint32_t)a->params.max_tokens, s->view->max_tokens);
  for (uint32_t i = 0; i < a->n_running && s->runs == 0; i++) {
    const struct lls_request *r = s->view->running[i];
    uint32_t pending = lls_request_pending(r);
    if (r->state == LLS_PREFILLING &&
        lls_pol_step_reserve(s, r, pending) == LLS_RESERVE_OK)
      lls_pol_step_run(s, r, lls_pol_min(pending, budget));
  }
  return s->runs > 0;
}

/* Plans prompts if U_R <= U_W (the total waiting times) and a prompt fits, else decodes.
 * Each chunk of a prompt longer than a step is an iteration of its own, chosen by this
 * rule; otherwise the prompt would delay all decodes until it is complete. */
static void separate(struct apt *a, struct lls_pol_step *s)
{
  bool urgent = a->n_running == 0 || a->urgency_running <= a->urgency_waiting;
  if (urgent && continue_prefill(a, s))
    return;
  if (a->n_stalled > 0) {
    uint32_t budget = lls_pol_min((uint32_t)a->params.max_tokens, s->view->max_tokens);
    apt_resume(a, s, budget, true);
  }
  if (a->n_waiting > 0 && urgent && a->n_stalled == 0)
    apt_prefill(a, s);
  if (s->runs == 0 && a->n_running > 0)
    apt_decode(a, s);
  if (s->runs == 0)
    continue_prefill(a, s);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct apt *a = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, a->params.watermark);
  lls_pol_step_drafts(&s, a->base.host->cost);
  apt_value_all(a, view, s.total_units);
  if (a->params.mode == APT_CHUNKED)
    apt_chunked(a, &s);
  else
    separate(a, &s);
  if (out->n_items == 0 && a->n_waiting > 0)
    apt_last_resort(a, &s);
  lls_pol_dropped_planned(&a->dropped, out);
  lls_pol_step_end(&s);
  return 0;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct apt *a = self;
  int64_t due_ns = lls_time_after(r->arrival_ns, apt_first_limit_ns(a, r));
  lls_pol_urgent_arrived(&a->urgent, r, due_ns, LLS_POL_URGENT_ORDINARY);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  (void)reason;
  lls_pol_urgent_finished(&((struct apt *)self)->urgent, r);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  const struct apt_params *p = &((const struct apt *)self)->params;
  if (p->mode == APT_CHUNKED)
    out->needs |= LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  if (p->hidden == APT_HIDDEN_ON)
    out->needs |= LLS_NEEDS_FORMS;
  lls_pol_step_preferences(out, p->preempt);
}

/* Figures of the last plan. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct apt *a = self;
  sink->number(sink->context, "urgency_running_s", a->urgency_running);
  sink->number(sink->context, "urgency_waiting_s", a->urgency_waiting);
  sink->number(sink->context, "n_rho", a->n_rho);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  stats(self, sink);
}

/* ---- parameters -------------------------------------------------------------------- */

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(
        struct apt_params, mode, "separate", "separate|chunked",
        "steps of prompts or of decodes, or prompts in pieces beside decodes"),
    LLS_POL_STEP_MAX_TOKENS(struct apt_params),
    LLS_POL_STEP_MAX_SEQS(struct apt_params, "256"),
    LLS_POL_ENDS_LOOK(struct apt_params),
    LLS_PARAM_INT(struct apt_params, chunk_tokens, "512", 16, 65536, "tokens",
                  "token budget of a step in chunked mode",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_WATERMARK(struct apt_params, "0.05"),
    LLS_POL_STEP_PREEMPT(struct apt_params),
    LLS_PARAM_DURATION(struct apt_params, ttft_slo, "1s", 1e7, 6e11,
                       "time to the first token of a request that names none",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct apt_params, tbt_slo, "1s", 1e7, 6e11,
                       "time between tokens of a request that names none",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct apt_params, max_wait, "0s", 0, 3.6e12,
                       "a request that has waited longer is no longer demoted; 0 = never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct apt_params, max_stall, "5s", 0, 3.6e12,
                       "a request that has begun and waited longer for its next token "
                       "takes the place of others; 0 = never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(struct apt_params, violated, "demote", "demote|decay|off",
                     "value of a request beyond its limit: next to nothing, decay times "
                     "its waiting time, or all of it",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(struct apt_params, decay, "0.4", 0, 1, "",
                    "factor of a violated request's value; see violated",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(struct apt_params, violated_reserve, "0.2", 0, 0.9, "",
                    "part of the cache that stays free when a demoted request is let in",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(
        struct apt_params, late_share, "0", 0, 0.1, "",
        "part of a request's gaps that may exceed tbt_slo: P99 overlooks 0.01; "
        "0: none, as in the paper",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct apt_params, sticky, "false",
                   "once beyond its limit, a request stays demoted after its next token",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct apt_params, n_excludes_violated, "false",
                   "N counts those within their limits alone, as the prototype does",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(
        struct apt_params, rho, "auto", 0, 1, "s/unit",
        "time that a unit of keys or values replaced by hidden form adds to a "
        "step; auto: as the cost model says",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(
        struct apt_params, rho_scale, "10", 0.01, 1000, "",
        "factor of the measured rho: the steps that hidden form is charged for",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(struct apt_params, hidden, "auto", "auto|on|off",
                     "hidden form: where the cache offers it, required, or never"),
    LLS_PARAM_CHOICE(
        struct apt_params, fill, "break", "break|skip",
        "at the first increment that does not fit: stop, or try the next ones",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct apt_params, decode_mode, "incumbent", "incumbent|literal",
                     "forms of running requests: kept, or chosen again in every step",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct apt_params, upgrade, "cost", "cost|room|idle|never",
                     "hidden form is converted to KV in place: if that is worth more "
                     "than the memory is to waiting requests, whenever there is memory, "
                     "only while no request waits, or never",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct apt_params, urgency_clip, "none", "none|slo",
                     "most that one request adds to its side's urgency",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

/* ---- life -------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct apt *a = self;
  lls_pol_heap_free(&a->heap);
  lls_pol_dropped_free(&a->dropped);
  lls_pol_urgent_free(&a->urgent);
  free(a->candidates);
  free(a->taken);
  free(a->stays);
  free(a->order);
  free(a);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct apt *a = LLS_POL_SCHEDULER_NEW(struct apt, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  size_t n = (size_t)host->engine->max_requests + 1;
  lls_pol_fit_init(&a->fit, host->engine);
  a->restore_ns = -1;
  a->candidates = calloc(n, sizeof *a->candidates);
  a->taken = calloc(n, sizeof *a->taken);
  a->stays = calloc(n, sizeof *a->stays);
  a->order = calloc(n, sizeof *a->order);
  int rc = lls_pol_heap_init(&a->heap, (uint32_t)n);
  if (rc == 0)
    rc = lls_pol_dropped_init(&a->dropped, host);
  if (rc == 0)
    rc = lls_pol_urgent_init(&a->urgent, host->engine->max_requests);
  if (rc < 0 || a->candidates == NULL || a->taken == NULL || a->stays == NULL ||
      a->order == NULL) {
    destroy(a);
    return -ENOMEM;
  }
  *self = a;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .calibrate = apt_calibrate,
    .on_arrival = on_arrival,
    .on_finish = on_finish,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN(
    "apt", struct apt_params,
    "Apt-Serve: the requests of most value for their memory, in KV or hidden form");
