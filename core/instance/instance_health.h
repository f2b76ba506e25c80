/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of an instance. It fails when its engine fails. It is broken while it
 * has failed or while its process sends nothing; an instance of another process can
 * recover from that, once it has cleared away the requests which others have taken over
 * (core/cluster/remote_lives.c).
 */
#ifndef LLS_INSTANCE_INSTANCE_HEALTH_H
#define LLS_INSTANCE_INSTANCE_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct lls_instance_health {
  bool failed;
  struct lls_error failure; /* the reason */
  /* [any] The instance failed, or its process is silent: its blocks must not be
   * used. */
  atomic_bool broken;
  /* [any] The instance's process leaves: it gets nothing new, but its blocks may be used
   * until it has ended. */
  atomic_bool leaving;
  _Atomic uint32_t returns; /* [any] how often it recovered from `broken` */
  uint64_t clear;           /* number of the last lls_inbox_clear handled */
  /* [any] the value of clear, once the events are published */
  _Atomic uint64_t cleared;
};

#endif
