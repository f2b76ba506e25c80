/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the marks of a thought in an answer; see thought.h. */
#include "core/instance/thought.h"

#include <string.h>

/* An answer that has this many tokens and no opening mark has no thought. */
#define LATEST_OPEN (LLS_THOUGHT_MARK + 16)

static bool ends_with(const int32_t *answer, uint32_t n, const int32_t *mark,
                      uint32_t n_mark)
{
  return n_mark > 0 && n_mark <= n &&
         memcmp(answer + n - n_mark, mark, n_mark * sizeof *mark) == 0;
}

/* Takes one more token of the answer into account. */
static void check(struct lls_thought_state *s, const int32_t *answer)
{
  const struct lls_thought *t = &s->thought;
  uint32_t n = ++s->checked;
  if (!s->begun) {
    s->begun = ends_with(answer, n, t->open, t->n_open);
    s->begun_at = n;
    s->ended = !s->begun && n >= LATEST_OPEN;
  } else {
    s->ended = ends_with(answer + s->begun_at, n - s->begun_at, t->close, t->n_close);
  }
}

int32_t lls_thought_next(struct lls_thought_state *s, const int32_t *answer, uint32_t n)
{
  const struct lls_thought *t = &s->thought;
  if (!t->limited || s->ended)
    return -1;
  s->begun = s->begun || t->n_open == 0;
  while (s->checked < n && !s->ended)
    check(s, answer);
  if (s->ended || !s->begun || n - s->begun_at < t->budget)
    return -1;
  uint32_t k = t->n_close - 1; /* the mark's tokens that the answer ends with */
  while (k > 0 && !ends_with(answer + s->begun_at, n - s->begun_at, t->close, k))
    k--;
  return t->close[k];
}
