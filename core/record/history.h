/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traffic of the last minutes ([server] history), for llmserve-whatif: when requests
 * came, how long they were, what was asked of them, which prefixes they shared, and when
 * their first and last token were computed. Neither texts nor tokens, of which hashes
 * alone are kept, one for each 16 tokens.
 *
 * Bounded whatever comes: LLS_HISTORY_REQUESTS and LLS_HISTORY_HASHES, 8 MiB together;
 * where these are full the oldest requests go first, before their time. What a step pays
 * is a hash over each new prompt (1 ns a token) and two short turns of a mutex.
 */
#ifndef LLS_RECORD_HISTORY_H
#define LLS_RECORD_HISTORY_H

#include "core/base/text.h"
#include "core/instance/loop_options.h"

#define LLS_HISTORY_REQUESTS (1u << 14)
#define LLS_HISTORY_HASHES   (1u << 20) /* of 16 tokens each */

struct lls_history;

/* Keeps the last span_ns of a loop with these options, on this engine and those like it.
 * -ENOMEM with a sentence. */
int lls_history_create(int64_t span_ns, const struct lls_loop_options *,
                       const struct lls_engine *, struct lls_history **out,
                       struct lls_error *err);
void lls_history_destroy(struct lls_history *); /* NULL is fine */

/* An observer for the options of the loop, who passes all he is told on to `next`, which
 * may be zeroed. */
struct lls_loop_observer lls_history_observer(struct lls_history *,
                                              struct lls_loop_observer next);

/* Appends what is kept as a decision log without plans (decision_log.h), whose first line
 * names the policies that were there at the start. [any thread] */
void lls_history_write(struct lls_history *, struct lls_text *out);

#endif
