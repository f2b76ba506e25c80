/* SPDX-License-Identifier: Apache-2.0 */
/* A server's policies and traffic: from the server, or from files instead. */
#ifndef LLS_WHATIF_RUNNING_H
#define LLS_WHATIF_RUNNING_H

#include "tools/ctl/ask.h"
#include "tools/ctl/key.h"
#include "tools/whatif/nameless.h"
#include "tools/whatif/whatif.h"

struct running {
  char *config;         /* path of the server's INI, on this machine */
  char *name;           /* "sarathi+paged+none" */
  char *settings;       /* lines of SECTION.KEY=VALUE: the running policies */
  char *history;        /* path of the traffic: a given file, or that of `told` */
  char *profile;        /* [engine] profile; NULL or "": not set */
  struct nameless told; /* the server's answer */
  bool idle;            /* the server was idle when asked */
  bool here;            /* the traffic is this server's own, not from an arbitrary file */
};

/* The server to ask, and the API key. */
struct whom {
  struct ctl_server server; /* address: the INI's, or from the options */
  struct lls_ini ini;
  char key[CTL_KEY_BYTES], address[CTL_ADDRESS_BYTES];
};

/* Sets it from the options and the INI that they name, which need not exist. */
int whom_find(const struct whatif_options *, struct whom *out, struct lls_error *err);
void whom_free(struct whom *);

/* Sends a request with this body, or NULL. *answer is the caller's. -EACCES with the
 * server's error if it refuses. */
int whom_ask(const struct whom *, const char *method, const char *path,
             const json_t *body, json_t **answer, struct lls_error *err);

/* Asks the server. -ECONNREFUSED and the like if no server answers; else an error about
 * a file or a refusal. */
int running_ask(const struct whatif_options *, struct running *out,
                struct lls_error *err);
void running_free(struct running *);

#endif
