/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/responses is a chat in other words: its request is turned into one of
 * /v1/chat/completions before anything reads it, and the message that answers that, or
 * its parts, into items. So it has what chats have. Nothing is kept between two requests.
 *
 *   request   instructions, input items   --> messages            responses.c
 *   answer    reasoning, content, calls   --> items and events    response_items.c
 *
 * An item is open while its text comes; an item that follows closes it. Events are
 * counted from 0 on in the order in which they are made.
 */
#ifndef LLS_API_RESPONSES_H
#define LLS_API_RESPONSES_H

#include <jansson.h>

#include "core/api/generation.h"

/* The body of a chat that asks for the same: a new reference and the response to come, or
 * NULL and why. Any thread. */
json_t *lls_response_chat(json_t *body, struct lls_response **out,
                          struct lls_api_error *error);
/* An error about the chat, told of the request that was sent. */
void lls_response_rename(struct lls_api_error *error);

/* `echo`: the members of the answer that repeat the request; taken over. NULL without
 * memory. */
struct lls_response *lls_response_create(json_t *echo);
void lls_response_free(struct lls_response *response); /* NULL is fine */

/* Whole, as a new reference. Any thread. */
json_t *lls_response_whole(const struct lls_generation *generation);

/* Streamed: arrays of the events that are due, each with its "type"; new references. */
json_t *lls_response_chunk(const struct lls_choice *choice);
json_t *lls_response_end(const struct lls_generation *generation);
json_t *lls_response_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error);

#endif
