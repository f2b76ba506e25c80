/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision log: what a run's scheduler was asked and what it answered, as lines of
 * text; of the daemon ([server] decisions) as of the simulator (--record). `llmserve-sim
 * --replay` asks another scheduler the same. Times are ns, requests are numbered by
 * arrival from 1.
 *
 *   H 2 scheduler cache predictor SECTION.KEY=VALUE ...
 *       format, policies, and the limits that a replay needs to be the same
 *   A number time prompt max_new class priority tenant ttft tbt tpot completion hash ...
 *       it arrived; -1: no such SLO; a hash of the prompt up to the end of each 16
 * tokens, so that a replay shares the prefixes that were shared, but no text can be read
 *   P time duration item item ...
 *       a plan and how long it took to carry out; items by request: r N:TOKENS,
 *       p N:MODE, x N:REASON (run, preempt, reject), other kinds by their number
 *   = after duration
 *       the plan before once more, so long after it
 *   E number generated reason [first last]
 *       it ended, enum lls_finish_reason; when its first and last token were computed,
 *       where no plans tell (history.h)
 *   T duration drawn chunks tokens pairs decodes cached
 *       in a history: a step that was run (core/cost/samples.h); tokens of its chunks,
 *       pairs of them and tokens that they see, tokens that its decodes read
 *
 * Plans that do nothing are left out. A change of policies while the daemon runs is not
 * in the log: from there on plans are another scheduler's.
 *
 * The step thread only formats, 0.2 us for each request of a step (llmserve-sim with and
 * without --record, 12,066 steps of 49 requests: 0.12 s more); a thread of the log
 * writes. What can't be written ends the recording with a sentence in the daemon's log,
 * the file cut back to its last whole line, and nothing else: serving goes on.
 */
#ifndef LLS_RECORD_DECISION_LOG_H
#define LLS_RECORD_DECISION_LOG_H

#include "core/base/text.h"
#include "core/instance/loop_options.h"

#define LLS_DECISION_HASHED 16 /* tokens to a hash */

struct lls_decision_log;

struct lls_decision_log_options {
  const char *path;          /* replaced */
  const struct lls_log *log; /* for the sentence; NULL: it is not logged */
  uint32_t max_requests;     /* of the loop: how ids become numbers */
  /* A writer that can't follow is waited for; else it ends the recording, since decodes
   * must not wait for a disk. */
  bool wait;
};

/* -errno with a sentence if the file can't be made. */
int lls_decision_log_create(const struct lls_decision_log_options *,
                            struct lls_decision_log **out, struct lls_error *err);
/* Writes what is left. -errno with a sentence if not all could be written. NULL is
 * fine. */
int lls_decision_log_destroy(struct lls_decision_log *, struct lls_error *err);

/* The first line; policies and limits of the loop. Before anything else. */
void lls_decision_log_begin(struct lls_decision_log *,
                            const struct lls_loop_policies *policies,
                            const struct lls_engine *engine, uint64_t seed);

/* All of it as an observer; or its calls one by one, for one that watches more. [step] */
struct lls_loop_observer lls_decision_log_observer(struct lls_decision_log *);
void lls_decision_log_arrival(struct lls_decision_log *, const struct lls_request *);
void lls_decision_log_plan(struct lls_decision_log *, int64_t now_ns,
                           const struct lls_plan *);
void lls_decision_log_step(struct lls_decision_log *, const struct lls_step_report *);
void lls_decision_log_finish(struct lls_decision_log *, const struct lls_request *);

/* ---- decision_items.c: lines and items of plans ------------------------------------ */

/* The H line. */
void lls_decision_write_header(const struct lls_loop_policies *,
                               const struct lls_engine *, uint32_t max_requests,
                               uint64_t seed, struct lls_text *out);

#define LLS_DECISION_HASH_BEGIN UINT32_C(2166136261)

/* FNV-1a over the token ids, so that each hash is of everything up to there; true where
 * one is due, behind each LLS_DECISION_HASHED tokens. */
bool lls_decision_hash(uint32_t *hash, int32_t token, uint32_t position);
/* An A line without its hashes and its end. */
void lls_decision_write_arrival(uint64_t number, const struct lls_request *,
                                struct lls_text *out);

struct lls_decision_numbers { /* of the requests that are alive */
  uint64_t *by_slot;          /* (slots) */
  uint32_t slots;             /* a power of two: see core/instance/request.h */
  uint64_t last;
  struct lls_plan_item *scratch; /* (max_items) */
  uint32_t max_items;
};

int lls_decision_numbers_init(struct lls_decision_numbers *, uint32_t max_requests);
void lls_decision_numbers_free(struct lls_decision_numbers *);
/* The next number, for a request that arrives. */
uint64_t lls_decision_number_new(struct lls_decision_numbers *, uint64_t id);
uint64_t lls_decision_number(const struct lls_decision_numbers *, uint64_t id);
/* As a P line has them, each after a space, by request: so that two schedulers that only
 * list them in another order are alike. */
void lls_decision_items(struct lls_decision_numbers *, const struct lls_plan *,
                        struct lls_text *out);

#endif
