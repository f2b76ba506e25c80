/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON shapes of answers: completions and chats, whole and in chunks. */
#ifndef LLS_API_WIRE_H
#define LLS_API_WIRE_H

#include "core/api/generation.h"
#include "core/base/json_memory.h"

/*
 * All return a new reference, or NULL if out of memory. Functions of a choice report
 * its ready text and its unreported tokens, and don't change the choice.
 */
json_t *lls_wire_chunk(const struct lls_choice *choice);
json_t *lls_wire_role_chunk(const struct lls_choice *choice);
json_t *lls_wire_usage_chunk(const struct lls_generation *generation);
json_t *lls_wire_whole(const struct lls_generation *generation);

/* Returns the whole answer to a request for vectors as JSON text, which the caller
 * frees. */
char *lls_wire_vectors(const struct lls_generation *generation);

/* Parts of answers: a chat's whole message, the part of it not sent yet, and the
 * members that all answers have. */
json_t *lls_wire_message(const struct lls_choice *choice);
json_t *lls_wire_delta(const struct lls_choice *choice);
json_t *lls_wire_usage(const struct lls_generation *generation);
json_t *lls_wire_service_tier(const struct lls_generation *generation);

/* "logprobs" of the unreported tokens: null where the client wants none. */
json_t *lls_wire_logprobs(const struct lls_choice *choice);
/* "prompt_logprobs": vLLM's list of one object a token, by id; null for the first. */
json_t *lls_wire_prompt_logprobs(const struct lls_choice *choice);
/* Returns how many characters the unreported tokens have in logprobs' text_offset. */
size_t lls_wire_logprobs_characters(const struct lls_choice *choice);

#endif
