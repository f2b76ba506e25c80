/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of a whole answer: a thought, if the model writes one, and after its end
 * calls of tools, or a form that the client asked for (such as JSON by a schema). This
 * is the one place that says where a form begins.
 *
 * Calls are written so that the parser reads them and their arguments keep to their
 * schema. Where a call is the model's choice and there is no form, any text may come
 * first, and a call is held to its schema from the mark on that begins it.
 */
#ifndef LLS_TOOLS_TOOL_GRAMMAR_H
#define LLS_TOOLS_TOOL_GRAMMAR_H

#include "text/grammar/grammar_tree.h"
#include "text/tools/tool_format.h"

#include <jansson.h>

struct lls_tool_constraint {
  const struct lls_tool_format *format; /* one that lls_tool_format_written returned */
  const struct lls_reasoning_format *reasoning; /* may come before; NULL: none */
  const json_t *tools; /* OpenAI's array, of which one is called, or several in a row;
                          NULL: no calls */
  bool parallel;
  bool in_reasoning; /* the prompt has opened it: it has to be closed */
  bool optional;     /* any text may come before the calls, and there may be none */
};

/* True if calls can be optional: the format's calls begin with one mark that tells them
 * from any other text. */
bool lls_tool_grammar_may_be_optional(const struct lls_tool_format *format);

/*
 * [any] The node of the answers, or LLS_GRAMMAR_NONE with the tree failed. A function's
 * parameters are kept where they can be, or, if it is "strict", refused by name. `form`
 * is a node of the tree that may be written in place of calls; LLS_GRAMMAR_NONE: calls
 * only.
 */
uint32_t lls_tool_grammar(struct lls_grammar_tree *tree,
                          const struct lls_tool_constraint *constraint, uint32_t form);

/* The constraint as JSON, which holds all of it and tells it from others: a new
 * reference, or NULL without memory. And the grammar of such JSON. */
json_t *lls_tool_constraint_json(const struct lls_tool_constraint *constraint);
uint32_t lls_tool_grammar_of_json(struct lls_grammar_tree *tree, const json_t *json,
                                  uint32_t form);

#endif
