/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file without a name, in memory: for what this program and those that it runs tell
 * each other, so that nothing is left behind however they end, and no folder has to be
 * writable where a sandbox forbids it.
 */
#ifndef LLS_WHATIF_NAMELESS_H
#define LLS_WHATIF_NAMELESS_H

#include "core/base/error.h"

struct nameless {
  int fd;
  char path[32]; /* of it, here and in programs that are run */
};

int nameless_create(struct nameless *out, struct lls_error *err);
void nameless_close(struct nameless *);

#endif
