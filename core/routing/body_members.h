/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds members of a JSON object without making a tree of it: of a body the router needs
 * two or three short ones, and a body may have 16 MiB, whose tree would take main a tenth
 * of a second. The process of the model reads the body in full and refuses what is
 * malformed.
 */
#ifndef LLS_ROUTING_BODY_MEMBERS_H
#define LLS_ROUTING_BODY_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#define LLS_BODY_VALUE_MAX 512 /* bytes of the longest value that is read */

struct lls_body_value {
  const char *name; /* of the member that is wanted; "" ends a list */
  bool found;       /* the last member of this name counts, as for Jansson */
  bool is_true, is_false;
  char text[LLS_BODY_VALUE_MAX]; /* of a string, "" for any other value */
};

/* [any] Fills the wanted values of the object in `text`. A malformed text leaves what was
 * found before its fault. */
void lls_body_find(const char *text, size_t length, struct lls_body_value *wanted);

#endif
