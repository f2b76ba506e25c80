/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch that is worked on, and how far it has come.
 *
 *   VALIDATING --all lines are sound--> IN_PROGRESS --all answered, or its time is
 * over--> |  |                                |            FINALIZING --> completed,
 * expired |  +--lines are wrong--> failed     |
 *     +-----cancelled--> CANCELLING <-----+     CANCELLING --> cancelled
 *
 * What is on the disk (progress.c): a line is answered (its answer is in the first
 * output.bytes or errors.bytes of a file), in hand, or not before `input.number`. Answers
 * beyond these bytes do not count: a crash takes them away, and their lines are in hand
 * or beyond `input.number` in the row that was committed before them. So no line is lost
 * and none is answered twice. Everything is of [store].
 */
#ifndef LLS_BATCH_ACTIVE_H
#define LLS_BATCH_ACTIVE_H

#include <jansson.h>

#include "core/batch/batch_table.h"
#include "core/batch/input_line.h"
#include "core/batch/seen_ids.h"

#define LLS_STORE_TENANT 130

enum lls_active_state {
  LLS_ACTIVE_VALIDATING,
  LLS_ACTIVE_IN_PROGRESS,
  LLS_ACTIVE_FINALIZING,
  LLS_ACTIVE_CANCELLING,
};

/* A line that was handed out, and has no answer on the disk. */
struct lls_in_hand {
  uint64_t number;
  int64_t offset; /* in the input */
  bool out;       /* main has it */
  uint32_t tries; /* how often it was run without an answer that stands */
  int64_t due_ns; /* not handed out again before, on lls_store_now_ns's clock */
};

struct lls_batch_results {
  char id[LLS_FILE_ID_BYTES];
  int fd;
  int64_t bytes;           /* that count */
  struct lls_text pending; /* to be written behind them */
};

struct lls_active {
  int64_t seq;
  char id[LLS_BATCH_ID_BYTES];
  char tenant[LLS_STORE_TENANT];
  char endpoint[LLS_BATCH_ENDPOINT];
  int64_t expires_s; /* Unix time */
  enum lls_active_state state;
  json_t *object;                    /* OpenAI's */
  struct lls_line_reader input;      /* before the next line to hand out */
  struct lls_line_reader checked;    /* while it is VALIDATING: before the next line */
  struct lls_seen_ids *seen;         /* custom_ids of those before; NULL: not begun */
  json_t *wrong;                     /* errors of those before */
  uint64_t total, completed, failed; /* lines */
  struct lls_in_hand *in_hand;       /* (n_in_hand) */
  uint32_t n_in_hand, in_hand_capacity;
  struct lls_batch_results output, errors;
  uint32_t n_pending; /* answers that are not on the disk */
  int64_t pending_ns; /* when the first of them came */
};

/* Makes more batches of the database active, as many as there is room for. */
int lls_active_admit(struct lls_store *store, struct lls_error *err);

/* NULL: none of this id is active. */
struct lls_active *lls_active_find(struct lls_store *store, const char *id);

/* It was cancelled, and its object says so, if it is active. */
void lls_active_cancel(struct lls_store *store, const char *id, json_t *object);

/* Changes status and state; 0 or why the database does not take it. */
int lls_active_enter(struct lls_store *store, struct lls_active *active,
                     enum lls_active_state state, struct lls_error *err);

/* Frees what only validation needs. */
void lls_active_end_validation(struct lls_active *active);

/* True if a line can be handed out; true if every line has been, and answered. */
bool lls_active_has_lines(const struct lls_active *active);
/* The index in in_hand of a line that main does not have and that is due; -1: none. */
int64_t lls_active_due(const struct lls_active *active);
/* False: so many lines are in hand that the next line of the input has to wait. */
bool lls_active_has_room(const struct lls_active *active);
bool lls_active_is_answered(const struct lls_active *active);

/* NULL: no line of this number is in hand. */
struct lls_in_hand *lls_active_line(const struct lls_active *active, uint64_t number);

/* Notes a line; false without memory. Takes one out; false if it is not in hand. */
bool lls_active_hold(struct lls_active *active, const struct lls_raw_line *line);
bool lls_active_release(struct lls_active *active, uint64_t number);

/* No longer active. */
void lls_active_forget(struct lls_store *store, struct lls_active *active);

#endif
