/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a reload: reports the live requests to the new policies, at the start of the
 * first step they run [step].
 *
 * A cache manager that imported its predecessor's state must know every cached token of
 * a request; otherwise the request is prefilled again, prompt and outputs, so that no
 * token is lost or changed. A scheduler that imported no state gets on_arrival for all
 * requests in arrival order, as if they had just come.
 */
#include "core/policy/adoption.h"

#include "core/instance/block_events.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"

/* Returns the live request that arrived first of those not yet visited; NULL at the
 * end. */
static struct lls_live *next_arrived(struct lls_request_list *const lists[4],
                                     uint32_t at[4])
{
  const struct lls_request *first = NULL;
  uint32_t from = 0;
  for (uint32_t i = 0; i < 4; i++) {
    if (at[i] == lists[i]->n)
      continue;
    const struct lls_request *r = lists[i]->items[at[i]];
    if (first == NULL || r->id < first->id) {
      first = r;
      from = i;
    }
  }
  if (first == NULL)
    return NULL;
  at[from]++;
  return lls_live_of(first);
}

/* Writes the ids of all live requests to in->alive, in ascending order. Returns how
 * many. */
static uint32_t list_alive(struct lls_instance *in)
{
  struct lls_request_list *const lists[4] = {&in->waiting, &in->running, &in->preempted,
                                             &in->moving};
  uint32_t at[4] = {0}, n = 0;
  for (struct lls_live *live; (live = next_arrived(lists, at)) != NULL;)
    in->alive[n++] = live->view.id;
  return n;
}

/* Puts a request without cached tokens in the waiting list: all its tokens are
 * pending. */
static void start_again(struct lls_instance *in, struct lls_live *live)
{
  struct lls_request *v = &live->view;
  if (v->cached_tokens > 0)
    in->status.reload_recomputed++;
  v->cached_tokens = v->missing_tokens = v->shared_tokens = 0;
  v->residency = LLS_RESIDENT_NONE;
  v->form = LLS_FORM_NONE;
  if (v->state != LLS_WAITING)
    v->queue_enter_ns = lls_instance_now(in);
  lls_lifecycle_set_state(in, live, LLS_WAITING);
}

static bool knows(struct lls_instance *in, const struct lls_live *live)
{
  struct lls_cache_info info;
  if (lls_cache_info(in, &live->view, &info) < 0)
    return false;
  if (info.cached_tokens == live->view.cached_tokens)
    return true;
  lls_cache_release(in, &live->view, 0);
  return false;
}

/* Ends a request that the new cache manager refuses. Only a scheduler that already knows
 * the request gets on_finish. */
static void end_refused(struct lls_instance *in, struct lls_live *live, int rc)
{
  struct lls_policies *p = &in->policies;
  lls_lifecycle_log_refusal(in, live, rc);
  if ((!in->adoption.scheduler.replaced || in->adoption.scheduler.imported) &&
      LLS_SCHEDULER_HAS(p, on_finish))
    LLS_CALL(p, scheduler, on_finish, &live->view, LLS_FINISH_CAPACITY);
  live->announced = false;
  lls_lifecycle_finish(in, live, LLS_FINISH_CAPACITY);
}

/* Admits a request without cached tokens to the new cache manager. Returns false if the
 * manager refuses the request, which has then ended. */
static bool admit_again(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  start_again(in, live);
  int rc = LLS_CALL(p, cache, admit, &live->view);
  if (rc < 0)
    end_refused(in, live, rc);
  return rc == 0;
}

static bool adopt_by_cache(struct lls_instance *in, struct lls_live *live)
{
  if (!in->adoption.cache.imported || !knows(in, live))
    return admit_again(in, live);
  lls_lifecycle_refresh(in, live);
  return true;
}

/* Drops the cache of a request that has lost slots to other requests. It holds memory and
 * cannot run, which only a scheduler that displaces expects: under another one, the other
 * requests could wait for that memory forever. */
static bool drop_partial(struct lls_instance *in, struct lls_live *live)
{
  if (live->view.residency != LLS_RESIDENT_PARTIAL || in->adoption.scheduler.imported)
    return true;
  lls_cache_release(in, &live->view, 0);
  return admit_again(in, live);
}

static void adopt_by_scheduler(struct lls_instance *in, struct lls_live *live)
{
  struct lls_policies *p = &in->policies;
  if (in->adoption.scheduler.imported)
    return;
  for (uint32_t i = 0; i < LLS_USER_WORDS; i++)
    live->user[i] = 0;
  if (LLS_HAS(p, scheduler, on_arrival))
    LLS_CALL(p, scheduler, on_arrival, &live->view);
}

static void adopt_by_drafter(struct lls_instance *in, struct lls_live *live)
{
  if (!in->adoption.drafter.replaced)
    return;
  live->drafter_knows = false;
  lls_lifecycle_tell_drafter(in, live);
}

void lls_adoption_run(struct lls_instance *in)
{
  uint32_t n = list_alive(in);
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  lls_session_adopt(in);
  if (in->adoption.cache.replaced)
    lls_block_events_clear(in);
  for (uint32_t i = 0; i < n; i++) {
    struct lls_live *live = lls_request_table_find(in->table, in->alive[i]);
    if (in->adoption.predictor.replaced &&
        live->view.prediction.source <= LLS_PREDICTED_PRIOR)
      lls_lifecycle_predict(in, live);
    adopt_by_drafter(in, live);
    if (in->adoption.cache.replaced && !adopt_by_cache(in, live))
      continue;
    if (in->adoption.scheduler.replaced && drop_partial(in, live))
      adopt_by_scheduler(in, live);
  }
  in->adoption = (struct lls_adoption){0};
}
