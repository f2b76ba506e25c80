/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer's text taken apart while it comes: reasoning, content, calls of tools with
 * their arguments. It does not matter in which pieces the text comes.
 *
 * Nothing is lost: what begins like a call and is none ends as content, and of a call
 * that goes wrong after it was reported the rest does. But of a call that breaks off with
 * the answer nothing becomes content. Only the marks of the format, and
 * white space around calls and reasoning, are left out; and where a grammar holds the
 * text to calls, all that is none: such a text was cut off before its call has a name,
 * within a mark or a character. What is held back until it is clear what it is has a
 * bound, LLS_TOOL_HELD_BYTES; beyond, it is content.
 *
 * A parser belongs to one thread at a time.
 */
#ifndef LLS_TOOLS_TOOL_PARSER_H
#define LLS_TOOLS_TOOL_PARSER_H

#include "text/tools/tool_answer.h"
#include "text/tools/tool_format.h"

#include <jansson.h>

#define LLS_TOOL_HELD_BYTES ((size_t)1 << 18)

struct lls_tool_parser;

struct lls_tool_parser_options {
  const struct lls_tool_format *format;
  const struct lls_reasoning_format *reasoning; /* NULL: stays in the content */
  const json_t *tools; /* OpenAI's array, which outlives the parser; NULL: no calls */
  bool in_reasoning;   /* the prompt has opened it */
  bool one_call;       /* what follows the first call is left out */
  bool only_calls;     /* a grammar holds the text to calls */
  bool form;           /* a grammar holds the text to calls or a form: content that has
                          begun is the form, to its end, whatever it looks like */
};

/* Writes to *answer, which outlives the parser. NULL without memory. */
struct lls_tool_parser *lls_tool_parser_create(const struct lls_tool_parser_options *,
                                               struct lls_tool_answer *answer);
void lls_tool_parser_destroy(struct lls_tool_parser *parser);

void lls_tool_parser_push(struct lls_tool_parser *parser, const char *bytes, size_t n);
/* The answer is over: nothing is held back any more. `cut`: not by itself, but by its
 * length or a stop string; then a call that has begun stays as far as it came. */
void lls_tool_parser_finish(struct lls_tool_parser *parser, bool cut);

bool lls_tool_parser_in_reasoning(const struct lls_tool_parser *parser);
/* True once the only call that is wanted is complete. */
bool lls_tool_parser_is_over(const struct lls_tool_parser *parser);

/* How many bytes at the beginning of the text can be a function's name. */
size_t lls_tool_name_length(const char *text, size_t n);

/* The function of that name in an array of tools, or NULL. */
const json_t *lls_tool_find(const json_t *tools, const char *name, size_t length);

#endif
