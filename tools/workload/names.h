/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers the names of a file, such as its tenants or sessions, in order of
 * appearance. */
#ifndef LLS_WORKLOAD_NAMES_H
#define LLS_WORKLOAD_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct lls_name;

/* The names so far; {0}: none yet. */
struct lls_names {
  struct lls_name *table;
  uint32_t n;
};

/* Returns the number of the name, from 1, and gives a new name the next one; 0: out of
 * memory. */
uint32_t lls_names_number(struct lls_names *, const char *name, size_t length);
void lls_names_free(struct lls_names *);

#endif
