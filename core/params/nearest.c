/* SPDX-License-Identifier: Apache-2.0 */
/* Levenshtein's distance with one row of the table kept; see nearest.h. */
#include "core/params/nearest.h"

#include <stdio.h>
#include <string.h>

static unsigned minimum(unsigned a, unsigned b)
{
  return a < b ? a : b;
}

static unsigned edit_distance(const char *a, const char *b)
{
  size_t a_length = strnlen(a, LLS_NEAREST_MAX - 1);
  size_t b_length = strnlen(b, LLS_NEAREST_MAX - 1);
  unsigned row[LLS_NEAREST_MAX]; /* distances of a's first i characters to b's first j */
  for (size_t j = 0; j <= b_length; j++)
    row[j] = (unsigned)j;
  for (size_t i = 1; i <= a_length; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_length; j++) {
      unsigned replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = minimum(replaced, minimum(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_length];
}

void lls_nearest_offer(struct lls_nearest *nearest, const char *candidate)
{
  unsigned distance = edit_distance(nearest->word, candidate);
  if (2 * distance > strnlen(nearest->word, LLS_NEAREST_MAX - 1) ||
      (nearest->best[0] != '\0' && distance >= nearest->distance))
    return;
  nearest->distance = distance;
  snprintf(nearest->best, sizeof nearest->best, "%s", candidate);
}

const char *lls_nearest_clause(const struct lls_nearest *nearest,
                               const char marks[static 2],
                               char out[static LLS_NEAREST_CLAUSE])
{
  out[0] = '\0';
  if (nearest->best[0] != '\0')
    snprintf(out, LLS_NEAREST_CLAUSE, "; the nearest is %c%s%c", marks[0], nearest->best,
             marks[1]);
  return out;
}
