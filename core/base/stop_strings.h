/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stop strings, and the marks of tool calls: found in an answer that grows piece by
 * piece, and nothing of one ever shown before it is certain that it isn't one.
 */
#ifndef LLS_BASE_STOP_STRINGS_H
#define LLS_BASE_STOP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>

struct lls_stop_string {
  char *text; /* (length), at least one byte */
  size_t length;
};

struct lls_stop_set {
  struct lls_stop_string *strings; /* (count) */
  size_t count;
};

/*
 * Where the first stop string in text begins, and its index in the set in *which; false
 * if there is none. First is the one that ends first (the longest, of those that end
 * there), so that it doesn't matter in which pieces the text came.
 */
bool lls_stop_find(const struct lls_stop_set *set, const char *text, size_t length,
                   size_t *at, size_t *which);

/* How many bytes at the end of text, which has no stop string, may begin one. */
size_t lls_stop_hold(const struct lls_stop_set *set, const char *text, size_t length);

void lls_stop_set_free(struct lls_stop_set *set);

#endif
