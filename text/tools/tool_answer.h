/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer taken apart: content, reasoning, and calls of tools. Streamed, it holds what
 * was not sent yet; else all of it. Its owner is one thread at a time.
 */
#ifndef LLS_TOOLS_TOOL_ANSWER_H
#define LLS_TOOLS_TOOL_ANSWER_H

#include "core/base/text.h"

#include <stdint.h>

struct lls_tool_call {
  char *name;
  struct lls_text arguments; /* JSON, as the model wrote it */
  char id[48];               /* "" until its owner gives it one */
};

/* A zeroed struct is an empty answer. */
struct lls_tool_answer {
  struct lls_text content, reasoning;
  struct lls_tool_call *calls; /* (n_calls) */
  uint32_t n_calls, capacity;
  uint32_t n_whole;     /* calls whose arguments are complete JSON */
  uint32_t n_announced; /* calls of which id and name were sent */
  bool failed;          /* no memory: something is missing */
};

/* True if there are calls, and nothing is missing of any. */
bool lls_tool_answer_calls(const struct lls_tool_answer *answer);

/* Adds a call; the name is copied. */
void lls_tool_answer_call(struct lls_tool_answer *answer, const char *name,
                          size_t length);
/* Appends to the arguments of the last call. */
void lls_tool_answer_arguments(struct lls_tool_answer *answer, const char *bytes,
                               size_t n);
/* True if there is something that was not sent. */
bool lls_tool_answer_news(const struct lls_tool_answer *answer);
/* True if there was no memory for a part of it. */
bool lls_tool_answer_lacks(const struct lls_tool_answer *answer);
/* All of it was sent. */
void lls_tool_answer_sent(struct lls_tool_answer *answer);
void lls_tool_answer_free(struct lls_tool_answer *answer);

#endif
