/* SPDX-License-Identifier: Apache-2.0 */
/* See hang.h. Policies are replaced on [main] alone, so main may read their names
 * whatever the step thread does. */
#include "core/loop/hang.h"

#include <errno.h>

#include "core/base/error.h"

/* Names the innermost callback if no callback began since the last check; else the
 * outermost, which keeps calling others. */
static void describe(struct lls_hang *h, const struct lls_trail *t, uint32_t depth,
                     bool calls, const struct lls_policies *p, int64_t took_ns)
{
  uint32_t inner = depth < LLS_TRAIL_DEPTH ? depth - 1 : LLS_TRAIL_DEPTH - 1;
  const struct lls_trail_call *call = &t->under_way[calls ? 0 : inner];
  lls_fail(&h->why, -ETIME, "%s: %s has not returned for %.1f s",
           LLS_OF_KIND(p, call->kind)->host->name, call->callback, (double)took_ns / 1e9);
}

void lls_hang_look(struct lls_hang *h, const struct lls_policies *p, int64_t now_ns,
                   int64_t limit_ns)
{
  const struct lls_trail *t = atomic_load(&h->trail);
  if (t == NULL)
    return;
  uint32_t depth = atomic_load(&t->depth);
  uint64_t calls = atomic_load(&t->calls), outermost = atomic_load(&t->outermost);
  if (depth == 0 || outermost != h->outermost || limit_ns == 0) {
    h->since_ns = now_ns;
    h->hangs = false;
  } else if (!h->hangs && now_ns - h->since_ns >= limit_ns) {
    describe(h, t, depth, calls != h->calls, p, now_ns - h->since_ns);
    h->hangs = true;
  }
  h->calls = calls;
  h->outermost = outermost;
}
