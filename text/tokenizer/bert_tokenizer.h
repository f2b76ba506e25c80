/* SPDX-License-Identifier: Apache-2.0 */
/* Builds BERT's tokeniser in the form of tokenizer.json, for models that have only its
 * vocabulary. */
#ifndef LLS_TOKENIZER_BERT_TOKENIZER_H
#define LLS_TOKENIZER_BERT_TOKENIZER_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* Names of the tokens at the beginning and the end of a text, and for an unknown word. */
struct lls_bert_names {
  const char *cls, *sep, *unknown;
};

extern const struct lls_bert_names lls_bert_names; /* [CLS], [SEP], [UNK] */

/* Returns those of BERT's five special tokens that the vocabulary has, as entries of
 * "added_tokens". */
json_t *lls_bert_marks(const json_t *vocab);

/* vocab maps tokens to ids; pieces that continue a word begin with ##. Takes over the
 * reference `added`, which is NULL if its allocation failed. */
int lls_bert_tokenizer(json_t *vocab, json_t *added, const struct lls_bert_names *,
                       bool lower, json_t **out, struct lls_error *err);

#endif
