/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision log: the requests that a run's scheduler got and the plans it answered
 * with, as lines of text. The daemon writes one with [server] decisions, the simulator
 * with --record; `llmserve-sim --replay` gives the same requests to another scheduler.
 * Times are ns; requests are numbered by arrival from 1.
 *
 *   H 2 scheduler cache predictor SECTION.KEY=VALUE ...
 *       format, policies, and the limits that a replay must share
 *   A number time prompt max_new class priority tenant ttft tbt tpot completion hash ...
 *       an arrival; -1: no such SLO; after each 16 tokens of the prompt a hash of all
 *       tokens so far, so that a replay shares the prefixes that were shared, but no
 *       text can be read
 *   P time duration item item ...
 *       a plan and how long it took to carry out; items by request: r N:TOKENS,
 *       p N:MODE, x N:REASON (run, preempt, reject), other kinds by their number
 *   = after duration
 *       the same plan as the one before, `after` ns later
 *   E number generated reason [first last]
 *       an end, enum lls_finish_reason; the times when the first and last token were
 *       computed are written where the log has no plans (history.h)
 *   T duration drawn chunks tokens pairs decodes cached
 *       only in a history: a step that ran (core/cost/samples.h), with the tokens and
 *       query-key pairs of its chunks, and the cached tokens that its decodes read
 *
 * Empty plans are left out. The log does not record a change of policies while the
 * daemon runs: later plans are the new scheduler's.
 *
 * The step thread only formats, 0.2 us for each request of a step (llmserve-sim with and
 * without --record, 12,066 steps of 49 requests: 0.12 s more); the log's own thread
 * writes. A failed write ends the recording: an error goes to the daemon's log, the file
 * is cut back to its last whole line, and serving continues.
 */
#ifndef LLS_RECORD_DECISION_LOG_H
#define LLS_RECORD_DECISION_LOG_H

#include "core/base/text.h"
#include "core/instance/loop_options.h"

#define LLS_DECISION_HASHED 16 /* tokens for each hash */

struct lls_decision_log;

struct lls_decision_log_options {
  const char *path;          /* an existing file is replaced */
  const struct lls_log *log; /* for errors; NULL: no errors are logged */
  uint32_t max_requests;     /* the loop's: bounds the ids alive at once */
  /* If the writer falls behind: true waits for it; false ends the recording, since
   * decodes must not wait for a disk. */
  bool wait;
};

/* Returns -errno if the file cannot be made (err has the reason). */
int lls_decision_log_create(const struct lls_decision_log_options *,
                            struct lls_decision_log **out, struct lls_error *err);
/* Writes the remaining lines. Returns -errno if some could not be written (err has the
 * reason). NULL is allowed. */
int lls_decision_log_destroy(struct lls_decision_log *, struct lls_error *err);

/* Writes the H line with the loop's policies and limits. To be called first. */
void lls_decision_log_begin(struct lls_decision_log *,
                            const struct lls_loop_policies *policies,
                            const struct lls_engine *engine, uint64_t seed);

/* [step] Returns an observer that records everything. An observer with other duties
 * calls the four functions below itself. */
struct lls_loop_observer lls_decision_log_observer(struct lls_decision_log *);
void lls_decision_log_arrival(struct lls_decision_log *, const struct lls_request *);
void lls_decision_log_plan(struct lls_decision_log *, int64_t now_ns,
                           const struct lls_plan *);
void lls_decision_log_step(struct lls_decision_log *, const struct lls_step_report *);
void lls_decision_log_finish(struct lls_decision_log *, const struct lls_request *);

/* ---- decision_items.c: lines and items of plans ------------------------------------ */

/* Writes the H line. */
void lls_decision_write_header(const struct lls_loop_policies *,
                               const struct lls_engine *, uint32_t max_requests,
                               uint64_t seed, struct lls_text *out);

#define LLS_DECISION_HASH_BEGIN UINT32_C(2166136261)

/* Adds a token to the running FNV-1a hash of the prompt. Returns true after each
 * LLS_DECISION_HASHED tokens, when *hash is to be written. */
bool lls_decision_hash(uint32_t *hash, int32_t token, uint32_t position);
/* Writes an A line without its hashes and its newline. */
void lls_decision_write_arrival(uint64_t number, const struct lls_request *,
                                struct lls_text *out);

struct lls_decision_numbers { /* the log's numbers of live requests */
  uint64_t *by_slot;          /* (slots) */
  uint32_t slots;             /* a power of two: see core/instance/request.h */
  uint64_t last;
  struct lls_plan_item *scratch; /* (max_items) */
  uint32_t max_items;
};

int lls_decision_numbers_init(struct lls_decision_numbers *, uint32_t max_requests);
void lls_decision_numbers_free(struct lls_decision_numbers *);
/* Returns the next number, for a request that arrives. */
uint64_t lls_decision_number_new(struct lls_decision_numbers *, uint64_t id);
uint64_t lls_decision_number(const struct lls_decision_numbers *, uint64_t id);
/* Writes the items as in a P line, each after a space. They are sorted by request, so
 * that two schedulers that only list them in another order write the same line. */
void lls_decision_items(struct lls_decision_numbers *, const struct lls_plan *,
                        struct lls_text *out);

#endif
