/* SPDX-License-Identifier: Apache-2.0 */
/* See reload.h. */
#include "core/policy/reload.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"
#include "core/plugin/loader.h"
#include "core/policy/compat.h"
#include "core/policy/policy_stats.h"

/* ---- prepare ----------------------------------------------------------------------- */

/* Returns the chosen policies whose module differs from the running one. Modules do not
 * change while steps run, so that any thread may call this. */
static struct lls_loop_policies replaced(const struct lls_policies *running,
                                         const struct lls_loop_policies *chosen)
{
  struct lls_loop_policies out = *chosen;
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    if (out.by_kind[i].module == running->by_kind[i].module)
      out.by_kind[i].module = NULL;
  return out;
}

int lls_reload_prepare(struct lls_instance *in, const struct lls_loop_change *change,
                       struct lls_reload *r, struct lls_error *err)
{
  struct lls_loop_policies made = replaced(&in->policies, &change->policies);
  r->change = change;
  return lls_policies_prepare(in, &made, &r->next, err);
}

void lls_reload_abandon(struct lls_reload *r)
{
  lls_policies_destroy(&r->next, NULL);
}

/* ---- reconfigure ------------------------------------------------------------------- */

/* Returns true if the policy stays, and is reconfigured. */
static bool is_renewed(const struct lls_running_policy *p,
                       const struct lls_loop_policy *chosen)
{
  return chosen->module == p->module;
}

/* Reconfigures the first n policies with their previous parameters. */
static void undo(const struct lls_policies *p, const struct lls_loop_policies *chosen,
                 uint32_t n)
{
  while (n-- > 0)
    if (is_renewed(&p->by_kind[n], &chosen->by_kind[n]))
      LLS_CALL_COMMON(&p->by_kind[n], reconfigure, p->by_kind[n].params);
}

static int renew(const struct lls_running_policy *p, const void *params,
                 struct lls_error *err)
{
  int rc = lls_plugin_common(p->module).reconfigure != NULL
               ? lls_policy_rc(p->host, LLS_CALL_COMMON(p, reconfigure, params))
               : -ENOTSUP;
  if (rc < 0)
    lls_fail(err, rc, "%s refuses its new parameters: %s", p->host->name,
             lls_error_text(&p->host->failure, rc));
  return rc;
}

/* Reconfigures all policies that stay, or none. */
static int reconfigure(const struct lls_policies *p,
                       const struct lls_loop_policies *chosen, struct lls_error *err)
{
  for (uint32_t i = 0; i < LLS_KINDS; i++) {
    if (!is_renewed(&p->by_kind[i], &chosen->by_kind[i]))
      continue;
    int rc = renew(&p->by_kind[i], chosen->by_kind[i].params, err);
    if (rc == 0)
      continue;
    undo(p, chosen, i);
    return rc;
  }
  return 0;
}

/* ---- handing over state ------------------------------------------------------------ */

static bool same_id(const struct lls_running_policy *a,
                    const struct lls_running_policy *b)
{
  return strcmp(a->module->descriptor->id, b->module->descriptor->id) == 0;
}

/* Passes the old policy's state to the new one. Returns true if the new policy imported
 * it; else it starts empty. Between cache managers of different names only a state of
 * version LLS_STATE_HOLDINGS can be passed, which any of them can read. */
static bool hand_over(const struct lls_instance *in, const struct lls_running_policy *old,
                      const struct lls_running_policy *new)
{
  bool same = same_id(old, new);
  if (lls_plugin_common(old->module).export_state == NULL ||
      lls_plugin_common(new->module).import_state == NULL ||
      (!same && new->module->descriptor->kind != LLS_KIND_CACHE))
    return false;
  struct lls_blob blob = {0};
  int rc = LLS_CALL_COMMON(old, export_state, &blob);
  if (rc == 0 && blob.bytes > malloc_usable_size(blob.data)) { /* 0 for NULL */
    lls_policy_breach(old->host, "export_state says %zu bytes, and has allocated fewer",
                      blob.bytes);
    free(blob.data);
    return false;
  }
  if (rc == 0 && !same && blob.version != LLS_STATE_HOLDINGS) {
    free(blob.data);
    return false;
  }
  if (rc == 0)
    rc = LLS_CALL_COMMON(new, import_state, &blob);
  free(blob.data);
  if (rc < 0)
    lls_log(in->log, LLS_LOG_WARNING, new->host->name,
            "starts empty, its predecessor's state could not be taken over: %s",
            lls_error_text(&new->host->failure, rc));
  return rc == 0;
}

/* ---- install ----------------------------------------------------------------------- */

/* Hands over state. Returns which policies are new, so that the next step reports the
 * live requests to them. */
static struct lls_adoption succeed(const struct lls_instance *in,
                                   const struct lls_policies *old,
                                   const struct lls_policies *new)
{
  struct lls_adoption a = {0};
  for (uint32_t i = 0; i < LLS_KINDS; i++) {
    const struct lls_running_policy *from = &old->by_kind[i], *to = &new->by_kind[i];
    bool forgotten = from == &old->scheduler && old->scheduler_off;
    a.by_kind[i].replaced = to->host != from->host;
    a.by_kind[i].imported =
        a.by_kind[i].replaced && !forgotten && hand_over(in, from, to);
    a.any |= a.by_kind[i].replaced;
  }
  return a;
}

/* Does everything that may fail; on failure nothing has changed. */
static int approve(struct lls_instance *in, const struct lls_policies *next,
                   const struct lls_loop_policies *chosen, struct lls_compat *compat,
                   struct lls_error *err)
{
  /* first, since caps may depend on parameters */
  int rc = reconfigure(&in->policies, chosen, err);
  if (rc < 0)
    return rc;
  rc = lls_compat_check(in, next, compat, err);
  if (rc == 0 && next->scheduler.host != in->policies.scheduler.host)
    rc = lls_compat_calibrate(in, next, err);
  if (rc < 0)
    undo(&in->policies, chosen, LLS_KINDS);
  return rc;
}

/* Stores the new parameters of the policies that stay. */
static void note_parameters(struct lls_policies *p,
                            const struct lls_loop_policies *chosen)
{
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    if (is_renewed(&p->by_kind[i], &chosen->by_kind[i]))
      p->by_kind[i].params = chosen->by_kind[i].params;
}

int lls_reload_approve(struct lls_instance *in, struct lls_reload *r,
                       struct lls_error *err)
{
  struct lls_policies next = r->next;
  lls_policies_fill(&next, &in->policies);
  return approve(in, &next, &r->change->policies, &r->compat, err);
}

void lls_reload_disapprove(struct lls_instance *in, struct lls_reload *r)
{
  undo(&in->policies, &r->change->policies, LLS_KINDS);
}

void lls_reload_install(struct lls_instance *in, struct lls_reload *r)
{
  struct lls_policies old = in->policies, next = r->next;
  lls_policies_fill(&next, &old);
  note_parameters(&next, &r->change->policies);
  struct lls_adoption adopt = succeed(in, &old, &next);
  in->policies = next;
  in->adoption = adopt;
  lls_policy_stats_forget(in, &adopt);
  in->preempt_mode = r->compat.preempt_mode;
  in->drafting.on = r->compat.drafts;
  if (adopt.drafter.replaced)
    in->drafting.debt_ns = 0; /* its successor's time is its own */
  in->caps.async_transfers = lls_compat_has_transfers(in, &next.cache.module->cache);
  next.scheduler.host->caps.async_transfers = in->caps.async_transfers;
  next.predictor.host->caps.async_transfers = in->caps.async_transfers;
  next.drafter.host->caps.async_transfers = in->caps.async_transfers;
  in->limits = r->change->limits;
  if (adopt.scheduler.replaced) {
    in->strikes = 0;
    in->status.fallen_back = false;
    in->status.fallback_reason[0] = '\0';
  }
  lls_policies_destroy(&old, &next);
  r->next = (struct lls_policies){0};
}
