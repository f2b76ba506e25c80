/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools for a model whose chat template has no part for them: a system message describes
 * them and shows how they are called, calls that were made become content, and their
 * results messages of the user. llama.cpp does so, too.
 */
#ifndef LLS_TOOLS_TOOL_PROMPT_H
#define LLS_TOOLS_TOOL_PROMPT_H

#include "text/tools/tool_dialect.h"

#include <jansson.h>

/* [any] The messages with what the template does not show of this: a new reference, or
 * NULL without memory. `tools` is OpenAI's array, or NULL. */
json_t *lls_tool_prompt(const struct lls_tool_dialect *dialect, const json_t *messages,
                        const json_t *tools);

/* True if the messages have calls, or results of calls. */
bool lls_tool_prompt_has_calls(const json_t *messages);

#endif
