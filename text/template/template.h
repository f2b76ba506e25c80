/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat templates: they turn a list of messages into the text that a model expects.
 *
 * A template is a Jinja program that comes with the model. This is an interpreter for
 * the part of Jinja that published chat templates use: most of Jinja, except features
 * that need several templates.
 *
 *   lexer.c       source -> words
 *   statement.c, expression.c, constant.c, cursor.c
 *                 words -> tree (grammar.h, tree.h)
 *   execute.c, for_loop.c, macro.c, scope.c, evaluate.c, operators.c, member.c
 *                 tree -> text
 *   value.h       values, with Python's semantics
 *   function.h    callables: *_filters.c, *_methods.c, tests.c, globals.c
 *   budget.h      limits of a rendering
 *
 * The output equals that of Jinja as Transformers configures it: trim_blocks,
 * lstrip_blocks, loop controls, {% generation %}, tojson by json.dumps,
 * raise_exception, strftime_now; tools and documents are none if they are not given. An
 * unsupported construct fails when it is executed, with its name and place. Templates
 * come from untrusted sources, so nesting, work, memory and output are bounded.
 *
 * A compiled template is immutable; any number of threads may render it at once.
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
 * Reads the template in `file`; or, if that is NULL or empty, the template of the model
 * folder: chat_template.jinja, else "chat_template" of tokenizer_config.json (in a
 * list, the one named "default") or of chat_template.json, else ChatML. Another
 * template named "tool_use", in that list or in additional_chat_templates, is used for
 * messages with tools. The special tokens are those of tokenizer_config.json.
 *
 * A template that cannot be used is not a failure: see lls_chat_template_problem. Fails
 * with -ENOMEM, or if a file that exists, or that was named, cannot be read.
 */
int lls_chat_template_load(const char *model_folder, const char *file,
                           struct lls_chat_template **out, struct lls_error *err);
/* Like lls_chat_template_load, for a model in a GGUF file, whose metadata replaces
 * tokenizer_config.json. */
int lls_chat_template_load_gguf(const struct lls_gguf_metadata *, const char *file,
                                struct lls_chat_template **out, struct lls_error *err);

/* Compiles a source. bos and eos are the values of bos_token and eos_token, or NULL. */
int lls_chat_template_compile(const char *source, const char *bos, const char *eos,
                              struct lls_chat_template **out, struct lls_error *err);
void lls_chat_template_free(struct lls_chat_template *chat_template);

/* Returns why every rendering fails with -ENOTSUP (file, place and construct); or
 * NULL. */
const char *lls_chat_template_problem(const struct lls_chat_template *chat_template);
/* Returns the source of the template for messages with tools, or without. */
const char *lls_chat_template_source(const struct lls_chat_template *chat_template,
                                     bool tools);
/* Returns the first construct that fails when it is executed, with file and place; or
 * NULL. */
const char *lls_chat_template_warning(const struct lls_chat_template *chat_template);

/*
 * Renders messages, an array of {"role": ..., "content": ...}, to a text that is to be
 * encoded without adding special tokens. add_generation_prompt: the text ends where the
 * answer begins. variables: an object of further variables of the template, or NULL.
 * unix_time: the template's current time. The caller frees *text, which is terminated.
 * Returns 0; -EINVAL if the template rejects the messages, with its sentence in err;
 * -ENOTSUP if it executes an unsupported construct.
 */
int lls_chat_template_render(const struct lls_chat_template *chat_template,
                             const json_t *messages, const json_t *variables,
                             bool add_generation_prompt, int64_t unix_time, char **text,
                             size_t *length, struct lls_error *err);

#endif
