/* SPDX-License-Identifier: Apache-2.0 */
/* Do these policies, this cache manager and this engine go together? Asked once, at
 * start. */
#ifndef LLS_LOOP_SETUP_H
#define LLS_LOOP_SETUP_H

#include "core/loop/instance.h"

/* Chooses in->preempt_mode; -ENOTSUP with a sentence that names what is missing. */
int lls_setup_check(struct lls_instance *, struct lls_error *err);

#endif
