/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon monitored and controlled over HTTP: /admin/status, /admin/config,
 * /admin/reload, /admin/drain. queues.c has /admin/queues, session_list.c
 * /admin/sessions, traffic.c /admin/history, whatif.c /admin/whatif. The daemon
 * (core/serve) carries the requests out; core/api only receives and answers them.
 */
#ifndef LLS_API_ADMIN_H
#define LLS_API_ADMIN_H

#include "core/api/whatif.h"
#include "core/base/error.h"
#include "core/config/config.h"

/* The daemon's state as /admin reports it; the daemon keeps it up to date. */
struct lls_admin_state {
  const struct lls_config *config; /* the running configuration */
  uint64_t generation;             /* 1 at the start, + 1 with each successful reload */
  uint64_t reloads, reloads_refused;
  uint64_t reloads_begun;        /* reloads begun; at most one is in progress */
  int64_t started_s, reloaded_s; /* Unix time; 0 = never */
  bool reload_good;
  /* Which file access and system calls the process has given up (sandbox), or why it
   * has not; "" until known. */
  char sandbox_files[LLS_ERROR_MAX], sandbox_calls[LLS_ERROR_MAX];
  char reload_message[LLS_ERROR_MAX]; /* the changes, or why the reload was refused */
};

struct lls_history;

struct lls_admin {
  const struct lls_admin_state *state; /* NULL: no daemon, so /admin does not exist */
  struct lls_history *history;         /* NULL: none is kept */
  void *context;
  void (*reload)(void *context); /* the daemon calls lls_api_reloaded at its end */
  /* Reloads with `changes` applied on top; -ENOMEM: no reload begins. */
  int (*change)(void *context, const struct lls_changes *changes);
  void (*drain)(void *context, const char *asked_by);
  struct lls_whatif_asker whatif;
};

#endif
