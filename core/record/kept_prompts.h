/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefixes of prompts that outlive the process ([cache] kept_prompts). At the end the
 * cache manager lists the blocks that it could find again, and a file gets them with
 * their K and V; at the next start its cache manager adopts them. [main], while the
 * instance has no step thread.
 *
 * Kept prompts are an optimisation: a file that cannot be read or written costs a line
 * in the log, nothing else.
 */
#ifndef LLS_RECORD_KEPT_PROMPTS_H
#define LLS_RECORD_KEPT_PROMPTS_H

#include "core/instance/instance.h"

/* At the start, after the policies are created. Fails only if the cache manager names
 * units that the pool does not have. */
int lls_kept_prompts_read(struct lls_instance *, struct lls_error *err);
/* At the end, when no request is alive. */
void lls_kept_prompts_write(struct lls_instance *);

#endif
