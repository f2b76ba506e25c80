/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that answers of completions and of chats share, whole and in chunks. */
#ifndef LLS_API_OPENAI_WIRE_H
#define LLS_API_OPENAI_WIRE_H

#include "core/api/generation.h"
#include "core/base/json_memory.h"

/*
 * All that return JSON return a new reference, or NULL if out of memory. Functions of a
 * choice report its ready text and its unreported tokens, and don't change the choice.
 */

/* Returns an answer or a chunk with the members that both kinds have, except for the
 * usage. object: the value of "object". Takes over the choices. */
json_t *lls_wire_envelope(const struct lls_generation *generation, const char *object,
                          json_t *choices);

/* Returns llama.cpp's "timings" of a choice: tokens and milliseconds of the prompt,
 * without those found in the cache, and of the answer so far. */
json_t *lls_wire_timings(const struct lls_choice *choice);
/* Puts the timings into an answer or a chunk if the client wants them. */
void lls_wire_put_timings(json_t **object, const struct lls_choice *choice);

/* Puts vLLM's "metrics" of a request that has ended, those of its first choice, into an
 * answer or the last chunk, if [server] request_metrics asks for them. */
void lls_wire_put_metrics(json_t **object, const struct lls_generation *generation);

/* Returns llama.cpp's "prompt_progress" of a choice: the tokens of the prompt, those
 * found in the cache, those found or computed so far, and the milliseconds since the
 * request came. */
json_t *lls_wire_progress(const struct lls_choice *choice);

/* Returns the usage of the whole request. */
json_t *lls_wire_usage(const struct lls_generation *generation);
/* Puts a chunk's usage into it, if the client wants any. It counts the choice's tokens so
 * far, `n_tokens`, or is null: the last chunk has the usage of the whole request. */
void lls_wire_put_usage(json_t **chunk, const struct lls_choice *choice,
                        uint32_t n_tokens);

/* Puts the logprobs, which are taken over, and what ended the choice. */
void lls_wire_put_end(json_t **object, const struct lls_choice *choice, json_t *logprobs);

/* Returns true if an optional member is present. If the request did not ask for it, whole
 * answers have it as null, like vLLM's, and chunks omit it. */
bool lls_wire_reports(const struct lls_generation *generation, bool wanted);
/* Puts the ids of the unreported tokens. */
void lls_wire_put_token_ids(json_t **object, const struct lls_choice *choice);
/* Returns the ids of the prompt's tokens; null if the client wants none. */
json_t *lls_wire_prompt_ids(const struct lls_choice *choice);

/* "logprobs" of the unreported tokens: null where the client wants none. */
json_t *lls_wire_completion_logprobs(const struct lls_choice *choice);
json_t *lls_wire_chat_logprobs(const struct lls_choice *choice);
/* A sampled token as the latter has it: with its alternatives as "top_logprobs". */
json_t *lls_wire_chat_token(const struct lls_choice *choice,
                            const struct lls_sampled *sampled);
/* "prompt_logprobs": vLLM's list of one object a token, by id; null for the first. */
json_t *lls_wire_prompt_logprobs(const struct lls_choice *choice);
/* Returns how many characters the unreported tokens have in logprobs' text_offset. */
size_t lls_wire_logprobs_characters(const struct lls_choice *choice);

/* Returns the events of an error in a stream; see struct lls_dialect. */
json_t *lls_wire_failure(const struct lls_generation *generation,
                         const struct lls_api_error *error);

#endif
