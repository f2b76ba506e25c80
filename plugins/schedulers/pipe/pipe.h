/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler whose decisions a child process makes, and the functions that the child
 * calls during a plan. README has the protocol.
 */
#ifndef LLS_PIPE_H
#define LLS_PIPE_H

#include <jansson.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

#include "child.h"

struct params {
  const char *command;
  int64_t timeout, max_seqs, preempt;
  double watermark;
};

struct pipe {
  struct lls_pol_scheduler base;
  struct params params;
  struct child child;
  struct lls_pol_step step; /* the plan in the making */
  json_t *events;           /* since the last plan */
};

/* The message of a plan: the view, and the events before it. NULL if out of memory. */
json_t *pipe_view(const struct lls_step_view *, json_t *events);

/* Carries out a call of the child, ["name", argument, ...]. Returns its result; NULL with
 * the reason in why (n bytes) if it is no call, or has wrong arguments. */
json_t *pipe_call(struct pipe *, const json_t *call, char *why, size_t n);

#endif
