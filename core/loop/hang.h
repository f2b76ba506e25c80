/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects, from [main], that a step thread has been in a plugin's callback for too long.
 * A long step of the device is no hang: the thread is then in no callback.
 */
#ifndef LLS_LOOP_HANG_H
#define LLS_LOOP_HANG_H

#include "core/instance/step_thread.h"

/* Checks a thread. It hangs once its callback has been running for limit_ns; 0: it
 * never hangs. now_ns may come from any steady clock. */
void lls_hang_look(struct lls_hang *, const struct lls_policies *, int64_t now_ns,
                   int64_t limit_ns);

#endif
