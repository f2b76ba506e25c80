/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured output: what an answer has to keep to, as clients ask for it, and the
 * grammar for that. OpenAI's response_format, vLLM's structured_outputs and guided_*,
 * llama.cpp's grammar and json_schema come to the same few kinds; a request has one of
 * them.
 */
#ifndef LLS_API_STRUCTURED_H
#define LLS_API_STRUCTURED_H

#include "core/api/api_error.h"

#include <jansson.h>
#include <stdbool.h>

enum lls_structured_kind {
  LLS_STRUCTURED_NONE,
  LLS_STRUCTURED_OBJECT,  /* any JSON object */
  LLS_STRUCTURED_SCHEMA,  /* JSON by the schema `value` */
  LLS_STRUCTURED_REGEX,   /* a whole match of the string `value` */
  LLS_STRUCTURED_CHOICE,  /* one of the strings of `value` */
  LLS_STRUCTURED_GRAMMAR, /* a text of the GBNF, or Lark's grammar, `value` */
  LLS_STRUCTURED_TAG,     /* free text and tagged parts, by the structural tag `value` */
  LLS_STRUCTURED_ANSWER,  /* a thought, then calls of tools or another kind as a form: the
                             lls_tool_constraint in `value`, with a member "form" */
};

struct lls_structured {
  enum lls_structured_kind kind;
  bool strict;    /* SCHEMA: what cannot be kept is refused */
  json_t *value;  /* a reference, or NULL */
  char param[40]; /* the parameter that asked for it */
};

struct lls_api_config;
struct lls_grammar;
struct lls_grammar_cache;
struct lls_text;

/* True for every body that asks for structured output, and for some others: compiling is
 * worth a thread. */
bool lls_structured_is_likely(const struct lls_text *body);

/* Sets what a parameter asks for; value: the reference is taken over, also on failure.
 * 0, or -1: another parameter asked for something already. */
int lls_structured_set(struct lls_structured *structured, enum lls_structured_kind kind,
                       json_t *value, const char *param, struct lls_api_error *error);
void lls_structured_free(struct lls_structured *structured);

/* Replaces it by the answer that the constraint describes: calls, or with keeps_form also
 * what it was before; `param` is the parameter where it was nothing. 0, or -1 and why. */
struct lls_tool_constraint;
int lls_structured_set_answer(struct lls_structured *structured,
                              const struct lls_tool_constraint *constraint,
                              bool keeps_form, const char *param,
                              struct lls_api_error *error);

/* [any] The grammar, whose reference is the caller's; NULL where nothing was asked for.
 * 0, or -1 and why. It may take the seconds that grammars are bounded by. */
int lls_structured_compile(const struct lls_api_config *config,
                           const struct lls_structured *structured,
                           struct lls_grammar **out, struct lls_api_error *error);

/* [any] The same from what lls_grammar_key gave in another process. A negative errno. */
int lls_structured_from_key(struct lls_grammar_cache *grammars, const char *key, size_t n,
                            struct lls_grammar **out, struct lls_error *err);

#endif
