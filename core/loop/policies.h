/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three plugins at work in an instance: code, state, and the host each of them sees.
 *
 * A set is made beside the running one during a reload and shares with it what stays, so
 * that "the same" is a question of pointers. Made and destroyed on [main]; the set in use
 * belongs to [step].
 */
#ifndef LLS_LOOP_POLICIES_H
#define LLS_LOOP_POLICIES_H

#include <llmserve/cache.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include "core/loop/loop.h"
#include "core/loop/policy_host.h"
#include "core/plugin/trail.h"

struct lls_policies {
  const struct lls_plugin_module *scheduler_module, *cache_module, *predictor_module;
  const struct lls_scheduler_vtable *scheduler; /* of the modules */
  const struct lls_cache_vtable *cache;
  const struct lls_predictor_vtable *predictor;
  void *scheduler_self, *cache_self, *predictor_self; /* what create gave */
  const void *scheduler_params, *cache_params, *predictor_params;
  struct lls_policy_host *scheduler_host, *cache_host, *predictor_host;
  bool scheduler_off; /* fell back to the built-in order */
};

#define LLS_KIND_OF_scheduler LLS_KIND_SCHEDULER
#define LLS_KIND_OF_cache     LLS_KIND_CACHE
#define LLS_KIND_OF_predictor LLS_KIND_PREDICTOR

/* p->KIND->CALLBACK(p->KIND_self, ...), noted in case it crashes or never returns. */
#define LLS_CALL(P, KIND, CALLBACK, ...)                                                 \
  LLS_NOTED(LLS_KIND_OF_##KIND, #CALLBACK,                                               \
            (P)->KIND->CALLBACK((P)->KIND##_self __VA_OPT__(, ) __VA_ARGS__))

/*
 * A set of the chosen policies; where none is chosen (no module) it has a gap. On failure
 * nothing is left and the sentence names the plugin.
 */
int lls_policies_create(struct lls_instance *, const struct lls_loop_policies *chosen,
                        struct lls_policies *out, struct lls_error *err);
/* Closes the gaps with what runs. */
void lls_policies_fill(struct lls_policies *, const struct lls_policies *running);
/* Destroys what `kept` (NULL: nothing is) does not share. */
void lls_policies_destroy(struct lls_policies *, const struct lls_policies *kept);

#endif
