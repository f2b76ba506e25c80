/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins of an instance, one of each kind: code, state, and the host that each
 * plugin sees; how they are called, and how answers that break their contract are
 * counted. core/policy creates and destroys them.
 */
#ifndef LLS_INSTANCE_RUNNING_POLICY_H
#define LLS_INSTANCE_RUNNING_POLICY_H

#include <llmserve/cache.h>
#include <llmserve/drafter.h>
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
  struct lls_host host;        /* passed to the plugin */
  struct lls_engine_caps caps; /* what host.engine points to */
  struct lls_instance *instance;
  const char *name; /* "scheduler fcfs" */
  char name_text[LLS_POLICY_NAME_MAX];
  struct lls_error failure; /* the last host->fail message */
  uint64_t refusals;        /* requests that it ended */
  uint64_t breaches;        /* answers that broke its contract */
  bool bad_prefix;          /* (cache manager) its prefixes are not used any more */
  uint64_t random_state[LLS_RANDOM_STREAMS];
  struct lls_policy_counter counters[LLS_MAX_POLICY_STATS];
  uint32_t n_counters;
  struct lls_embed_service embed; /* host->extension(LLS_EMBED) */
};

/* [step] Counts an answer that breaks the contract; logs it unless there were many. */
void lls_policy_breach(struct lls_policy_host *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* [step] Returns true if the calling thread may call the plugin. */
bool lls_policy_host_is_owned(const struct lls_policy_host *);

struct lls_running_policy {
  const struct lls_plugin_module *module;
  void *self; /* created by the plugin */
  const void *params;
  struct lls_policy_host *host;
};

struct lls_policies {
  LLS_EACH_KIND_OF(struct lls_running_policy);
  bool scheduler_off; /* switched off: the built-in order plans */
};

#define LLS_KIND_OF_scheduler LLS_KIND_SCHEDULER
#define LLS_KIND_OF_cache     LLS_KIND_CACHE
#define LLS_KIND_OF_predictor LLS_KIND_PREDICTOR
#define LLS_KIND_OF_drafter   LLS_KIND_DRAFTER

/* [step] Calls CALLBACK of the policy of KIND, and notes the call in case it crashes or
 * hangs. */
#define LLS_CALL(P, KIND, CALLBACK, ...)                                                 \
  LLS_NOTED(                                                                             \
      LLS_KIND_OF_##KIND, #CALLBACK,                                                     \
      (LLS_CHECK(lls_policy_host_is_owned((P)->KIND.host)),                              \
       (P)->KIND.module->KIND.CALLBACK((P)->KIND.self __VA_OPT__(, ) __VA_ARGS__)))

/* True if the policy has that callback. */
#define LLS_HAS(P, KIND, CALLBACK) ((P)->KIND.module->KIND.CALLBACK != NULL)

/* True if the scheduler has the callback and was not switched off. */
#define LLS_SCHEDULER_HAS(P, CALLBACK)                                                   \
  (!(P)->scheduler_off && LLS_HAS(P, scheduler, CALLBACK))

/* Checks a callback's return value. Returns it if it is 0 or negative; else -EPROTO
 * (the host's failure says why). */
int lls_policy_rc(struct lls_policy_host *, int rc);

/* Calls CALLBACK of struct lls_plugin_common, for a running policy of any kind. */
#define LLS_CALL_COMMON(POLICY, CALLBACK, ...)                                           \
  LLS_NOTED((POLICY)->module->descriptor->kind, #CALLBACK,                               \
            lls_plugin_common((POLICY)->module)                                          \
                .CALLBACK((POLICY)->self __VA_OPT__(, ) __VA_ARGS__))

#endif
