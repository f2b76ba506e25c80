/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anthropic's API by translation: a request of /v1/messages is converted to one of
 * /v1/chat/completions before it is read, and the parts of the answer to content blocks.
 *
 *   request   system, messages      --> messages            message_input.c
 *             tools, tool_choice    --> tools, tool_choice   message_tools.c
 *             all other members                              messages.c
 *   answer    reasoning, content, calls --> blocks, events   message_answer.c
 *             errors                                         message_errors.c
 *
 * A block is open while its text is generated; the next block closes it. A whole answer
 * is made of the same parts as a stream, so its blocks are those of the stream.
 */
#ifndef LLS_API_ANTHROPIC_MESSAGES_H
#define LLS_API_ANTHROPIC_MESSAGES_H

#include <jansson.h>

#include "core/api/generation.h"
#include "core/base/sha256.h"

/* ---- the request ------------------------------------------------------------------- */

/* [any] Returns the body as that of a chat, a new reference; or NULL with *error set.
 * is_counted: only the prompt is wanted, so max_tokens may be absent. Parameters without
 * effect are added to `unknown`. */
json_t *lls_messages_as_chat(const json_t *body, bool is_counted,
                             struct lls_unknown_names *unknown,
                             struct lls_api_error *error);

/* [any] Returns the chat's messages, a new reference; or NULL with *error set. */
json_t *lls_messages_input(const json_t *body, struct lls_api_error *error);

/* [any] Puts the tools and the choice among them into the chat. Returns 0, or -1 with
 * *error set. */
int lls_messages_tools(const json_t *body, json_t *chat,
                       struct lls_unknown_names *unknown, struct lls_api_error *error);

/* [any] Sets *ttl to the longest time for which cache_control asks to keep a part of the
 * body, such as "5m"; NULL: it asks for nothing. Which part it is does not matter: every
 * prefix is cached. Returns 0, or -1 with *error set. */
int lls_messages_hint(const json_t *body, const char **ttl, struct lls_api_error *error);

/* Returns true if the object's "type" is `type`. */
bool lls_messages_is(const json_t *object, const char *type);

/* ---- errors ------------------------------------------------------------------------ */

/* [any] Returns the error in Anthropic's shape; NULL if out of memory. */
json_t *lls_messages_error(const struct lls_api_error *error);
/* [any] Returns its HTTP status: 529 where the server has no room. */
unsigned lls_messages_status(const struct lls_api_error *error);

/* ---- thinking ---------------------------------------------------------------------- */

#define LLS_SIGNATURE_BYTES 96

/* Writes the signature of a text whose bytes were added to the sum, and ends the sum. It
 * shows that a text which comes back is one of this server's and unchanged; it is no
 * secret. */
void lls_thinking_sign(struct lls_sha256 *sum, char signature[LLS_SIGNATURE_BYTES]);

enum lls_thinking { LLS_THINKING_OURS, LLS_THINKING_FOREIGN, LLS_THINKING_CHANGED };

/* Compares a text with its signature. */
enum lls_thinking lls_thinking_check(const json_t *text, const json_t *signature);

/* ---- the answer -------------------------------------------------------------------- */

struct lls_message;

/* Returns NULL if out of memory. */
struct lls_message *lls_message_create(void);
/* Frees a struct lls_message; NULL is allowed. */
void lls_message_free(void *message);

/* The answer, whole and in events, each with its "type": see struct lls_dialect. */
json_t *lls_message_whole(const struct lls_generation *generation);
json_t *lls_message_chunk(struct lls_choice *choice);
json_t *lls_message_end(const struct lls_generation *generation);
json_t *lls_message_failure(const struct lls_generation *generation,
                            const struct lls_api_error *error);

/* Returns the value of a JSON text that may be cut off anywhere: a member or an element
 * that is incomplete is left out. Without any the value is {}. NULL if out of memory. */
json_t *lls_partial_json(const char *text, size_t length);

#endif
