/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traffic of the last minutes ([server] history), for llmserve-whatif: when requests
 * arrived, their lengths and options, which prefixes they shared, and when their first
 * and last token were computed. No texts or tokens are kept, only a hash after each 16
 * tokens.
 *
 * Memory is bounded by LLS_HISTORY_REQUESTS and LLS_HISTORY_HASHES, 8 MiB together; when
 * these are full, the oldest requests are dropped early. A step pays a hash over each
 * new prompt (1 ns a token) and takes a mutex twice, briefly.
 */
#ifndef LLS_RECORD_HISTORY_H
#define LLS_RECORD_HISTORY_H

#include "core/base/text.h"
#include "core/instance/loop_options.h"

#define LLS_HISTORY_REQUESTS (1u << 14)
/* capacity in hashes: one for each 16 prompt tokens */
#define LLS_HISTORY_HASHES (1u << 20)

struct lls_history;

/* Keeps the last span_ns of a loop with these options and this engine. Returns -ENOMEM
 * (err says so). */
int lls_history_create(int64_t span_ns, const struct lls_loop_options *,
                       const struct lls_engine *, struct lls_history **out,
                       struct lls_error *err);
void lls_history_destroy(struct lls_history *); /* NULL is fine */

/* Returns an observer for the loop's options, which passes all calls on to `next` (may
 * be zeroed). */
struct lls_loop_observer lls_history_observer(struct lls_history *,
                                              struct lls_loop_observer next);

/* [any] Appends the history as a decision log without plans (decision_log.h). The first
 * line names the policies of the start. */
void lls_history_write(struct lls_history *, struct lls_text *out);

#endif
