/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a decision log (core/record/decision_log.h has the format), line by line. */
#ifndef LLS_WORKLOAD_DECISION_FILE_H
#define LLS_WORKLOAD_DECISION_FILE_H

#include <llmserve/types.h>

#include <stdio.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cost/samples.h"

struct lls_decision_file {
  FILE *file;
  const char *path;
  uint64_t line;
  char *text; /* the present line */
  size_t room;
  int64_t planned_ns; /* time of the last plan */
};

struct lls_decision_line {
  char kind;             /* 'H', 'A', 'P' (repeats too), 'E' or 'T' */
  uint64_t number;       /* A, E: the request's number */
  int64_t time_ns;       /* A, P */
  int64_t duration_ns;   /* P */
  struct lls_text items; /* P: the items, kept for repeats; released by the caller */
  /* H: text after the version; A: the hashes; valid until the next line */
  const char *rest;
  struct lls_request asked;   /* A: prompt_tokens, max_new_tokens, class, ..., slo */
  uint32_t generated, reason; /* E */
  int64_t first_token_ns, last_token_ns; /* E: LLS_NEVER if the log has none */
  struct lls_step_sample step;           /* T */
};

int lls_decision_file_open(struct lls_decision_file *, const char *path,
                           struct lls_error *err);
void lls_decision_file_close(struct lls_decision_file *);
/* Returns 1: a line; 0: the end; -EINVAL with "FILE:LINE: error". */
int lls_decision_file_next(struct lls_decision_file *, struct lls_decision_line *,
                           struct lls_error *err);

#endif
