/* SPDX-License-Identifier: Apache-2.0 */
/* See reload.h. */
#include "core/loop/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/loop/instance.h"
#include "core/loop/compat.h"

/* ---- prepare ---------------------------------------------------------------------- */

/* The chosen ones whose code is not the code that runs. Modules never change under way,
 * so that this may be asked while steps are run. */
static struct lls_loop_policies replaced(const struct lls_policies *running,
                                         const struct lls_loop_policies *chosen)
{
  struct lls_loop_policies out = *chosen;
  if (out.scheduler.module == running->scheduler_module)
    out.scheduler.module = NULL;
  if (out.cache.module == running->cache_module)
    out.cache.module = NULL;
  if (out.predictor.module == running->predictor_module)
    out.predictor.module = NULL;
  return out;
}

int lls_reload_prepare(struct lls_instance *in, const struct lls_loop_change *change,
                       struct lls_reload *r, struct lls_error *err)
{
  struct lls_loop_policies made = replaced(&in->policies, &change->policies);
  int rc = lls_policies_create(in, &made, &r->next, err);
  if (rc < 0)
    return rc;
  r->change = *change;
  r->pending = true;
  return 0;
}

void lls_reload_abandon(struct lls_reload *r)
{
  if (r->pending)
    lls_policies_destroy(&r->next, NULL);
  r->pending = false;
}

/* ---- reconfigure ------------------------------------------------------------------ */

/* One policy that stays and gets other parameters. */
struct renewal {
  const char *name;
  uint32_t kind;
  int (*reconfigure)(void *self, const void *params);
  void *self;
  const void *params, *before;
  const struct lls_error *failure; /* what the plugin said */
};

/* Of the policies that stay; how many. */
static uint32_t renewals(const struct lls_policies *p,
                         const struct lls_loop_policies *new, struct renewal out[3])
{
  uint32_t n = 0;
  if (new->scheduler.module == p->scheduler_module)
    out[n++] = (struct renewal){.name = p->scheduler_host->name,
                                .kind = LLS_KIND_SCHEDULER,
                                .reconfigure = p->scheduler->reconfigure,
                                .self = p->scheduler_self,
                                .params = new->scheduler.params,
                                .before = p->scheduler_params,
                                .failure = &p->scheduler_host->failure};
  if (new->cache.module == p->cache_module)
    out[n++] = (struct renewal){.name = p->cache_host->name,
                                .kind = LLS_KIND_CACHE,
                                .reconfigure = p->cache->reconfigure,
                                .self = p->cache_self,
                                .params = new->cache.params,
                                .before = p->cache_params,
                                .failure = &p->cache_host->failure};
  if (new->predictor.module == p->predictor_module)
    out[n++] = (struct renewal){.name = p->predictor_host->name,
                                .kind = LLS_KIND_PREDICTOR,
                                .reconfigure = p->predictor->reconfigure,
                                .self = p->predictor_self,
                                .params = new->predictor.params,
                                .before = p->predictor_params,
                                .failure = &p->predictor_host->failure};
  return n;
}

static int renew(const struct renewal *r, const void *params)
{
  return LLS_NOTED(r->kind, "reconfigure", r->reconfigure(r->self, params));
}

/* The first n get back their parameters. */
static void undo(const struct renewal *list, uint32_t n)
{
  while (n-- > 0)
    renew(&list[n], list[n].before);
}

/* All of them or none. */
static int reconfigure(const struct renewal *list, uint32_t n, struct lls_error *err)
{
  for (uint32_t i = 0; i < n; i++) {
    const struct renewal *r = &list[i];
    int rc = r->reconfigure != NULL ? renew(r, r->params) : -ENOTSUP;
    if (rc == 0)
      continue;
    lls_fail(err, rc, "%s refuses its new parameters: %s", r->name,
             lls_error_text(r->failure, rc));
    undo(list, i);
    return rc;
  }
  return 0;
}

/* ---- handing over state ----------------------------------------------------------- */

/* One policy that another takes over from. */
struct succession {
  const char *name;
  uint32_t kind;
  bool other_kind;                                       /* not of its name */
  int (*export_state)(void *self, struct lls_blob *out); /* of the old one */
  void *old;
  int (*import_state)(void *self, const struct lls_blob *); /* of the new one */
  void *new;
  const struct lls_error *failure; /* what the new one said */
};

/* True: the new one knows what the old one knew, of another kind as much as any kind can
 * read. A new one that can't starts empty. */
static bool hand_over(const struct lls_instance *in, const struct succession *s)
{
  if (s->export_state == NULL || s->import_state == NULL)
    return false;
  struct lls_blob blob = {0};
  int rc = LLS_NOTED(s->kind, "export_state", s->export_state(s->old, &blob));
  if (rc == 0 && s->other_kind && blob.version != LLS_STATE_HOLDINGS) {
    free(blob.data);
    return false;
  }
  if (rc == 0)
    rc = LLS_NOTED(s->kind, "import_state", s->import_state(s->new, &blob));
  free(blob.data);
  if (rc < 0)
    lls_log(in->log, LLS_LOG_WARNING, s->name,
            "starts empty, its predecessor's state could not be taken over: %s",
            lls_error_text(s->failure, rc));
  return rc == 0;
}

static bool same_id(const struct lls_plugin_module *a, const struct lls_plugin_module *b)
{
  return strcmp(a->descriptor->id, b->descriptor->id) == 0;
}

static bool hand_over_scheduler(const struct lls_instance *in,
                                const struct lls_policies *old,
                                const struct lls_policies *new)
{
  struct succession s = {
      .name = new->scheduler_host->name,
      .kind = LLS_KIND_SCHEDULER,
      .export_state = old->scheduler->export_state,
      .old = old->scheduler_self,
      .import_state = new->scheduler->import_state,
      .new = new->scheduler_self,
      .failure = &new->scheduler_host->failure,
  };
  return same_id(old->scheduler_module, new->scheduler_module) && !old->scheduler_off &&
         hand_over(in, &s);
}

static bool hand_over_cache(const struct lls_instance *in, const struct lls_policies *old,
                            const struct lls_policies *new)
{
  struct succession s = {
      .name = new->cache_host->name,
      .kind = LLS_KIND_CACHE,
      .other_kind = !same_id(old->cache_module, new->cache_module),
      .export_state = old->cache->export_state,
      .old = old->cache_self,
      .import_state = new->cache->import_state,
      .new = new->cache_self,
      .failure = &new->cache_host->failure,
  };
  return hand_over(in, &s);
}

static void hand_over_predictor(const struct lls_instance *in,
                                const struct lls_policies *old,
                                const struct lls_policies *new)
{
  struct succession s = {
      .name = new->predictor_host->name,
      .kind = LLS_KIND_PREDICTOR,
      .export_state = old->predictor->export_state,
      .old = old->predictor_self,
      .import_state = new->predictor->import_state,
      .new = new->predictor_self,
      .failure = &new->predictor_host->failure,
  };
  if (same_id(old->predictor_module, new->predictor_module))
    hand_over(in, &s);
}

/* ---- install ---------------------------------------------------------------------- */

/* What the step after has to tell whom. */
static struct lls_adoption succeed(const struct lls_instance *in,
                                   const struct lls_policies *old,
                                   const struct lls_policies *new)
{
  struct lls_adoption a = {
      .scheduler = new->scheduler_host != old->scheduler_host,
      .cache = new->cache_host != old->cache_host,
      .predictor = new->predictor_host != old->predictor_host,
  };
  if (a.scheduler)
    a.scheduler_imported = hand_over_scheduler(in, old, new);
  if (a.cache)
    a.cache_imported = hand_over_cache(in, old, new);
  if (a.predictor)
    hand_over_predictor(in, old, new);
  a.any = a.scheduler || a.cache || a.predictor;
  return a;
}

/* Everything that may fail, and leaves nothing changed when it does. */
static int approve(struct lls_instance *in, const struct lls_policies *next,
                   const struct lls_loop_policies *chosen, uint32_t *preempt_mode,
                   struct lls_error *err)
{
  struct renewal list[3];
  uint32_t n = renewals(&in->policies, chosen, list);
  int rc = reconfigure(list, n, err); /* first: caps may follow from parameters */
  if (rc < 0)
    return rc;
  rc = lls_compat_check(in, next, preempt_mode, err);
  if (rc == 0 && next->scheduler_host != in->policies.scheduler_host)
    rc = lls_compat_calibrate(in, next, err);
  if (rc < 0)
    undo(list, n);
  return rc;
}

/* The parameters that staying policies have now. */
static void note_parameters(struct lls_policies *p,
                            const struct lls_loop_policies *chosen)
{
  if (chosen->scheduler.module == p->scheduler_module)
    p->scheduler_params = chosen->scheduler.params;
  if (chosen->cache.module == p->cache_module)
    p->cache_params = chosen->cache.params;
  if (chosen->predictor.module == p->predictor_module)
    p->predictor_params = chosen->predictor.params;
}

int lls_reload_approve(struct lls_instance *in, struct lls_reload *r,
                       struct lls_error *err)
{
  struct lls_policies next = r->next;
  lls_policies_fill(&next, &in->policies);
  return approve(in, &next, &r->change.policies, &r->preempt_mode, err);
}

void lls_reload_disapprove(struct lls_instance *in, struct lls_reload *r)
{
  struct renewal list[3];
  undo(list, renewals(&in->policies, &r->change.policies, list));
}

void lls_reload_install(struct lls_instance *in, struct lls_reload *r)
{
  struct lls_policies old = in->policies, next = r->next;
  lls_policies_fill(&next, &old);
  note_parameters(&next, &r->change.policies);
  struct lls_adoption adopt = succeed(in, &old, &next);
  in->policies = next;
  in->adoption = adopt;
  lls_policy_stats_forget(in, &adopt);
  in->preempt_mode = r->preempt_mode;
  in->caps.async_transfers = lls_transfer_supported(in, next.cache);
  next.scheduler_host->caps.async_transfers = in->caps.async_transfers;
  next.predictor_host->caps.async_transfers = in->caps.async_transfers;
  in->max_strikes = r->change.strikes;
  in->plan_budget_ns = r->change.plan_budget_ns;
  if (adopt.scheduler) {
    in->strikes = 0;
    in->status.fallen_back = false;
    in->status.fallback_reason[0] = '\0';
  }
  lls_policies_destroy(&old, &next);
  r->pending = false;
}
