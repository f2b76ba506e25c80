/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of a whole answer: reasoning, if the model writes any; after its end tool
 * calls, or a form that the client requested (such as JSON by a schema). This is the
 * only place that decides where a form begins.
 *
 * Calls are constrained so that the parser can read them and their arguments match
 * their schemas. If calling is optional and there is no form, any text may come first;
 * a call is constrained from its first mark on.
 */
#ifndef LLS_TOOLS_TOOL_GRAMMAR_H
#define LLS_TOOLS_TOOL_GRAMMAR_H

#include "text/grammar/grammar_tree.h"
#include "text/tools/tool_format.h"

#include <jansson.h>

struct lls_tool_constraint {
  const struct lls_tool_format *format;         /* a result of lls_tool_format_written */
  const struct lls_reasoning_format *reasoning; /* allowed before calls; NULL: none */
  const json_t *tools; /* OpenAI's array: one of them is called, or several in a row;
                        * NULL: no calls */
  bool parallel;
  bool in_reasoning; /* the prompt began it: the answer must end it */
  bool optional;     /* any text may precede the calls, and there may be none */
};

/* Returns true if calls can be optional: they begin with one mark that distinguishes
 * them from all other text. */
bool lls_tool_grammar_may_be_optional(const struct lls_tool_format *format);

/*
 * [any] Returns the node of the answers, or LLS_GRAMMAR_NONE with the tree failed. An
 * unsupported keyword in a function's parameters is ignored, or, if the function is
 * "strict", refused by name. `form` is a node of the tree that may be written instead
 * of calls; LLS_GRAMMAR_NONE: calls only.
 */
uint32_t lls_tool_grammar(struct lls_grammar_tree *tree,
                          const struct lls_tool_constraint *constraint, uint32_t form);

/* Returns the constraint as JSON that identifies it: a new reference, or NULL if out of
 * memory. The second function builds the grammar from such JSON. */
json_t *lls_tool_constraint_json(const struct lls_tool_constraint *constraint);
uint32_t lls_tool_grammar_of_json(struct lls_grammar_tree *tree, const json_t *json,
                                  uint32_t form);

#endif
