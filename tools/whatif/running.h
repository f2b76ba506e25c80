/* SPDX-License-Identifier: Apache-2.0 */
/* A server's policies and its traffic: asked of it, or of files in its place. */
#ifndef LLS_WHATIF_RUNNING_H
#define LLS_WHATIF_RUNNING_H

#include "tools/ctl/ask.h"
#include "tools/ctl/key.h"
#include "tools/whatif/nameless.h"
#include "tools/whatif/whatif.h"

struct running {
  char *config;         /* path of its INI, which is here */
  char *name;           /* "sarathi+paged+none" */
  char *settings;       /* lines of SECTION.KEY=VALUE: the policies as they run */
  char *history;        /* path of its traffic; its own, or that of `told` */
  char *profile;        /* [engine] profile; NULL or "": none is given */
  struct nameless told; /* what it answered */
  bool idle;            /* it had nothing to do when it was asked */
  bool here;            /* the traffic is this server's, not of a file from anywhere */
};

/* The server that is asked, and with which key. */
struct whom {
  struct ctl_server server; /* address: the INI's, or the options' */
  struct lls_ini ini;
  char key[CTL_KEY_BYTES];
};

/* By the options and the INI that they name, which need not be there. */
int whom_find(const struct whatif_options *, struct whom *out, struct lls_error *err);
void whom_free(struct whom *);

/* The answer of a request with this body, or NULL, which the caller releases; -EACCES
 * with the server's sentence where it refuses. */
int whom_ask(const struct whom *, const char *method, const char *path,
             const json_t *body, json_t **answer, struct lls_error *err);

/* Asks. -ECONNREFUSED and the like where nobody answers,
 * else what is wrong with a file, or refused. */
int running_ask(const struct whatif_options *, struct running *out,
                struct lls_error *err);
void running_free(struct running *);

#endif
