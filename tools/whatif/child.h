/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs another program of llmserve, found beside this one, at idle priority and with
 * limits on processor time and memory, so that a server on the same machine is not
 * disturbed.
 */
#ifndef LLS_WHATIF_CHILD_H
#define LLS_WHATIF_CHILD_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct child_limits {
  int64_t time_ns;      /* processor time; 0: no limit */
  int64_t memory_bytes; /* address space; 0: no limit */
  bool idle;            /* run at idle priority */
};

/* Runs the program to its end. arguments: (n + 1), the name first, NULL last. If it
 * fails, err gets its error output. -ECHILD: it failed; -ETIME: it took too long. */
int child_run(char *const arguments[], const struct child_limits *,
              struct lls_error *err);

#endif
