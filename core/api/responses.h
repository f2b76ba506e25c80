/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/responses is a chat in other words: its request is turned into one of
 * /v1/chat/completions before anything reads it, and the message that answers that, or
 * its parts, into items. So it has what chats have. response_memory.h has what is kept
 * between two requests.
 *
 *   request   instructions, input items   --> messages            responses.c
 *                                         --> items to be stored  response_input.c
 *   answer    reasoning, content, calls   --> items and events    response_items.c
 *
 * An item is open while its text comes; an item that follows closes it. Events are
 * counted from 0 on in the order in which they are made.
 */
#ifndef LLS_API_RESPONSES_H
#define LLS_API_RESPONSES_H

#include <jansson.h>

#include "core/api/generation.h"

/* The past of a request: what earlier ones left. */
struct lls_response_past {
  const char *why_none; /* a clause: responses are not stored here; NULL: they are */
  json_t *items;        /* before the request's own, the first one first; or NULL */
};

/* The body of a chat that asks for the same: a new reference and the response to come, or
 * NULL and why. Any thread. */
json_t *lls_response_chat(json_t *body, const struct lls_response_past *past,
                          struct lls_response **out, struct lls_unknown_names *unknown,
                          struct lls_api_error *error);
/* An error about the chat, told of the request that was sent. */
void lls_response_rename(struct lls_api_error *error);

/* The input of a body that is sound as JSON text, each item with its id: to be stored.
 * NULL without memory; the caller frees it. */
char *lls_response_input_text(const json_t *input);

/* `echo`: the members of the answer that repeat the request; `input`: to be stored with
 * it, or NULL. Both are taken over. NULL without memory. */
struct lls_response *lls_response_create(json_t *echo, char *input);
/* The input that is stored with it, or NULL: it is not to be stored; also of NULL. */
const char *lls_response_input(const struct lls_response *response);
/* The id of the response that it goes on from, or NULL. */
const char *lls_response_previous(const struct lls_response *response);
void lls_response_free(struct lls_response *response); /* NULL is fine */

/* Whole, as a new reference. Any thread. */
json_t *lls_response_whole(const struct lls_generation *generation);

/* Streamed: arrays of the events that are due, each with its "type"; new references. */
json_t *lls_response_chunk(const struct lls_choice *choice);
json_t *lls_response_end(const struct lls_generation *generation);
json_t *lls_response_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error);

#endif
