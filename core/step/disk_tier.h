/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk tier of an instance ([cache] disk_space): full blocks are written to disk as
 * steps compute them, and read back for a request whose beginning is on disk and has left
 * the cache, also after a restart.
 *
 * A request that finds its beginning on disk is *held*: it has not arrived for the
 * scheduler until the blocks are read and the cache manager has adopted them, as if an
 * earlier request had left them. Reading ends at a block that cannot be read, and the
 * request computes the rest. The manager knows nothing of the disk.
 *
 * What a session left can be kept on disk until a time (disk_leases.h), and can be read
 * into the cache before the session returns (disk_fetch.c): RETAIN and FETCH of plans.
 *
 * All functions are [step], open and close [main].
 */
#ifndef LLS_STEP_DISK_TIER_H
#define LLS_STEP_DISK_TIER_H

#include <stdbool.h>
#include <stdint.h>

struct lls_disk_tier;
struct lls_disk_rates;
struct lls_instance;
struct lls_key;
struct lls_live;
struct lls_live_session;
struct lls_loop_prompts;

/* Opens the instance's file in the folder, or with `simulated` a disk without contents
 * that takes its time by the instance's clock. What cannot be opened costs a line in the
 * log, and there is no disk tier; none is wanted in a trial. */
void lls_disk_tier_open(struct lls_instance *, const struct lls_loop_prompts *,
                        const struct lls_disk_rates *simulated, bool trial);
void lls_disk_tier_close(struct lls_instance *);

/* Returns true if the request arrives later, by advance. */
bool lls_disk_tier_hold(struct lls_instance *, struct lls_live *);
/* Continues reading; held requests arrive whose blocks the manager has adopted. */
void lls_disk_tier_advance(struct lls_instance *);
/* All held requests arrive now, and reads for sessions end. */
void lls_disk_tier_arrive_all(struct lls_instance *);
/* Runs the adoption that a reload has left, then all held requests arrive: the policies
 * that were replaced do not know them. */
void lls_disk_tier_adopt(struct lls_instance *);
/* Returns true while requests are held, or a session's blocks are read. */
bool lls_disk_tier_is_reading(const struct lls_instance *);
/* Writes the blocks that the step has filled. Called when the engine has computed the
 * batch, before the cache manager, which may then give blocks back, learns of it. */
void lls_disk_tier_keep(struct lls_instance *);
/* Returns how many tokens of these blocks, from the first on, the disk has, and a request
 * that begins with them would find. Does not count as a use of them. */
uint32_t lls_disk_tier_tokens(const struct lls_instance *, const struct lls_key *,
                              uint32_t n_keys);
/* Keeps what the disk has of the session there until a time, in place of what it kept
 * before; until a time that has passed: no longer. Returns how many tokens it has, or
 * -ENOTSUP: there is no disk; -ENOSPC: more than it keeps for all sessions together. */
int lls_disk_tier_retain(struct lls_instance *, struct lls_live_session *,
                         int64_t until_ns);
/* Ends the lease of a session that may be closed. */
void lls_disk_tier_let_go(struct lls_instance *, uint64_t session);
void lls_disk_tier_expire(struct lls_instance *);
/* Begins to read what the disk has of the session beyond the first `cached` tokens, which
 * the cache has. Returns how many of its tokens the cache has, or will have; -ENOTSUP:
 * there is no disk, or the cache manager takes no blocks; -ENOSPC: so much is read ahead
 * already that the device has no room; -EBUSY: as many sessions are read as can be. */
int lls_disk_tier_fetch(struct lls_instance *, struct lls_live_session *,
                        uint32_t cached);
/* Takes over what the status shows. */
void lls_disk_tier_count(struct lls_instance *);

#endif
