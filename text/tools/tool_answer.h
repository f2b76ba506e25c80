/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer split into content, reasoning and tool calls. While streaming it holds the
 * parts not sent yet, else the whole answer. It is owned by one thread at a time.
 */
#ifndef LLS_TOOLS_TOOL_ANSWER_H
#define LLS_TOOLS_TOOL_ANSWER_H

#include "core/base/text.h"

#include <stdint.h>

struct lls_tool_call {
  char *name;
  struct lls_text arguments; /* JSON, as the model wrote it */
  char id[48];               /* set by the owner; "" until then */
};

/* A zeroed struct is an empty answer. */
struct lls_tool_answer {
  struct lls_text content, reasoning;
  struct lls_tool_call *calls; /* (n_calls) */
  uint32_t n_calls, capacity;
  uint32_t n_whole;     /* calls with complete JSON arguments */
  uint32_t n_announced; /* calls whose id and name were sent */
  bool failed;          /* memory ran out, and parts are missing */
};

/* Returns true if there are calls, and all of them are complete. */
bool lls_tool_answer_calls(const struct lls_tool_answer *answer);

/* Adds a call; the name is copied. */
void lls_tool_answer_call(struct lls_tool_answer *answer, const char *name,
                          size_t length);
/* Appends to the arguments of the last call. */
void lls_tool_answer_arguments(struct lls_tool_answer *answer, const char *bytes,
                               size_t n);
/* Returns true if there are parts not sent yet. */
bool lls_tool_answer_news(const struct lls_tool_answer *answer);
/* Returns true if memory ran out for a part of the answer. */
bool lls_tool_answer_lacks(const struct lls_tool_answer *answer);
/* Marks the whole answer as sent. */
void lls_tool_answer_sent(struct lls_tool_answer *answer);
void lls_tool_answer_free(struct lls_tool_answer *answer);

#endif
