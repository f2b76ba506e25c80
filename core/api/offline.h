/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation request that no client waits for, such as a line of a batch: it is read,
 * run and answered as one that came over HTTP, but the answer goes to a callback, and the
 * class is best_effort. Everything is of [main].
 *
 *   lls_run_chat, ... --read--> `generation` is set --> answer
 *                        +--------refused-------------^
 */
#ifndef LLS_API_OFFLINE_H
#define LLS_API_OFFLINE_H

#include "core/api/api_internal.h"
#include "core/api/api_params.h"

struct lls_offline {
  /* Once, but not after lls_offline_drop: the answer as JSON, on one line. Status 429 and
   * 5xx: nothing is wrong with the request, it may be run again later. */
  void (*answer)(struct lls_offline *, unsigned status, const char *json, size_t length);
  const char *tenant;                /* whom fairness counts it for, or "" */
  int64_t deadline_ns;               /* from now to when it is to be complete */
  struct lls_generation *generation; /* in the step loop; NULL: not yet, or no more */
  bool begun;                        /* it has had a token */
};

/* Each reads the body, which is taken over, and runs it; `offline` lives until it is
 * answered or dropped. */
typedef void lls_offline_run(struct lls_api *api, struct lls_text *body,
                             struct lls_offline *offline);
void lls_run_chat(struct lls_api *api, struct lls_text *body,
                  struct lls_offline *offline);
void lls_run_completions(struct lls_api *api, struct lls_text *body,
                         struct lls_offline *offline);

void lls_run_responses(struct lls_api *api, struct lls_text *body,
                       struct lls_offline *offline);
void lls_run_embeddings(struct lls_api *api, struct lls_text *body,
                        struct lls_offline *offline);

/* Sets what all of these requests have, whatever their body says; 0, or -1 and why. */
int lls_offline_set_params(const struct lls_offline *offline,
                           struct lls_api_params *params, struct lls_api_error *error);

void lls_offline_fail(struct lls_offline *offline, const struct lls_api_error *error);

/* Cancels it, unanswered. False: it is being read or its answer written, and will be
 * answered. */
bool lls_offline_drop(struct lls_offline *offline);

#endif
