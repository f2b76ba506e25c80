/* SPDX-License-Identifier: Apache-2.0 */
/* A plain search is enough: the searched text is one token and the bytes held back before
 * it. */
#include "core/base/stop_strings.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

bool lls_stop_find(const struct lls_stop_set *set, const char *text, size_t length,
                   size_t *at, size_t *which)
{
  const char *first_end = NULL;
  for (size_t i = 0; i < set->count; i++) {
    const struct lls_stop_string *stop = &set->strings[i];
    const char *found = memmem(text, length, stop->text, stop->length);
    if (found == NULL)
      continue;
    const char *end = found + stop->length;
    if (first_end == NULL || end < first_end ||
        (end == first_end && stop->length > set->strings[*which].length)) {
      first_end = end;
      *which = i;
    }
  }
  if (first_end == NULL)
    return false;
  *at = (size_t)(first_end - text) - set->strings[*which].length;
  return true;
}

/* Returns the length of the longest end of text that is a proper beginning of stop. */
static size_t overlap(const struct lls_stop_string *stop, const char *text, size_t length)
{
  LLS_CHECK(stop->length > 0);
  size_t longest = stop->length - 1 < length ? stop->length - 1 : length;
  for (size_t n = longest; n > 0; n--)
    if (memcmp(text + length - n, stop->text, n) == 0)
      return n;
  return 0;
}

size_t lls_stop_hold(const struct lls_stop_set *set, const char *text, size_t length)
{
  size_t hold = 0;
  for (size_t i = 0; i < set->count; i++) {
    size_t n = overlap(&set->strings[i], text, length);
    hold = n > hold ? n : hold;
  }
  return hold;
}

void lls_stop_set_free(struct lls_stop_set *set)
{
  for (size_t i = 0; i < set->count; i++)
    free(set->strings[i].text);
  free(set->strings);
  *set = (struct lls_stop_set){0};
}
