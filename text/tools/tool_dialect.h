/* SPDX-License-Identifier: Apache-2.0 */
/* How the served model writes tool calls and reasoning, and reads calls that were made:
 * by the configuration, and where that leaves it open by the chat template. */
#ifndef LLS_TOOLS_TOOL_DIALECT_H
#define LLS_TOOLS_TOOL_DIALECT_H

#include "core/base/error.h"
#include "text/tools/tool_format.h"

struct lls_chat_template;

struct lls_tool_dialect {
  const struct lls_tool_format *format;         /* NULL: not known yet */
  const struct lls_reasoning_format *reasoning; /* NULL: none, or not known yet */
  bool keeps_reasoning; /* in the content: reasoning is not looked for */
  bool text_arguments;  /* the template wants arguments as text, not as an object */
  bool hides_tools;     /* the template shows no tools: tool_prompt.h does */
  bool hides_calls;     /* the template shows no calls: likewise */
  bool shows_system;    /* the template shows a system's message */
};

/* From the values of [model] tool_format and reasoning_format: -EINVAL, *key is the wrong
 * one's name. */
int lls_tool_dialect_read(const char *tool_format, const char *reasoning_format,
                          struct lls_tool_dialect *out, const char **key,
                          struct lls_error *err);

/* Fills in what is not known yet. Renders the template a few times, to see how it prints
 * a call's arguments, and whether it shows tools and a system's message. */
void lls_tool_dialect_complete(struct lls_tool_dialect *dialect,
                               const struct lls_chat_template *chat_template);

/* True if a prompt ends where the reasoning has begun. */
bool lls_tool_dialect_opens_reasoning(const struct lls_tool_dialect *dialect,
                                      const char *prompt, size_t length);

#endif
