/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An active batch, one that the store is processing, and its progress.
 *
 *   VALIDATING  --all lines are valid-------->  IN_PROGRESS
 *   VALIDATING  --a line is invalid---------->  failed
 *   IN_PROGRESS --all answered, or expired--->  FINALIZING
 *   FINALIZING  ----------------------------->  completed, expired
 *   VALIDATING, IN_PROGRESS --cancelled------>  CANCELLING
 *   CANCELLING  ----------------------------->  cancelled
 *
 * On the disk (progress.c) each line is in one of three states: answered (its answer is
 * in the first output.bytes or errors.bytes of a file), in hand, or not handed out yet
 * (its number is `input.number` or more). Answers after these bytes do not count: the
 * next start after a crash cuts them off, and the last committed row has their lines in
 * hand or not handed out. So no line is lost and none is answered twice. All functions
 * run on [store].
 */
#ifndef LLS_BATCH_ACTIVE_H
#define LLS_BATCH_ACTIVE_H

#include <jansson.h>

#include "core/batch/batch_table.h"
#include "core/batch/input_line.h"
#include "core/batch/seen_ids.h"
#include "core/batch/store_internal.h"

#define LLS_STORE_TENANT 130

enum lls_active_state {
  LLS_ACTIVE_VALIDATING,
  LLS_ACTIVE_IN_PROGRESS,
  LLS_ACTIVE_FINALIZING,
  LLS_ACTIVE_CANCELLING,
};

/* A line that was handed out and has no answer on the disk yet. */
struct lls_in_hand {
  uint64_t number;
  int64_t offset; /* offset of the line in the input */
  bool out;       /* main is running it */
  uint32_t tries; /* runs of it that ended without a final answer */
  int64_t due_ns; /* earliest time to hand it out again, on lls_store_now_ns's clock */
};

struct lls_batch_results {
  char id[LLS_FILE_ID_BYTES];
  int fd;
  int64_t bytes;           /* bytes of the file that count */
  struct lls_text pending; /* bytes to append to the file */
};

struct lls_active {
  int64_t seq;
  char id[LLS_BATCH_ID_BYTES];
  char owner[LLS_PROCESS_ID_BYTES]; /* process that last ran it; "": none does */
  bool mine;                        /* for sharing.c: the row names this process */
  char tenant[LLS_STORE_TENANT];
  char endpoint[LLS_BATCH_ENDPOINT];
  int64_t expires_s; /* Unix time */
  enum lls_active_state state;
  json_t *object;                 /* OpenAI's batch object */
  struct lls_line_reader input;   /* stands at the next line to hand out */
  struct lls_line_reader checked; /* while VALIDATING: at the next line to check */
  /* custom_ids of checked lines; NULL: none checked yet */
  struct lls_seen_ids *seen;
  json_t *wrong;                     /* errors of checked lines */
  uint64_t total, completed, failed; /* lines */
  struct lls_in_hand *in_hand;       /* (n_in_hand) */
  uint32_t n_in_hand, in_hand_capacity;
  struct lls_batch_results output, errors;
  uint32_t n_pending; /* answers not written to the disk yet */
  int64_t pending_ns; /* when the first pending answer arrived */
};

/* Makes further batches of the database active, up to LLS_STORE_ACTIVE. */
int lls_active_admit(struct lls_store *store, struct lls_error *err);

/* Returns the active batch of this id, or NULL. */
struct lls_active *lls_active_find(struct lls_store *store, const char *id);

/* Enters CANCELLING if the batch is active; `object` is its cancelled object. */
void lls_active_cancel(struct lls_store *store, const char *id, json_t *object);

/* Changes the batch's status in the database and its state. Returns 0 or a negative
 * errno of the database. */
int lls_active_enter(struct lls_store *store, struct lls_active *active,
                     enum lls_active_state state, struct lls_error *err);

/* Frees the members that only validation needs. */
void lls_active_end_validation(struct lls_active *active);

/* has_lines: true if a line can be handed out. is_answered: true if every line was
 * handed out and answered. */
bool lls_active_has_lines(const struct lls_active *active);
/* Returns the index in in_hand of a line that is due and that main does not have; -1:
 * none. */
int64_t lls_active_due(const struct lls_active *active);
bool lls_active_is_answered(const struct lls_active *active);

/* Returns the line in hand of this number, or NULL. */
struct lls_in_hand *lls_active_line(const struct lls_active *active, uint64_t number);

/* hold adds a line to in_hand; false if out of memory. release removes one; false if it
 * is not in hand. */
bool lls_active_hold(struct lls_active *active, const struct lls_raw_line *line);
bool lls_active_release(struct lls_active *active, uint64_t number);

/* Removes the batch from the active ones and frees it. */
void lls_active_forget(struct lls_store *store, struct lls_active *active);

#endif
