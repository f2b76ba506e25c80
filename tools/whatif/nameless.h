/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An anonymous file in memory, for data exchanged between this program and the programs
 * that it runs. Nothing is left behind however they end, and no folder has to be
 * writable in a sandbox.
 */
#ifndef LLS_WHATIF_NAMELESS_H
#define LLS_WHATIF_NAMELESS_H

#include "core/base/error.h"

struct nameless {
  int fd;
  char path[32]; /* valid here and in child programs */
};

int nameless_create(struct nameless *out, struct lls_error *err);
void nameless_close(struct nameless *);

#endif
