/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon seen and steered over HTTP: /admin/status, /admin/config, /admin/reload,
 * /admin/drain; /admin/queues is queues.c's, /admin/history traffic.c's, /admin/whatif
 * whatif.c's. What these do is the daemon's business (core/serve); here is how they are
 * asked for.
 */
#ifndef LLS_API_ADMIN_H
#define LLS_API_ADMIN_H

#include "core/api/whatif.h"
#include "core/base/error.h"
#include "core/config/config.h"

/* The daemon's state as /admin reports it; kept up to date by it. */
struct lls_admin_state {
  const struct lls_config *config; /* what runs */
  uint64_t generation; /* 1 from the start, + 1 with each reload that worked */
  uint64_t reloads, reloads_refused;
  uint64_t reloads_begun;        /* at most one is under way */
  int64_t started_s, reloaded_s; /* Unix time; 0 = never */
  bool reload_good;
  /* The process has given this up, or why it has not; "" until that is known. */
  char sandbox_files[LLS_ERROR_MAX], sandbox_calls[LLS_ERROR_MAX];
  char reload_message[LLS_ERROR_MAX]; /* what changed, or why nothing did */
};

struct lls_history;

struct lls_admin {
  const struct lls_admin_state *state; /* NULL: there is no daemon, nor these paths */
  struct lls_history *history;         /* NULL: none is kept */
  void *context;
  void (*reload)(void *context); /* lls_api_reloaded is called when it is over */
  /* The same, with these settings on top; -ENOMEM: it does not begin. */
  int (*change)(void *context, const struct lls_changes *changes);
  void (*drain)(void *context, const char *asked_by);
  struct lls_whatif_asker whatif;
};

#endif
