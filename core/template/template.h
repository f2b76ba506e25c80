/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat templates: the text that a model expects for a list of messages.
 *
 * A template is a Jinja program that comes with the model. Here is an interpreter of the
 * part of Jinja that published chat templates use:
 *
 *   source -> tokens -> tree -> text
 *             lexer.c   parser.c, expression.c   render.c, evaluate.c, operators.c,
 *                                                filters.c, functions.c, value.c
 *
 * Values are JSON (jansson), with NULL for Jinja's undefined. What the interpreter does
 * not know is refused when the template is compiled, by name and position. A template is
 * a program of a stranger, so its nesting, its work and its output are bounded.
 *
 * A compiled template never changes; any number of threads may render it at once.
 */
#ifndef LLS_TEMPLATE_TEMPLATE_H
#define LLS_TEMPLATE_TEMPLATE_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_chat_template;

/*
 * Reads the template of a model folder: chat_template.jinja, or "chat_template" of
 * tokenizer_config.json (in a list of several, the one named "default"), or, for a model
 * without one, ChatML. bos_token and eos_token are those of tokenizer_config.json.
 */
int lls_chat_template_load(const char *model_folder, struct lls_chat_template **out,
                           struct lls_error *err);

/* Compiles a source; bos and eos are what bos_token and eos_token stand for, or NULL. */
int lls_chat_template_compile(const char *source, const char *bos, const char *eos,
                              struct lls_chat_template **out, struct lls_error *err);
void lls_chat_template_free(struct lls_chat_template *chat_template);

/*
 * Renders messages, an array of {"role": ..., "content": ...}, ready to be encoded
 * without special tokens. add_generation_prompt lets the text end where the answer is to
 * begin. variables (NULL: none) is an object of what else the template shall know by
 * name. unix_time is what the template takes for now. The caller frees *text, which is
 * terminated. -EINVAL where the template rejects the messages: err says what it said.
 */
int lls_chat_template_render(const struct lls_chat_template *chat_template,
                             const json_t *messages, const json_t *variables,
                             bool add_generation_prompt, int64_t unix_time, char **text,
                             size_t *length, struct lls_error *err);

#endif
