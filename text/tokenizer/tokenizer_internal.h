/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions shared by the files that implement tokenizer.h. */
#ifndef LLS_TOKENIZER_TOKENIZER_INTERNAL_H
#define LLS_TOKENIZER_TOKENIZER_INTERNAL_H

#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/postprocessor.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordpiece.h"

#define LLS_TEXT_MAX (1 << 29) /* bytes of one text; positions in it are 32 bits wide */

/* The bytes of every token, decoded once at load. */
struct lls_surface {
  struct lls_bytes text;
  struct lls_slice *inside; /* (vocabulary size) the bytes inside a text */
  struct lls_slice *first;  /* (vocabulary size) the bytes at its beginning */
  size_t longest;
};

struct lls_tokenizer {
  struct lls_vocab vocab;
  struct lls_normalizer normalizer;
  struct lls_added added;
  struct lls_pretokenizer pretokenizer;
  struct lls_bpe *bpe; /* the model is one of these three */
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
