/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins at work in an instance, one of each kind: code, state, and what stands
 * behind the host that each of them sees; how they are called, and what becomes of
 * answers that their contract excludes. Whoever makes and destroys them is in
 * core/policy.
 */
#ifndef LLS_INSTANCE_RUNNING_POLICY_H
#define LLS_INSTANCE_RUNNING_POLICY_H

#include <llmserve/cache.h>
#include <llmserve/host.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include <stdbool.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/encoder/service.h"
#include "core/instance/policy_figures.h"
#include "core/plugin/kinds.h"
#include "core/plugin/trail.h"

#define LLS_RANDOM_STREAMS 16

struct lls_instance;

struct lls_policy_counter {
  char name[LLS_POLICY_STAT_NAME_MAX];
  double value;
};

struct lls_policy_host {
  struct lls_host host;        /* what the plugin gets */
  struct lls_engine_caps caps; /* its host.engine */
  struct lls_instance *instance;
  const char *name; /* "scheduler fcfs" */
  char name_text[LLS_POLICY_NAME_MAX];
  struct lls_error failure; /* of the last host->fail */
  uint64_t refusals;        /* requests that ended because of it */
  uint64_t breaches;        /* answers that its contract excludes */
  bool bad_prefix;          /* of a cache manager: it is asked for none any more */
  uint64_t random_state[LLS_RANDOM_STREAMS];
  struct lls_policy_counter counters[LLS_MAX_POLICY_STATS];
  uint32_t n_counters;
  struct lls_embed_service embed; /* host->extension(LLS_EMBED) */
};

/* [step] Counts an answer that the contract excludes, and logs it unless many came
 * before. */
void lls_policy_breach(struct lls_policy_host *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* True if the calling thread may call the plugin [step]. */
bool lls_policy_host_is_owned(const struct lls_policy_host *);

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

#endif
