/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files behind tokenizer.h. */
#ifndef LLS_TOKENIZER_TOKENIZER_INTERNAL_H
#define LLS_TOKENIZER_TOKENIZER_INTERNAL_H

#include "core/tokenizer/added.h"
#include "core/tokenizer/bpe.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/postprocessor.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/unigram.h"
#include "core/tokenizer/vocab.h"
#include "core/tokenizer/wordpiece.h"

#define LLS_TEXT_MAX (1 << 29) /* bytes of one text; positions in it are 32 bits wide */

/* The bytes of every token, decoded once. */
struct lls_surface {
  struct lls_bytes text;
  struct lls_slice *inside; /* (vocabulary size) within a text */
  struct lls_slice *first;  /* (vocabulary size) at its beginning */
  size_t longest;
};

struct lls_tokenizer {
  struct lls_vocab vocab;
  struct lls_normalizer normalizer;
  struct lls_added added;
  struct lls_pretokenizer pretokenizer;
  struct lls_bpe *bpe; /* the model: one of these three */
  struct lls_wordpiece *wordpiece;
  struct lls_unigram *unigram;
  struct lls_postprocessor post;
  struct lls_decoder decoder;
  struct lls_surface surface;
  int32_t bos;
  int32_t eos;
};

/* Decodes the whole vocabulary into tokenizer->surface. */
int lls_surface_build(struct lls_tokenizer *tokenizer, struct lls_error *err);
void lls_surface_free(struct lls_surface *surface);

#endif
