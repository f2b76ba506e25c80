/* SPDX-License-Identifier: Apache-2.0 */
/* How the served model writes tool calls and reasoning, and in which form it reads
 * earlier calls: from the configuration, or, where that leaves it open, from the chat
 * template. */
#ifndef LLS_TOOLS_TOOL_DIALECT_H
#define LLS_TOOLS_TOOL_DIALECT_H

#include "core/base/error.h"
#include "text/tools/tool_format.h"

struct lls_chat_template;

struct lls_tool_dialect {
  const struct lls_tool_format *format;         /* NULL: not determined yet */
  const struct lls_reasoning_format *reasoning; /* NULL: none, or not determined yet */
  bool keeps_reasoning; /* reasoning stays in the content and is not parsed */
  bool text_arguments;  /* the template expects arguments as text instead of an object */
  bool hides_tools;     /* the template does not show tools: tool_prompt.h does */
  bool hides_calls;     /* the template does not show calls: tool_prompt.h does */
  bool shows_system;    /* the template shows system messages */
};

/* Reads the values of [model] tool_format and reasoning_format. Returns 0; or -EINVAL,
 * with *key the name of the wrong key. */
int lls_tool_dialect_read(const char *tool_format, const char *reasoning_format,
                          struct lls_tool_dialect *out, const char **key,
                          struct lls_error *err);

/* Determines the open members from the template. Renders it a few times, to see how it
 * prints a call's arguments, and whether it shows tools and system messages. */
void lls_tool_dialect_complete(struct lls_tool_dialect *dialect,
                               const struct lls_chat_template *chat_template);

/* Returns true if reasoning has begun at the end of the prompt. */
bool lls_tool_dialect_opens_reasoning(const struct lls_tool_dialect *dialect,
                                      const char *prompt, size_t length);

#endif
