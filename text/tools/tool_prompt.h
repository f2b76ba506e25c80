/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools for a model whose chat template does not support them: a system message
 * describes the tools and how to call them, earlier calls become content, and their
 * results become user messages. llama.cpp does the same.
 */
#ifndef LLS_TOOLS_TOOL_PROMPT_H
#define LLS_TOOLS_TOOL_PROMPT_H

#include "text/tools/tool_dialect.h"

#include <jansson.h>

/* [any] Returns the messages with everything that the template does not show written as
 * text: a new reference, or NULL if out of memory. `tools` is OpenAI's array, or NULL. */
json_t *lls_tool_prompt(const struct lls_tool_dialect *dialect, const json_t *messages,
                        const json_t *tools);

/* Returns true if the messages contain calls or their results. */
bool lls_tool_prompt_has_calls(const json_t *messages);

#endif
