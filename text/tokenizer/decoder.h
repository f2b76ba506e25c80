/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders: they turn a token's string into the bytes that it represents.
 *
 * tokenizer.json describes decoding as operations on the list of all tokens. A server
 * sends text token by token, so the description is compiled into an equivalent form: a
 * function of one token (and whether it is the first), computed for every id at load,
 * and a number of characters to drop at the beginning of the text. A decoder without
 * such a form is refused.
 */
#ifndef LLS_TOKENIZER_DECODER_H
#define LLS_TOKENIZER_DECODER_H

#include "core/base/error.h"
#include "text/base/buffer.h"
#include "text/tokenizer/pattern.h"

#include <jansson.h>

struct lls_decoder {
  struct decode_step *steps; /* (count) */
  size_t count;
  size_t capacity;
  bool fused;           /* while loading: a step has joined the tokens */
  int32_t strip;        /* drop this character at the beginning of the text, */
  unsigned strip_count; /* up to this many times */
};

/* node is the member "decoder" of tokenizer.json. */
int lls_decoder_load(struct lls_decoder *decoder, const json_t *node,
                     struct lls_error *err);
void lls_decoder_free(struct lls_decoder *decoder);

/* Appends the bytes of one token to out. first: it is the first token of the text.
 * Returns 0; -EFBIG if the steps make the token too long; or another negative errno. */
int lls_decode_token(const struct lls_decoder *decoder, struct lls_matcher *matcher,
                     const char *token, size_t length, bool first, struct lls_bytes *out);

#endif
