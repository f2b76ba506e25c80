/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a generation's client, streamed or whole. */
#ifndef LLS_API_REPLY_H
#define LLS_API_REPLY_H

#include "core/api/generation.h"

/* Streamed: a chunk with what is ready of this choice, if there is anything to say. */
void lls_reply_chunk(struct lls_choice *choice);

/* Streamed: nothing was sent for long; a comment says that the request lives. */
void lls_reply_silence(struct lls_generation *generation);

/* All choices are finished: sends the rest of the stream, or the whole answer, and
 * destroys the generation, perhaps later. */
void lls_reply_finish(struct lls_generation *generation);

/* An error instead of the answer, or of the rest of it. */
void lls_reply_error(struct lls_generation *generation,
                     const struct lls_api_error *error);

#endif
