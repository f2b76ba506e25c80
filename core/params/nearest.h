/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the known word that a mistyped one may mean: the nearest by edit distance, if
 * at most half of the mistyped word would have to change. */
#ifndef LLS_PARAMS_NEAREST_H
#define LLS_PARAMS_NEAREST_H

#define LLS_NEAREST_MAX    64 /* only the beginning of longer words is compared */
#define LLS_NEAREST_CLAUSE (LLS_NEAREST_MAX + 24)

struct lls_nearest {
  const char *word;           /* the mistyped word */
  char best[LLS_NEAREST_MAX]; /* nearest word so far; "" = none is near enough */
  unsigned distance;          /* edit distance of `best` */
};

void lls_nearest_offer(struct lls_nearest *, const char *candidate);

/* Writes "; the nearest is 'best'" for the end of an error message, with marks[0]
 * before and marks[1] after the word; "" if no word was near enough. Returns out. */
const char *lls_nearest_clause(const struct lls_nearest *, const char marks[static 2],
                               char out[static LLS_NEAREST_CLAUSE]);

#endif
