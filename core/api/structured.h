/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured output: the format that a client requests for an answer, and the grammar
 * that enforces it. OpenAI's response_format, vLLM's structured_outputs and guided_*,
 * llama.cpp's grammar and json_schema map to the kinds below; a request has at most
 * one.
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
  LLS_STRUCTURED_GRAMMAR, /* a text of the GBNF or Lark grammar `value` */
  LLS_STRUCTURED_TAG,     /* free text and tagged parts, by the structural tag `value` */
  LLS_STRUCTURED_ANSWER,  /* reasoning, then tool calls or a format of another kind:
                             `value` is an lls_tool_constraint with a member "form" */
};

struct lls_structured {
  enum lls_structured_kind kind;
  bool strict;    /* SCHEMA: keywords that can't be enforced are refused */
  json_t *value;  /* a reference, or NULL */
  char param[40]; /* the parameter that asked for it */
};

struct lls_api_config;
struct lls_grammar;
struct lls_grammar_cache;
struct lls_text;

/* Returns true for every body that requests structured output, and for some others.
 * Such a body is read on a thread, because compiling a grammar takes time. */
bool lls_structured_is_likely(const struct lls_text *body);

/* Sets the format that parameter `param` requests; takes over the reference `value`,
 * also on failure. Returns 0, or -1 if another parameter has set a format already. */
int lls_structured_set(struct lls_structured *structured, enum lls_structured_kind kind,
                       json_t *value, const char *param, struct lls_api_error *error);
void lls_structured_free(struct lls_structured *structured);

/* Replaces the format by LLS_STRUCTURED_ANSWER: the calls that the constraint describes
 * or, with keeps_form, the previous format. `param` becomes the parameter if no format
 * was set. Returns 0, or -1 with *error set. */
struct lls_tool_constraint;
int lls_structured_set_answer(struct lls_structured *structured,
                              const struct lls_tool_constraint *constraint,
                              bool keeps_form, const char *param,
                              struct lls_api_error *error);

/* [any] Compiles the grammar into *out, a reference of the caller; NULL if no format is
 * set. Returns 0, or -1 with *error set. May take seconds, up to the limit for
 * grammars. */
int lls_structured_compile(const struct lls_api_config *config,
                           const struct lls_structured *structured,
                           struct lls_grammar **out, struct lls_api_error *error);

/* [any] Compiles the grammar from a key that lls_grammar_key returned in another
 * process. Returns 0 or a negative errno. */
int lls_structured_from_key(struct lls_grammar_cache *grammars, const char *key, size_t n,
                            struct lls_grammar **out, struct lls_error *err);

#endif
