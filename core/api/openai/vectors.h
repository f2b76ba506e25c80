/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of /v1/embeddings, /v1/rerank, /v1/score and /classify. */
#ifndef LLS_API_OPENAI_VECTORS_H
#define LLS_API_OPENAI_VECTORS_H

#include "core/api/generation.h"

/* Each returns the whole answer as JSON text, which the caller frees; NULL if out of
 * memory. */
char *lls_vectors_list(const struct lls_generation *generation);
char *lls_vectors_pooling(const struct lls_generation *generation);
char *lls_vectors_ranking(const struct lls_generation *generation);
char *lls_vectors_texts(const struct lls_generation *generation); /* TEI's */
char *lls_vectors_scores(const struct lls_generation *generation);

char *lls_classes_list(const struct lls_generation *generation);

/* Returns the members that all answers have, a new reference; NULL if out of memory. */
json_t *lls_vectors_envelope(const struct lls_generation *generation);

/* Appends the vectors, each an array of numbers, with commas between them; sets
 * text->failed if one is missing. */
void lls_vectors_put(struct lls_text *text, const struct lls_generation *generation);

#endif
