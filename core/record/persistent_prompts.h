/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent prompts: prefixes of prompts that outlive the process ([cache]
 * kept_prompts). When the server ends, the cache manager lists the blocks of its
 * prefixes, and they are written to a file of blocks (core/disk) with their K and V and
 * states. At the next start the cache manager adopts them. [main], while the instance has
 * no step thread.
 *
 * Persistent prompts are an optimisation: a file that cannot be read or written costs a
 * line in the log, nothing else.
 */
#ifndef LLS_RECORD_PERSISTENT_PROMPTS_H
#define LLS_RECORD_PERSISTENT_PROMPTS_H

struct lls_error;
struct lls_instance;

/* Called at the start, after the policies are created. Fails only if the cache manager
 * names units that the pool does not have. */
int lls_persistent_prompts_read(struct lls_instance *, struct lls_error *err);
/* Called at the end, when no request is alive. */
void lls_persistent_prompts_write(struct lls_instance *);

#endif
