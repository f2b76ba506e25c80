/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generation request without a waiting client, such as a line of a batch. It is read,
 * run and answered like an HTTP request, but its answer goes to a callback, and its
 * class is best_effort. Everything runs on [main].
 *
 *   lls_generation_run --read--> `generation` is set --> answer
 *                        +---------refused-------------^
 */
#ifndef LLS_API_OFFLINE_H
#define LLS_API_OFFLINE_H

#include "core/api/api_internal.h"
#include "core/api/api_params.h"

struct lls_offline {
  /* Called once, unless lls_offline_drop came first, with the answer as JSON on one
   * line. After status 429 or 5xx the same request may succeed later. */
  void (*answer)(struct lls_offline *, unsigned status, const char *json, size_t length);
  const char *tenant;                /* the tenant that fairness counts, or "" */
  int64_t deadline_ns;               /* time from now until it has to be complete */
  struct lls_generation *generation; /* while in the step loop, else NULL */
  bool begun;                        /* the request's first token has arrived */
};

/* Sets the parameters that every offline request has, whatever its body says. Returns
 * 0, or -1 with *error set. */
int lls_offline_set_params(const struct lls_offline *offline,
                           struct lls_api_params *params, struct lls_api_error *error);

void lls_offline_fail(struct lls_offline *offline, const struct lls_api_error *error);

/* Cancels the request without an answer. Returns false if it is being read or its
 * answer is being written: then it will be answered. */
bool lls_offline_drop(struct lls_offline *offline);

#endif
