/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel over UCX (core/channel/channel.h), for processes that are started one by
 * one and may come and go. It is a module of its own, ucx.so, so that no other code
 * needs UCX.
 *
 * The front end is process 0. It listens; every other process joins it, and gets a place
 * from 1 to n - 1. A place may be empty, and may get another process after its process
 * was lost. Each process makes a random number, its identity, which all its messages
 * carry: what a lost process had sent is recognised and dropped.
 */
#ifndef LLS_UCX_UCX_H
#define LLS_UCX_UCX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/channel/channel.h"

#define LLS_ANY_ROLE UINT32_MAX

struct lls_ucx_options {
  const char *listen;    /* HOST:PORT, process 0: where others join; else NULL */
  const char *join;      /* HOST:PORT of process 0 */
  const char *secret;    /* all processes know it; "": none */
  const char *model;     /* fingerprint of what is served; processes with another one are
                          * refused */
  uint32_t n;            /* places, with process 0's; equal in all processes */
  const uint32_t *roles; /* (n) */
  uint32_t role;         /* the role that a process joins for, or LLS_ANY_ROLE */
  /* Gets sentences for the log: where process 0 listens, whom it refuses, why another
   * process waits. [main, and then the channel's thread] */
  void (*say)(void *context, const char *text);
  void *context;
  const _Atomic(bool) *give_up; /* checked while it waits; may be NULL */
};

/* The symbol lls_ucx_module of the module ucx.so. */
struct lls_ucx_module {
  uint32_t size;
  const char *version;
  int (*open)(const struct lls_ucx_options *, struct lls_channel **out,
              struct lls_error *err);
};

#define LLS_UCX_MODULE_SYMBOL "lls_ucx_module"

/* [main] Process 0: begins to listen. All others: joins, and waits until there is a
 * place; fails if process 0 refuses this process for good. Returns -ENOENT if this build
 * has no UCX. */
int lls_ucx_open(const struct lls_ucx_options *, struct lls_channel **out,
                 struct lls_error *err);

#endif
