/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/responses by translation: a request is converted to one of /v1/chat/completions
 * before it is read, and the answering message, or its chunks, to items. So responses
 * support what chats support. response_memory.h keeps conversations between requests.
 *
 *   request   instructions, input items   --> messages            responses.c
 *                                         --> items to be stored  response_input.c
 *   answer    reasoning, content, calls   --> items and events    response_items.c
 *
 * An item is open while its text is generated; the next item closes it. Events are
 * numbered from 0 in the order of their creation.
 */
#ifndef LLS_API_RESPONSES_H
#define LLS_API_RESPONSES_H

#include <jansson.h>

#include "core/api/generation.h"

/* The conversation before a request, as earlier requests left it. */
struct lls_response_past {
  const char *why_none; /* a clause with the reason if there is no store, else NULL */
  json_t *items;        /* items before the request's own, oldest first; or NULL */
};

/* [any] Converts the body to that of a chat: returns a new reference and sets *out to
 * the response being built; or NULL with *error set. */
json_t *lls_response_chat(json_t *body, const struct lls_response_past *past,
                          struct lls_response **out, struct lls_unknown_names *unknown,
                          struct lls_api_error *error);
/* Renames the chat parameter of an error to the parameter that the client sent. */
void lls_response_rename(struct lls_api_error *error);

/* Returns the valid `input` of a body as JSON text to be stored, each item with its id;
 * the caller frees it. NULL if out of memory. */
char *lls_response_input_text(const json_t *input);

/* echo: the members of the answer that repeat the request. input: stored with the
 * response, or NULL. Both are taken over. Returns NULL if out of memory. */
struct lls_response *lls_response_create(json_t *echo, char *input);
/* Returns the input to store with the response, or NULL if the response is NULL or is
 * not to be stored. */
const char *lls_response_input(const struct lls_response *response);
/* Returns the id of the response that this one continues, or NULL. */
const char *lls_response_previous(const struct lls_response *response);
void lls_response_free(struct lls_response *response); /* NULL is allowed */

/* [any] Returns the whole answer, a new reference. */
json_t *lls_response_whole(const struct lls_generation *generation);

/* Streamed: each returns an array of the events to send now, each with its "type"; a
 * new reference. */
json_t *lls_response_chunk(const struct lls_choice *choice);
json_t *lls_response_end(const struct lls_generation *generation);
json_t *lls_response_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error);

#endif
