/* SPDX-License-Identifier: Apache-2.0 */
/* A server's policies and its traffic: asked of it, or of files in its place. */
#ifndef LLS_WHATIF_RUNNING_H
#define LLS_WHATIF_RUNNING_H

#include "tools/whatif/whatif.h"

struct running {
  char *config;   /* path of its INI, which is here */
  char *name;     /* "sarathi+paged+none" */
  char *settings; /* lines of SECTION.KEY=VALUE: the policies as they run */
  char *history;  /* path of its traffic */
  bool asked;     /* the history is a file of ours, to be removed */
  bool idle;      /* it had nothing to do when it was asked */
};

/* Asks. folder: where files of ours go. -ECONNREFUSED and the like where nobody answers,
 * else what is wrong with a file, or refused. */
int running_ask(const struct whatif_options *, const char *folder, struct running *out,
                struct lls_error *err);
void running_free(struct running *);

#endif
