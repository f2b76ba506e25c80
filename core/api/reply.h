/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a generation's client, streamed or whole. */
#ifndef LLS_API_REPLY_H
#define LLS_API_REPLY_H

#include "core/api/generation.h"

/* Streamed: sends a chunk with the choice's ready text, if there is any. */
void lls_reply_chunk(struct lls_choice *choice);

/* Returns true if the stream reports how much of its prompts is computed. */
bool lls_reply_has_progress(const struct lls_generation *generation);
/* Streamed: reports the progress of the choice's prompt. */
void lls_reply_progress(struct lls_choice *choice);

/* Streamed: sends a comment after a long silence, to keep the connection alive. */
void lls_reply_silence(struct lls_generation *generation);

/* Called when all choices are finished: sends the rest of the stream or the whole
 * answer, and destroys the generation, perhaps later. */
void lls_reply_finish(struct lls_generation *generation);

/* Sends an error in place of the answer, or of the rest of a stream. */
void lls_reply_error(struct lls_generation *generation,
                     const struct lls_api_error *error);

#endif
