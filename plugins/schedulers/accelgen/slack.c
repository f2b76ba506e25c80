/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long each request may still wait (section 4.3, Figure 10), and the resulting
 * order:
 *
 *   T_e = N_ck T_max        T_r = SLO - T_w - T_e        urgent: T_r <= (1 + eps) T_max
 *
 * T_w counts from the time when the request entered the queue: its arrival, or its
 * preemption. For a decode it counts from its last token, and is 0 if the last step
 * emitted that. For a request with a deadline for the whole answer, the allowed wait of
 * its next iteration replaces SLO - T_e.
 */
#include "accelgen.h"

#include <llmserve/policy/check.h>
#include <llmserve/policy/length.h>

#include <math.h>

/* weight of the newest chunk in the moving average of chunks */
#define CHUNK_WEIGHT 0.05

static const int64_t behind_all = INT64_C(1)
                                  << 60; /* keys of the late: after all others */
/* TTFT deadline of requests that name none */
static const int64_t least_ttft_ns = 300000000;

enum { GROUP = 512 }; /* tokens; TTFT deadlines are by length group (section 3.2) */

int64_t accelgen_tbt_slo(const struct accelgen *a, const struct lls_request *r)
{
  if (r->slo.tbt_ns != LLS_NEVER)
    return r->slo.tbt_ns;
  return r->slo.tpot_ns != LLS_NEVER ? r->slo.tpot_ns : a->params.tbt_slo;
}

/* Returns the TTFT deadline of a request that names none: ttft_scale times the time of
 * a prompt of its length group at the pivot's pace. */
int64_t accelgen_ttft_slo(const struct accelgen *a, const struct lls_request *r)
{
  if (r->slo.ttft_ns != LLS_NEVER)
    return r->slo.ttft_ns;
  if (a->params.ttft_slo != LLS_NEVER)
    return a->params.ttft_slo;
  uint32_t group = (r->prompt_tokens + GROUP - 1) / GROUP * GROUP;
  double prompt_ns = (double)a->pace.t_pf * group / a->pace.s_pf;
  int64_t slo = (int64_t)(a->params.ttft_scale * prompt_ns);
  return slo > least_ttft_ns ? slo : least_ttft_ns;
}

/* ---- deadlines of whole requests --------------------------------------------------- */

static int64_t jct_slo(const struct accelgen *a, const struct lls_request *r)
{
  if (r->slo.ttft_ns != LLS_NEVER || r->slo.tbt_ns != LLS_NEVER ||
      r->slo.tpot_ns != LLS_NEVER)
    return 0;
  return r->slo.completion_ns != LLS_NEVER ? r->slo.completion_ns : a->params.jct_slo;
}

/* Begins a request's wait for its next iteration. */
static void wait_from(struct accelgen *a, const struct lls_request *r, int64_t now_ns)
{
  struct accelgen_jct *j = &a->jobs[r->slot].jct;
  uint32_t predicted = lls_pol_predicted_output(r), pending = lls_request_pending(r);
  uint32_t s_g = predicted > r->generated_tokens ? predicted - r->generated_tokens : 1;
  uint32_t n_ck = pending > 1 ? accelgen_n_chunks(&a->pace, pending) : 0;
  int64_t work = accelgen_jct_work(n_ck, s_g, accelgen_longest_step(&a->pace),
                                   accelgen_pause(&a->pace, &a->params));
  accelgen_jct_wait(j, now_ns, r->arrival_ns + jct_slo(a, r) - now_ns, work, n_ck + s_g);
}

/* Returns the latest time at which the request must begin, by current estimates: then
 * its T_r is 0. */
static int64_t last_start_ns(const struct accelgen *a, const struct lls_request *r)
{
  const struct accelgen_job *job = &a->jobs[r->slot];
  if (job->is_jct)
    return lls_time_after(job->jct.since, job->jct.allowed);
  uint32_t n = accelgen_n_chunks(&a->pace, lls_request_pending(r));
  int64_t due_ns = lls_time_after(r->queue_enter_ns, accelgen_ttft_slo(a, r));
  return due_ns - n * accelgen_longest_step(&a->pace);
}

void accelgen_arrived(struct accelgen *a, const struct lls_request *r)
{
  struct accelgen_job *job = &a->jobs[r->slot];
  *job = (struct accelgen_job){.prefix = UINT32_MAX, .is_jct = jct_slo(a, r) > 0};
  if (job->is_jct)
    wait_from(a, r, r->queue_enter_ns);
  lls_pol_urgent_arrived(&a->waiting, r, last_start_ns(a, r), LLS_POL_URGENT_ORDINARY);
}

/* ---- after a step ------------------------------------------------------------------ */

/* Measures the pause of a request that runs for the first time after a preemption. */
static void resumed(struct accelgen *a, const struct lls_request *r, int64_t started_ns)
{
  int64_t pause = started_ns - r->queue_enter_ns;
  a->jobs[r->slot].paused = false;
  if (r->preemptions > 0 && pause > a->pace.longest_pause)
    a->pace.longest_pause = pause;
}

void accelgen_ran(struct accelgen *a, const struct lls_step_report *report)
{
  accelgen_pace_step(&a->pace, report->ended_ns - report->started_ns);
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_step_result *result = &report->results[i];
    const struct lls_request *r = result->request;
    struct accelgen_job *job = &a->jobs[r->slot];
    if (result->tokens > 1)
      accelgen_pace_chunk(&a->pace, CHUNK_WEIGHT, result->tokens);
    a->pace.decodes += result->emitted > 0;
    if (job->paused)
      resumed(a, r, report->started_ns);
    if (!job->is_jct)
      continue;
    accelgen_jct_waited(&job->jct, report->started_ns - job->jct.since);
    wait_from(a, r, report->ended_ns);
  }
}

/* ---- a look at all of them --------------------------------------------------------- */

static int64_t slack_of(const struct accelgen *a, const struct accelgen_candidate *c,
                        int64_t now_ns)
{
  const struct lls_request *r = c->request;
  const struct accelgen_job *job = &a->jobs[r->slot];
  if (job->is_jct)
    return job->jct.allowed - (now_ns - job->jct.since);
  int64_t since = r->state == LLS_DECODING ? r->last_token_ns : r->queue_enter_ns;
  int64_t slo =
      r->generated_tokens > 0 ? accelgen_tbt_slo(a, r) : accelgen_ttft_slo(a, r);
  uint32_t n = c->decode ? 1 : accelgen_n_chunks(&a->pace, c->tokens);
  return slo - (now_ns - since) - n * a->longest_step;
}

static void rank(const struct accelgen *a, struct accelgen_candidate *c, int64_t now_ns)
{
  const struct accelgen_params *p = &a->params;
  if (!p->order) { /* first come, first served: the slack is in order of arrival */
    c->slack = c->key = c->request->arrival_ns - now_ns;
    return;
  }
  int64_t urgent = (int64_t)((1 + p->urgent_eps) * (double)a->longest_step);
  c->slack = slack_of(a, c, now_ns);
  c->late = p->late == ACCELGEN_DEMOTE && c->slack < -a->longest_step;
  c->urgent = !c->late && c->slack <= urgent;
  c->key = c->late ? c->slack + behind_all : c->slack;
}

/* Returns the tokens still to compute. The cached prefix of a waiting prompt is looked
 * up only once: looking up all prompts in every plan would take longer than the rest.
 * It is looked up again when the prompt is picked. */
static uint32_t pending_of(const struct accelgen *a, const struct lls_step_view *v,
                           const struct lls_request *r)
{
  struct accelgen_job *job = &a->jobs[r->slot];
  uint32_t pending = lls_request_pending(r);
  if (r->cached_tokens > 0)
    return pending;
  if (job->prefix == UINT32_MAX)
    job->prefix = v->cache->prefix(v->cache->context, r);
  return job->prefix < pending ? pending - job->prefix : 1;
}

static void add(struct accelgen *a, const struct lls_step_view *v,
                const struct lls_request *r)
{
  struct accelgen_candidate *c = &a->candidates[a->n_all];
  uint32_t pending = pending_of(a, v, r);
  *c = (struct accelgen_candidate){
      .request = r,
      .id = r->id,
      .tokens = pending,
      .decode = r->cached_tokens > 0 && lls_request_decodes(r),
      .started = r->state == LLS_PREFILLING,
      .fresh = r->cached_tokens == 0,
      .is_long = lls_request_length(r) >= a->params.long_tokens,
  };
  rank(a, c, v->now_ns);
  a->n_all++;
}

static bool before(const struct accelgen_candidate *a, const struct accelgen_candidate *b)
{
  return a->key < b->key || (a->key == b->key && a->id < b->id);
}

/* Adds a request to the queue; updates head, first and the count of begun prompts. */
static void add_to_queue(struct accelgen *a, const struct lls_step_view *v,
                         const struct lls_request *r)
{
  uint32_t at = a->n_all;
  add(a, v, r);
  const struct accelgen_candidate *c = &a->candidates[at];
  a->under_way += c->started;
  a->urgent += c->urgent;
  if (at == a->n_decodes || before(c, &a->candidates[a->head]))
    a->head = at;
  uint32_t *first = c->late ? &a->first_late : &a->first;
  if (!c->urgent && (*first == UINT32_MAX || before(c, &a->candidates[*first])))
    *first = at;
}

static void add_list(struct accelgen *a, const struct lls_step_view *v,
                     const struct lls_request *const *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    if (i + 4 < n) {
      __builtin_prefetch(&list[i + 4]->slot);
      __builtin_prefetch(&list[i + 4]->slo);
    }
    add_to_queue(a, v, list[i]);
  }
}

static void add_decode(struct accelgen *a, const struct lls_step_view *v,
                       const struct lls_request *r)
{
  add(a, v, r);
  const struct accelgen_job *job = &a->jobs[r->slot];
  if (a->params.era == ACCELGEN_ERA_REQUEST)
    a->under_way += r->prompt_tokens >= a->params.long_tokens;
  const struct accelgen_candidate *c = &a->candidates[a->n_all - 1];
  if (job->is_jct && (c->late || !a->params.order))
    return;
  int64_t slo = job->is_jct ? c->slack + a->longest_step : accelgen_tbt_slo(a, r);
  slo = slo > 0 ? slo : 0;
  if (slo < a->least_step)
    return;
  if (a->slo_min == LLS_NEVER || slo < a->slo_min)
    a->slo_min = slo;
}

/*
 * Sets least_step to the time of the shortest step of this device. A TBT limit shorter
 * than this, or a TTFT limit shorter than the prompt takes alone, is missed whatever the
 * step contains, and is ignored. With 5 clients in 100 that requested 1 ms, all steps had
 * the least budget, and half of the other requests were late.
 */
static void find_least_step(struct accelgen *a, const struct lls_step_view *v)
{
  uint32_t least = UINT32_MAX;
  struct lls_pol_room one;
  a->least_step = 0;
  if (!a->params.fence || a->pace.t_pf <= 0)
    return;
  for (uint32_t i = 0; i < v->n_running; i++)
    if (v->running[i]->state == LLS_DECODING)
      least = lls_pol_min(least, v->running[i]->cached_tokens);
  lls_pol_room_begin(&one, a->base.host->cost, &least, least < UINT32_MAX);
  if (least < UINT32_MAX && lls_pol_room_known(one.cost))
    a->least_step = lls_pol_room_ns(&one, 0, 0);
}

void accelgen_look(struct accelgen *a, const struct lls_step_view *v)
{
  a->n_all = a->head = a->under_way = a->urgent = 0;
  a->first = a->first_late = UINT32_MAX;
  a->slo_min = LLS_NEVER;
  a->longest_step = accelgen_longest_step(&a->pace);
  find_least_step(a, v);
  for (uint32_t i = 0; i < v->n_running; i++)
    if (v->running[i]->state == LLS_DECODING)
      add_decode(a, v, v->running[i]);
  a->n_decodes = a->head = a->n_all;
  for (uint32_t i = 0; i < v->n_running; i++)
    if (v->running[i]->state != LLS_DECODING)
      add_to_queue(a, v, v->running[i]);
  add_list(a, v, v->preempted, v->n_preempted);
  struct lls_pol_ends e = lls_pol_ends_of(&a->dropped, &a->waiting, v, a->params.look);
  add_list(a, v, e.first, e.n_first);
  add_list(a, v, e.between, e.n_between);
  add_list(a, v, e.last, e.n_last);
  LLS_POL_CHECK(a->n_all ==
                v->n_running + v->n_preempted + e.n_first + e.n_between + e.n_last);
  LLS_POL_CHECK(a->n_decodes <= a->head && a->head <= a->n_all);
  LLS_POL_CHECK(a->first == UINT32_MAX || a->first >= a->n_decodes);
}
