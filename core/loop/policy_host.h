/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The struct lls_host that one plugin instance sees, with what stands behind it: its name
 * in the log, its sentence for failures, its random streams and timers.
 */
#ifndef LLS_LOOP_POLICY_HOST_H
#define LLS_LOOP_POLICY_HOST_H

#include <llmserve/host.h>

#include "core/base/error.h"
#include "core/encoder/service.h"
#include "core/loop/policy_stats.h"

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

void lls_policy_host_init(struct lls_policy_host *, struct lls_instance *,
                          const char *kind, const char *id, uint64_t seed);
/* [step] Counts an answer that the contract excludes, and logs it unless many came
 * before. */
void lls_policy_breach(struct lls_policy_host *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* True if the calling thread may call the plugin [step]. */
bool lls_policy_host_is_owned(const struct lls_policy_host *);

#endif
