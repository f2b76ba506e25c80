/* SPDX-License-Identifier: Apache-2.0 */
/* Names of parameters that nobody knows, the first LLS_MAX_UNKNOWN of them. */
#ifndef LLS_API_UNKNOWN_H
#define LLS_API_UNKNOWN_H

#include <stdbool.h>

#define LLS_MAX_UNKNOWN 64

/* A zeroed struct holds none. */
struct lls_unknown_names {
  char *names[LLS_MAX_UNKNOWN]; /* (n) */
  unsigned n;
};

/* Copies a name that was not there; false if it was, is too long, or has no room. */
bool lls_unknown_add(struct lls_unknown_names *names, const char *name);
void lls_unknown_free(struct lls_unknown_names *names);

#endif
