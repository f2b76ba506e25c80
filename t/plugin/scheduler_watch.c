/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the host's calls to a scheduler; see scheduler_watch.h. */
#include "t/plugin/scheduler_watch.h"

#include <inttypes.h>
#include <stdlib.h>

int watch_init(struct watch *w, const struct lls_host *host, uint64_t seed)
{
  w->contract = (struct contract){.host = host, .random_state = seed};
  contract_host(&w->contract, host);
  w->n_slots = host->engine->max_requests;
  w->slots = calloc(w->n_slots, sizeof *w->slots);
  return w->slots != NULL ? 0 : -ENOMEM;
}

void watch_free(struct watch *w)
{
  free(w->slots);
}

/* Returns the slot of a request that the host may refer to; NULL after a complaint. */
static struct watched *known(struct watch *w, const struct lls_request *r,
                             const char *where)
{
  struct contract *c = &w->contract;
  if (!CONTRACT(c, r != NULL, "%s: no request", where) ||
      !CONTRACT(c, r->slot < w->n_slots, "%s: slot %u of %u", where, r->slot, w->n_slots))
    return NULL;
  struct watched *s = &w->slots[r->slot];
  bool good = CONTRACT(c, s->handle != NULL, "%s: request %" PRIu64 " is not alive",
                       where, r->id) &&
              CONTRACT(c, s->handle == r && s->id == r->id,
                       "%s: request %" PRIu64 " has another handle than at arrival",
                       where, r->id);
  return good ? s : NULL;
}

void watch_alive(struct watch *w, const struct lls_request *r, const char *callback)
{
  known(w, r, callback);
}

void watch_arrival(struct watch *w, const struct lls_request *r)
{
  struct contract *c = &w->contract;
  if (!CONTRACT(c, r != NULL && r->slot < w->n_slots, "on_arrival: bad request"))
    return;
  struct watched *s = &w->slots[r->slot];
  CONTRACT(c, s->handle == NULL, "on_arrival: slot %u is taken", r->slot);
  CONTRACT(c, !w->any_id || r->id > w->last_id, "on_arrival: ids do not increase");
  CONTRACT(c, r->state == LLS_WAITING, "on_arrival: state %u", r->state);
  CONTRACT(c, r->prompt_tokens > 0 && r->generated_tokens == 0 && r->cached_tokens == 0,
           "on_arrival: not new");
  CONTRACT(c, r->arrival_ns >= 0 && r->arrival_ns <= c->host->now(c->host->context),
           "on_arrival: from the future");
  CONTRACT(c, r->label != NULL, "on_arrival: label is NULL");
  for (uint32_t i = 0; i < LLS_USER_WORDS; i++) {
    CONTRACT(c, r->user[i] == 0, "on_arrival: user words are not zero");
    r->user[i] = r->id + i;
  }
  *s = (struct watched){.handle = r,
                        .id = r->id,
                        .prompt_tokens = r->prompt_tokens,
                        .first_token = r->tokens[0]};
  w->any_id = true;
  w->last_id = r->id;
  w->alive++;
}

void watch_finish(struct watch *w, const struct lls_request *r, uint32_t reason)
{
  struct contract *c = &w->contract;
  struct watched *s = known(w, r, "on_finish");
  if (s == NULL)
    return;
  CONTRACT(c, r->state == LLS_FINISHED, "on_finish: state %u", r->state);
  CONTRACT(c, reason != LLS_FINISH_NONE && reason <= LLS_FINISH_ERROR,
           "on_finish: reason %u", reason);
  CONTRACT(c, r->finish_reason == reason, "on_finish: reason %u, the view says %u",
           reason, r->finish_reason);
  s->handle = NULL;
  w->alive--;
}

void watch_refused(struct watch *w, const struct lls_request *r, uint32_t refusal)
{
  known(w, r, "on_refused");
  CONTRACT(&w->contract,
           refusal >= LLS_REFUSED_NO_MEMORY && refusal <= LLS_REFUSED_POSTPONED,
           "on_refused: refusal %u", refusal);
}

/* ---- the view ------------------------------------------------------------------- */

static void check_times(struct watch *w, const struct lls_request *r, int64_t now_ns)
{
  struct contract *c = &w->contract;
  CONTRACT(c, r->queue_enter_ns >= r->arrival_ns && r->queue_enter_ns <= now_ns,
           "view: bad queue_enter_ns");
  CONTRACT(c, r->last_token_ns >= r->arrival_ns && r->last_token_ns <= now_ns,
           "view: bad last_token_ns");
  CONTRACT(
      c,
      r->first_scheduled_ns == LLS_NEVER ||
          (r->first_scheduled_ns >= r->arrival_ns && r->first_scheduled_ns <= now_ns),
      "view: bad first_scheduled_ns");
}

static void check_progress(struct watch *w, struct watched *s,
                           const struct lls_request *r)
{
  struct contract *c = &w->contract;
  CONTRACT(c, r->prompt_tokens == s->prompt_tokens, "view: the prompt changed");
  CONTRACT(c, r->tokens[0] == s->first_token, "view: the tokens changed");
  CONTRACT(c,
           r->generated_tokens >= s->generated_tokens &&
               r->generated_tokens <= s->generated_tokens + 1 + r->forced_tokens,
           "view: %u tokens after %u", r->generated_tokens, s->generated_tokens);
  CONTRACT(c, r->generated_tokens < r->max_new_tokens || r->max_new_tokens == 0,
           "view: said more than it may");
  CONTRACT(c, r->cached_tokens < lls_request_length(r), "view: nothing left to compute");
  CONTRACT(c,
           r->missing_tokens <= r->cached_tokens && r->shared_tokens <= r->cached_tokens,
           "view: more missing or shared than cached");
  for (uint32_t i = 0; i < LLS_USER_WORDS; i++)
    CONTRACT(c, r->user[i] == s->id + i, "view: user words were touched");
  s->generated_tokens = r->generated_tokens;
}

enum list { WAITING, RUNNING, PREEMPTED, MOVING };

static void check_state(struct watch *w, const struct lls_request *r, enum list list)
{
  struct contract *c = &w->contract;
  bool in_list[] = {
      [WAITING] = r->state == LLS_WAITING,
      [RUNNING] = r->state == LLS_PREFILLING || r->state == LLS_DECODING,
      [PREEMPTED] = r->state == LLS_PREEMPTED,
      [MOVING] = r->state == LLS_MOVING,
  };
  CONTRACT(c, in_list[list], "view: state %u in list %u", r->state, list);
  CONTRACT(c, list != WAITING || r->cached_tokens == 0, "view: waiting with a cache");
  CONTRACT(c, list != RUNNING || r->residency == LLS_RESIDENT_DEVICE,
           "view: running, residency %u", r->residency);
  CONTRACT(c, r->state != LLS_DECODING || lls_request_decodes(r),
           "view: decoding with %u tokens pending", lls_request_pending(r));
}

/* The view and the cache manager must agree on a request's cached tokens. */
static void check_cached(struct watch *w, const struct lls_step_view *view,
                         const struct lls_request *r)
{
  struct contract *c = &w->contract;
  struct lls_cache_info info = {.size = sizeof info};
  if (view->cache->info(view->cache->context, r, &info) == 0)
    CONTRACT(c,
             info.missing_tokens == r->missing_tokens && info.residency == r->residency &&
                 info.cached_tokens == r->cached_tokens,
             "view: request %" PRIu64 " misses %u tokens, residency %u; the cache says "
             "%u, %u",
             r->id, r->missing_tokens, r->residency, info.missing_tokens, info.residency);
}

static uint32_t check_list(struct watch *w, const struct lls_step_view *view,
                           const struct lls_request *const *items, uint32_t n,
                           enum list list)
{
  struct contract *c = &w->contract;
  for (uint32_t i = 0; i < n; i++) {
    const struct lls_request *r = items[i], *before = i > 0 ? items[i - 1] : NULL;
    struct watched *s = known(w, r, "view");
    if (s == NULL)
      continue;
    CONTRACT(c, s->seen != view->step + 1, "view: request %" PRIu64 " twice", r->id);
    s->seen = view->step + 1;
    check_cached(w, view, r);
    CONTRACT(c,
             before == NULL || before->arrival_ns < r->arrival_ns ||
                 (before->arrival_ns == r->arrival_ns && before->id < r->id),
             "view: list %u is not sorted", list);
    check_state(w, r, list);
    check_times(w, r, view->now_ns);
    check_progress(w, s, r);
  }
  return n;
}

void watch_view(struct watch *w, const struct lls_step_view *v,
                const struct lls_plan *plan)
{
  struct contract *c = &w->contract;
  CONTRACT(c, v->size >= sizeof *v && plan->size >= sizeof *plan,
           "view or plan too small");
  CONTRACT(c, !w->any_step || v->step >= w->next_step,
           "view: step %" PRIu64 " after %" PRIu64, v->step, w->next_step - 1);
  CONTRACT(c, v->now_ns >= w->last_now_ns && v->now_ns <= c->host->now(c->host->context),
           "view: time runs backwards");
  CONTRACT(c, v->max_tokens > 0 && v->max_sequences > 0, "view: nothing may run");
  CONTRACT(c, v->cache != NULL && v->cache->block_tokens > 0, "view: no cache");
  CONTRACT(c, plan->n_items == 0 && plan->overflow == 0, "plan: not empty");
  CONTRACT(c, plan->idle_until_ns == LLS_NEVER, "plan: idle_until_ns is set");
  uint32_t n = check_list(w, v, v->waiting, v->n_waiting, WAITING);
  n += check_list(w, v, v->running, v->n_running, RUNNING);
  n += check_list(w, v, v->preempted, v->n_preempted, PREEMPTED);
  n += check_list(w, v, v->moving, v->n_moving, MOVING);
  CONTRACT(c, n == w->alive, "view: %u requests of %u", n, w->alive);
  CONTRACT(c, plan->max_items >= n, "plan: room for %u items of %u", plan->max_items, n);
  w->any_step = true;
  w->next_step = v->step + 1;
  w->last_now_ns = v->now_ns;
}

/* ---- plan and report ------------------------------------------------------------ */

void watch_plan(struct watch *w, const struct lls_plan *plan, bool good)
{
  w->trust_results = good;
  for (uint32_t i = 0; i < w->n_slots; i++)
    w->slots[i].planned = 0;
  for (uint32_t i = 0; good && i < plan->n_items; i++)
    for (uint32_t j = 0; plan->items[i].kind == LLS_PLAN_RUN && j < w->n_slots; j++)
      if (w->slots[j].handle != NULL && w->slots[j].id == plan->items[i].request)
        w->slots[j].planned = plan->items[i].tokens;
}

void watch_report(struct watch *w, const struct lls_step_report *report)
{
  struct contract *c = &w->contract;
  CONTRACT(c, report->size >= sizeof *report, "on_step: %u bytes", report->size);
  CONTRACT(c, report->step + 1 == w->next_step, "on_step: of step %" PRIu64,
           report->step);
  CONTRACT(c, report->started_ns <= report->ended_ns, "on_step: ended before it started");
  CONTRACT(c, report->n_results > 0, "on_step: nothing ran");
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_step_result *result = &report->results[i];
    struct watched *s = known(w, result->request, "on_step");
    if (s == NULL)
      continue;
    CONTRACT(c,
             result->tokens > 0 && result->emitted <= 1 + result->request->forced_tokens,
             "on_step: bad result");
    CONTRACT(c, !w->trust_results || result->tokens <= s->planned,
             "on_step: %u tokens, planned %u", result->tokens, s->planned);
    s->planned = 0;
  }
}
