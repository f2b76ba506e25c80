/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat templates: the text that a model expects for a list of messages.
 *
 * A template is a Jinja program that comes with the model. Here is an interpreter of the
 * part of Jinja that published chat templates use, which is most of it but for what needs
 * several templates:
 *
 *   lexer.c       words: source -> tokens
 *   statement.c, expression.c, constant.c, cursor.c
 *                 grammar: tokens -> tree (tree.h)
 *   execute.c, for_loop.c, macro.c, scope.c, evaluate.c, operators.c, member.c
 *                 meaning: tree -> text
 *   value.h       values, which are Python's
 *   function.h    what can be called: *_filters.c, *_methods.c, tests.c, globals.c
 *   budget.h      what a rendering may cost
 *
 * It renders what Jinja does as Transformers sets it up: trim_blocks, lstrip_blocks, loop
 * controls, {% generation %}, tojson by json.dumps, raise_exception, strftime_now; tools
 * and documents are none where they are not given. What it does not know fails when it is
 * reached, with its name and place. A template is a program of a stranger, so its
 * nesting, its work, its memory and its output are bounded.
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

struct lls_gguf_metadata; /* text/tokenizer/gguf_metadata.h */
struct lls_chat_template;

/*
 * Reads the template in file, or, where that is NULL or empty, the one of the model
 * folder: chat_template.jinja, else "chat_template" of tokenizer_config.json (in a list
 * of several, the one named "default") or of chat_template.json, else ChatML. A second
 * one named "tool_use", in that list or in additional_chat_templates, is for messages
 * with tools. Special tokens are those of tokenizer_config.json.
 *
 * A template that cannot be used is no failure: see lls_chat_template_problem. Fails with
 * -ENOMEM, or where a file that is there, or was named, cannot be read.
 */
int lls_chat_template_load(const char *model_folder, const char *file,
                           struct lls_chat_template **out, struct lls_error *err);
/* As that, of a model in a GGUF file: its metadata stands for tokenizer_config.json. */
int lls_chat_template_load_gguf(const struct lls_gguf_metadata *, const char *file,
                                struct lls_chat_template **out, struct lls_error *err);

/* Compiles a source; bos and eos are what bos_token and eos_token stand for, or NULL. */
int lls_chat_template_compile(const char *source, const char *bos, const char *eos,
                              struct lls_chat_template **out, struct lls_error *err);
void lls_chat_template_free(struct lls_chat_template *chat_template);

/* Why every rendering fails with -ENOTSUP: the file, the place and the construct; or
 * NULL. */
const char *lls_chat_template_problem(const struct lls_chat_template *chat_template);
/* The text that it was compiled from: for messages with tools, or without. */
const char *lls_chat_template_source(const struct lls_chat_template *chat_template,
                                     bool tools);
/* The first construct that fails where it is reached, with file and place; or NULL. */
const char *lls_chat_template_warning(const struct lls_chat_template *chat_template);

/*
 * Renders messages, an array of {"role": ..., "content": ...}, ready to be encoded
 * without special tokens. add_generation_prompt lets the text end where the answer is to
 * begin. variables (NULL: none) is an object of what else the template shall know by
 * name. unix_time is what the template takes for now. The caller frees *text, which is
 * terminated. -EINVAL where the template rejects the messages: err says what it said;
 * -ENOTSUP where it uses what is not known here.
 */
int lls_chat_template_render(const struct lls_chat_template *chat_template,
                             const json_t *messages, const json_t *variables,
                             bool add_generation_prompt, int64_t unix_time, char **text,
                             size_t *length, struct lls_error *err);

#endif
