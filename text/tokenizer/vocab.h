/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary: token strings and their ids, both ways.
 *
 * Ids may have holes (a model's embedding is often padded), but each id has one string,
 * and each string one id. Strings are found in an open-addressing table, at most half
 * full: for 128,000 tokens it has 1 MB, and a search takes about one cache miss.
 */
#ifndef LLS_TOKENIZER_VOCAB_H
#define LLS_TOKENIZER_VOCAB_H

#include "core/base/error.h"
#include "text/base/buffer.h"

#include <jansson.h>

#define LLS_VOCAB_MAX (1 << 22) /* a larger id is a damaged file */

struct lls_slice {
  uint32_t offset;
  uint32_t length;
};

struct lls_token {
  struct lls_slice string;  /* in text */
  struct lls_slice decoded; /* the decoder's input: usually the string */
  bool defined;
  bool in_model; /* known to the model, not only as an added token */
  bool special;
};

struct lls_vocab {
  struct lls_bytes text;    /* all strings, each terminated */
  struct lls_token *tokens; /* (size) by id */
  size_t size;              /* largest id + 1 */
  size_t capacity;
  uint32_t *slots; /* (slot_mask + 1) id + 1, or 0 where empty */
  size_t slot_mask;
  size_t used;
};

/* Reads {"string": id, ...} as tokens of the model. */
int lls_vocab_load(struct lls_vocab *vocab, const json_t *object, struct lls_error *err);
void lls_vocab_free(struct lls_vocab *vocab);

/* Adds a token; does nothing if the same token exists already. */
int lls_vocab_add(struct lls_vocab *vocab, int32_t id, const char *string, size_t length,
                  struct lls_error *err);

/* Sets a decoder input that differs from the token's string. */
void lls_vocab_set_decoded(struct lls_vocab *vocab, int32_t id, const char *text,
                           size_t length);

/* Return the id of a string, or -1; the second function finds only tokens of the
 * model. */
int32_t lls_vocab_find(const struct lls_vocab *vocab, const char *string, size_t length);
int32_t lls_vocab_find_in_model(const struct lls_vocab *vocab, const char *string,
                                size_t length);

static inline const char *lls_vocab_string(const struct lls_vocab *vocab, int32_t id)
{
  return vocab->text.data + vocab->tokens[id].string.offset;
}

#endif
