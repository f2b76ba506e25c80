/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of the prompts that main sent to one instance and of the answers that ended
 * there, as many as the instance's device and host hold blocks. Main does not see the
 * caches: a manager may have dropped blocks that main still remembers, and the other way
 * round. A place has one of its line's ways, so that finding and noting a key touches one
 * line of memory; the key of a line that was longest not sent makes room.
 */
#ifndef LLS_INSTANCE_SENT_KEYS_H
#define LLS_INSTANCE_SENT_KEYS_H

#include <stdint.h>

#include <llmserve/types.h>

struct lls_sent_key;

struct lls_sent_keys {
  struct lls_sent_key *all; /* (n) or NULL */
  uint64_t n;               /* a power of two */
  uint64_t now;             /* prompts so far */
};

/* `blocks`: those that the instance's device and host hold. Returns -ENOMEM. */
int lls_sent_init(struct lls_sent_keys *, uint64_t blocks);
void lls_sent_free(struct lls_sent_keys *);
/* Returns how many of the keys, from the first one on, were sent there. */
uint32_t lls_sent_find(const struct lls_sent_keys *, const struct lls_key *keys,
                       uint32_t n);
/* Remembers these keys as the latest that were sent there. */
void lls_sent_note(struct lls_sent_keys *, const struct lls_key *keys, uint32_t n);

#endif
