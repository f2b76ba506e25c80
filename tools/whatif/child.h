/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of llmserve run by another one: found beside it, at idle priority, bounded in
 * processor time and memory, so that a server on the same machine does not notice.
 */
#ifndef LLS_WHATIF_CHILD_H
#define LLS_WHATIF_CHILD_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct child_limits {
  int64_t time_ns;      /* of processor; 0: none */
  int64_t memory_bytes; /* of address space; 0: none */
  bool idle;            /* gives way to everything else */
};

/* Runs it to its end. arguments: (n + 1), the name first, NULL last. What it says on
 * stderr becomes the sentence if it fails: -ECHILD; -ETIME: it took too long. */
int child_run(char *const arguments[], const struct child_limits *,
              struct lls_error *err);

#endif
