/* SPDX-License-Identifier: Apache-2.0 */
/* The known word nearest to a mistyped one, by edit distance. */
#ifndef LLS_CONFIG_NEAREST_H
#define LLS_CONFIG_NEAREST_H

#define LLS_NEAREST_MAX 64 /* longer words are compared by their beginning */

struct lls_nearest {
  const char *word;           /* what was written */
  char best[LLS_NEAREST_MAX]; /* "" as long as none was offered */
  unsigned distance;          /* of best */
};

void lls_nearest_offer(struct lls_nearest *, const char *candidate);

#endif
