/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step thread seen from [main]: whether it is still in the callback of a plugin that it
 * was in long ago. A long step of a device is no hang: then the thread is in no callback.
 */
#ifndef LLS_LOOP_HANG_H
#define LLS_LOOP_HANG_H

#include "core/instance/step_thread.h"

/* limit_ns after which it hangs, 0 = never; now_ns of any clock that goes on steadily. */
void lls_hang_look(struct lls_hang *, const struct lls_policies *, int64_t now_ns,
                   int64_t limit_ns);

#endif
