/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step thread seen from [main]: whether it is still in the callback of a plugin that it
 * was in long ago. A long step of a device is no hang: then the thread is in no callback.
 */
#ifndef LLS_LOOP_HANG_H
#define LLS_LOOP_HANG_H

#include "core/loop/policies.h"

struct lls_hang {
  _Atomic(const struct lls_trail *) trail; /* [step] sets it; NULL: it has not begun */
  /* the rest is [main]'s */
  uint64_t calls, outermost; /* of the trail at the last look */
  int64_t since_ns;          /* no later than that the callback under way began */
  bool hangs;
  struct lls_error why; /* names plugin and callback */
};

/* limit_ns after which it hangs, 0 = never; now_ns of any clock that goes on steadily. */
void lls_hang_look(struct lls_hang *, const struct lls_policies *, int64_t now_ns,
                   int64_t limit_ns);

#endif
