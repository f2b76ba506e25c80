/* SPDX-License-Identifier: Apache-2.0 */
/* BERT's tokeniser as tokenizer.json has it, for models which have only its
 * vocabulary. */
#ifndef LLS_TOKENIZER_BERT_TOKENIZER_H
#define LLS_TOKENIZER_BERT_TOKENIZER_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* Names of the tokens that a text begins and ends with, and that an unknown word
 * becomes. */
struct lls_bert_names {
  const char *cls, *sep, *unknown;
};

extern const struct lls_bert_names lls_bert_names; /* [CLS], [SEP], [UNK] */

/* BERT's five marks, those that the vocabulary has, as entries of "added_tokens". */
json_t *lls_bert_marks(const json_t *vocab);

/* vocab: tokens to ids, with ## before what goes on with a word. Takes `added` over,
 * which is NULL where there was no memory for it. */
int lls_bert_tokenizer(json_t *vocab, json_t *added, const struct lls_bert_names *,
                       bool lower, json_t **out, struct lls_error *err);

#endif
