/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of an instance for an arrival: the one with the least to do, in tokens,
 *
 *   prompt tokens that are not yet computed there
 *   + half of a mean answer for each request there
 *   + tokens of this prompt that are not cached there
 *
 * so that a conversation goes back to the instance that has its beginning, unless more
 * waits there than the beginning would save; if it names its session, than four times
 * that. The third line rests on what main sent to
 * each instance and on the answers that ended there (sent_keys.h), times the part of it
 * that the instance's cache still had when such prompts ran: a manager may share nothing,
 * or forget sooner. A wrong guess costs the time of a prompt, nothing else.
 */
#ifndef LLS_LOOP_PLACING_H
#define LLS_LOOP_PLACING_H

#include <stdint.h>

struct lls_error;
struct lls_live;
struct lls_loop;
struct lls_step_thread;

/* Gives each instance a memory of the prompts sent to it, of as many blocks as the first
 * one's device and host hold: a session that waits on the host must be found, too.
 * Returns 0 or -ENOMEM. */
int lls_placing_init(struct lls_loop *, struct lls_error *err);
/* [main] Chooses an instance; of none that takes arrivals, the first. */
struct lls_step_thread *lls_placing_choose(struct lls_loop *, struct lls_live *);
/* [main] A request has ended: the instance that had it last has its prompt and answer. */
void lls_placing_note(struct lls_loop *, const struct lls_live *);
/* [channel] The same without a look at caches, for a request of `tokens` tokens whose
 * instance is lost. */
struct lls_step_thread *lls_placing_again(struct lls_loop *, uint32_t tokens);

#endif
