/* SPDX-License-Identifier: Apache-2.0 */
/* The known word that a mistyped one may mean: the nearest by edit distance, unless more
 * than half of what was written would have to change. */
#ifndef LLS_PARAMS_NEAREST_H
#define LLS_PARAMS_NEAREST_H

#define LLS_NEAREST_MAX    64 /* longer words are compared by their beginning */
#define LLS_NEAREST_CLAUSE (LLS_NEAREST_MAX + 24)

struct lls_nearest {
  const char *word;           /* what was written */
  char best[LLS_NEAREST_MAX]; /* "" as long as none was near */
  unsigned distance;          /* of best */
};

void lls_nearest_offer(struct lls_nearest *, const char *candidate);

/* "; the nearest is 'best'" for the end of an error's sentence, with such a mark before
 * and after it; "" where none was near. Returns out. */
const char *lls_nearest_clause(const struct lls_nearest *, const char marks[static 2],
                               char out[static LLS_NEAREST_CLAUSE]);

#endif
