/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits an answer's text, while it arrives, into reasoning, content, and tool calls
 * with arguments. The result does not depend on the pieces in which the text arrives.
 *
 * Text that begins like a call but is not one becomes content; if a call goes wrong
 * after it was reported, the rest of its text becomes content. Left out are: the marks
 * of the format; white space around calls and reasoning; a call that is cut off by the
 * end of the answer; and, if a grammar constrains the text to calls, everything else,
 * since such a text was cut off before its call has a name, within a mark or a
 * character. Text is held back until its kind is known, but at most
 * LLS_TOOL_HELD_BYTES; beyond that it is content.
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
  const struct lls_reasoning_format *reasoning; /* NULL: reasoning stays in the content */
  const json_t *tools; /* OpenAI's array, which must outlive the parser; NULL: no calls */
  bool in_reasoning;   /* the prompt began the reasoning */
  bool one_call;       /* text after the first call is left out */
  bool only_calls;     /* a grammar constrains the text to calls */
  bool form;           /* a grammar constrains the text to calls or a form: once
                        * content begins, the rest of the text is the form, even if it
                        * contains marks */
};

/* Creates a parser that writes to *answer, which must outlive it. Returns NULL if out
 * of memory. */
struct lls_tool_parser *lls_tool_parser_create(const struct lls_tool_parser_options *,
                                               struct lls_tool_answer *answer);
void lls_tool_parser_destroy(struct lls_tool_parser *parser);

void lls_tool_parser_push(struct lls_tool_parser *parser, const char *bytes, size_t n);
/* Ends the answer: no text is held back any more. `cut`: the answer ended by its length
 * or a stop string; the arguments of an unfinished call then stay as far as they
 * arrived. */
void lls_tool_parser_finish(struct lls_tool_parser *parser, bool cut);

bool lls_tool_parser_in_reasoning(const struct lls_tool_parser *parser);
/* Returns true if one_call is set and the call is complete. */
bool lls_tool_parser_is_over(const struct lls_tool_parser *parser);

/* Returns the number of bytes at the beginning of the text that can be part of a
 * function's name. */
size_t lls_tool_name_length(const char *text, size_t n);

/* Returns the function with that name in an array of tools, or NULL. */
const json_t *lls_tool_find(const json_t *tools, const char *name, size_t length);

#endif
