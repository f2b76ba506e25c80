/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins at work in an instance, one of each kind: code, state, and the host each of
 * them sees.
 *
 * A set is made beside the running one during a reload and shares with it what stays, so
 * that "the same" is a question of pointers. Destroyed on [main]; the set in use
 * belongs to [step].
 */
#ifndef LLS_LOOP_POLICIES_H
#define LLS_LOOP_POLICIES_H

#include <llmserve/cache.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include "core/base/check.h"
#include "core/loop/loop.h"
#include "core/loop/policy_host.h"
#include "core/plugin/kinds.h"
#include "core/plugin/trail.h"

struct lls_running_policy {
  const struct lls_plugin_module *module;
  void *self; /* what create gave */
  const void *params;
  struct lls_policy_host *host;
};

struct lls_policies {
  LLS_EACH_KIND_OF(struct lls_running_policy);
  bool scheduler_off; /* fell back to the built-in order */
};

#define LLS_KIND_OF_scheduler LLS_KIND_SCHEDULER
#define LLS_KIND_OF_cache     LLS_KIND_CACHE
#define LLS_KIND_OF_predictor LLS_KIND_PREDICTOR

/* CALLBACK of the policy of this KIND, noted in case it crashes or never returns [step].
 */
#define LLS_CALL(P, KIND, CALLBACK, ...)                                                 \
  LLS_NOTED(                                                                             \
      LLS_KIND_OF_##KIND, #CALLBACK,                                                     \
      (LLS_CHECK(lls_policy_host_is_owned((P)->KIND.host)),                              \
       (P)->KIND.module->KIND.CALLBACK((P)->KIND.self __VA_OPT__(, ) __VA_ARGS__)))

/* True if the policy has that callback. */
#define LLS_HAS(P, KIND, CALLBACK) ((P)->KIND.module->KIND.CALLBACK != NULL)

/* Likewise of the scheduler, which is not called any more once it was switched off. */
#define LLS_SCHEDULER_HAS(P, CALLBACK)                                                   \
  (!(P)->scheduler_off && LLS_HAS(P, scheduler, CALLBACK))

/* Returns what a policy returned: 0 or a negative errno, as it has to be; -EPROTO and a
 * sentence for what is neither. */
int lls_policy_rc(struct lls_policy_host *, int rc);

/* CALLBACK of struct lls_plugin_common, of a running policy of whatever kind. */
#define LLS_CALL_COMMON(POLICY, CALLBACK, ...)                                           \
  LLS_NOTED((POLICY)->module->descriptor->kind, #CALLBACK,                               \
            lls_plugin_common((POLICY)->module)                                          \
                .CALLBACK((POLICY)->self __VA_OPT__(, ) __VA_ARGS__))

/*
 * A set of the chosen policies, all but created; where none is chosen (no module) it has
 * a gap. On failure nothing is left and the sentence names the plugin.
 */
int lls_policies_prepare(struct lls_instance *, const struct lls_loop_policies *chosen,
                         struct lls_policies *out, struct lls_error *err);
/* Creates them. On failure the sentence names the plugin, and the set is to be destroyed.
 * Nothing else is read meanwhile that a change of the running set would write. */
int lls_policies_create(struct lls_policies *, struct lls_error *err);
/* Closes the gaps with what runs. */
void lls_policies_fill(struct lls_policies *, const struct lls_policies *running);
/* Destroys what `kept` (NULL: nothing is) does not share. */
void lls_policies_destroy(struct lls_policies *, const struct lls_policies *kept);

#endif
