/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginnings of prompts that outlive the process ([cache] kept_prompts): the cache
 * manager says which blocks it would find again, a file has them with their K and V, and
 * the next start gives them to its cache manager. [main], while the instance has no step
 * thread.
 *
 * Nothing depends on it: where a file cannot be read or written a line of the log says
 * so.
 */
#ifndef LLS_RECORD_KEPT_PROMPTS_H
#define LLS_RECORD_KEPT_PROMPTS_H

#include "core/instance/instance.h"

/* At the start, once the policies are there. Fails only where the manager
 * names units that there are not. */
int lls_kept_prompts_read(struct lls_instance *, struct lls_error *err);
/* At the end, nothing being alive. */
void lls_kept_prompts_write(struct lls_instance *);

#endif
