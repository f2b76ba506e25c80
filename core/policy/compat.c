/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a scheduler's needs with what engine, cache manager and predictor offer, and
 * its preferred ways of preempting against what both can do.
 */
#include "core/policy/compat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/cost/cost.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"

bool lls_compat_has_hidden_form(const struct lls_policies *p)
{
  struct lls_form_info forms[4];
  int n = LLS_HAS(p, cache, forms) ? LLS_CALL(p, cache, forms, forms, 4) : 0;
  for (int i = 0; i < n && i < 4; i++)
    if (forms[i].form == LLS_FORM_HIDDEN && forms[i].why_not == NULL)
      return true;
  return false;
}

static bool has_role(const struct lls_instance *in, uint32_t role)
{
  for (uint32_t i = 0; i < in->topology.n_instances; i++)
    if (in->topology.instances[i].role == role)
      return true;
  return false;
}

static const char *missing(const struct lls_instance *in, const struct lls_policies *p,
                           uint32_t needs)
{
  if ((needs & LLS_NEEDS_MIXED_BATCH) && !in->caps.mixed_batch)
    return "prefill and decode in one step, unsupported by this engine";
  if ((needs & LLS_NEEDS_CHUNKED_PREFILL) && !in->caps.chunked_prefill)
    return "chunked prefill, unsupported by this engine";
  if ((needs & LLS_NEEDS_FORMS) && !lls_compat_has_hidden_form(p))
    return "the hidden cache form, unsupported by this engine or cache manager";
  if ((needs & LLS_NEEDS_ROLES) && !has_role(in, LLS_ROLE_DECODE))
    return "prefill and decode instances: set [engine] roles = prefill, decode";
  return NULL;
}

static const char *mode_name(uint32_t mode)
{
  switch (mode) {
  case LLS_PREEMPT_RECOMPUTE:
    return "recompute";
  case LLS_PREEMPT_SWAP:
    return "swap";
  case LLS_PREEMPT_DEFER:
    return "defer";
  default:
    return "unknown";
  }
}

static int choose_preempt_mode(const struct lls_instance *in,
                               const struct lls_policies *p,
                               const struct lls_scheduler_caps *caps, uint32_t *mode,
                               struct lls_error *err)
{
  *mode = LLS_PREEMPT_NONE;
  uint32_t cache = LLS_CALL(p, cache, preempt_modes) | 1u << LLS_PREEMPT_DEFER;
  char wanted[128] = "";
  for (uint32_t i = 0; i < caps->n_preempt && i < LLS_MAX_PREEMPT_PREFERENCES; i++) {
    if (caps->preempt[i] < 32 &&
        (cache & in->caps.preempt_modes & (1u << caps->preempt[i])) != 0) {
      *mode = caps->preempt[i];
      if (i > 0)
        lls_log(in->log, LLS_LOG_WARNING, p->scheduler.host->name,
                "preempts by %s, since %s or this engine can't %s",
                mode_name(caps->preempt[i]), p->cache.host->name,
                mode_name(caps->preempt[0]));
      return 0;
    }
    size_t used = strlen(wanted);
    snprintf(wanted + used, sizeof wanted - used, "%s%s", i > 0 ? " or " : "",
             mode_name(caps->preempt[i]));
  }
  if (caps->n_preempt == 0)
    return 0;
  return lls_fail(
      err, -ENOTSUP,
      "%s preempts by %s, which %s and this engine can't do together: set another "
      "preempt mode, another cache manager, or [cache] host_memory for swap",
      p->scheduler.host->name, wanted, p->cache.host->name);
}

/* Warns if the scheduler uses predictions and the predictor makes none. */
static void warn_of_no_predictions(const struct lls_instance *in,
                                   const struct lls_policies *p)
{
  if (LLS_HAS(p, scheduler, on_prediction) &&
      !(LLS_CALL(p, predictor, flags) & LLS_PREDICTOR_PREDICTS))
    lls_log(in->log, LLS_LOG_WARNING, p->scheduler.host->name, LLS_NO_PREDICTIONS,
            p->predictor.host->name);
}

static const char *why_no_drafts(const struct lls_instance *in)
{
  const char *why = lls_engine_why_no_drafts(in->engine);
  return why != NULL
             ? why
             : "llmserve began without a drafter, or with max_drafts = 0, and has "
               "no memory for guesses: start it with this drafter";
}

/* Warns of a drafter that has no draft model to ask, and of a draft model that the
 * drafter does not ask. */
static void warn_of_draft_model(const struct lls_instance *in,
                                const struct lls_policies *p)
{
  bool asks = LLS_HAS(p, drafter, wants), there = in->drafting.engine != NULL;
  if (asks && !there)
    lls_log(
        in->log, LLS_LOG_WARNING, p->drafter.host->name,
        "has no draft model to ask: [plugins] draft_model names none that is used, "
        "and the model has no layer that guesses (MTP) which can be used, or llmserve "
        "began with a drafter that does not ask: then start it with this one");
  else if (there && !asks)
    lls_log(in->log, LLS_LOG_WARNING, p->drafter.host->name,
            "does not ask the draft model ([plugins] draft_model, or else the model's "
            "layer that guesses), which is idle; the drafters model, heads and auto do");
}

/* Returns true if the drafter is to be called; logs why it is not. */
static bool drafter_works(const struct lls_instance *in, const struct lls_policies *p,
                          const struct lls_scheduler_caps *caps)
{
  if (!(LLS_CALL(p, drafter, flags) & LLS_DRAFTER_DRAFTS))
    return false;
  if (in->caps.max_drafts == 0)
    lls_log(in->log, LLS_LOG_WARNING, p->drafter.host->name, "is idle: %s",
            why_no_drafts(in));
  else if (!(caps->needs & LLS_USES_DRAFTS))
    lls_log(in->log, LLS_LOG_WARNING, p->drafter.host->name,
            "is idle: %s plans no guesses to be verified; choose another scheduler in "
            "[plugins]",
            p->scheduler.host->name);
  return in->caps.max_drafts > 0 && (caps->needs & LLS_USES_DRAFTS) != 0;
}

int lls_compat_check(const struct lls_instance *in, const struct lls_policies *p,
                     struct lls_compat *out, struct lls_error *err)
{
  struct lls_scheduler_caps caps = {.size = sizeof caps};
  LLS_CALL(p, scheduler, caps, &caps);
  const char *what = missing(in, p, caps.needs);
  if (what != NULL)
    return lls_fail(err, -ENOTSUP, "%s needs %s", p->scheduler.host->name, what);
  if (!(caps.needs & (LLS_NEEDS_ROLES | LLS_USES_ROLES)) && has_role(in, LLS_ROLE_DECODE))
    return lls_fail(err, -ENOTSUP,
                    "%s hands no request over, so that decode instances would never have "
                    "any: choose a scheduler that does in [plugins], or leave [engine] "
                    "roles away",
                    p->scheduler.host->name);
  warn_of_no_predictions(in, p);
  warn_of_draft_model(in, p);
  out->drafts = drafter_works(in, p, &caps);
  return choose_preempt_mode(in, p, &caps, &out->preempt_mode, err);
}

int lls_compat_calibrate(const struct lls_instance *in, const struct lls_policies *p,
                         struct lls_error *err)
{
  LLS_ON_STEP(in);
  if (!LLS_HAS(p, scheduler, calibrate))
    return 0;
  int rc = lls_policy_rc(p->scheduler.host, LLS_CALL(p, scheduler, calibrate,
                                                     lls_cost_model_service(in->cost)));
  if (rc < 0)
    return lls_fail(err, rc, "%s could not calibrate: %s", p->scheduler.host->name,
                    lls_error_text(&p->scheduler.host->failure, rc));
  return 0;
}

bool lls_compat_has_transfers(const struct lls_instance *in,
                              const struct lls_cache_vtable *cache)
{
  return lls_engine_pool_shape(in->engine)->host_units > 0 && cache->offload != NULL;
}
