/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text being cut into pieces: one buffer and a list of spans in it, in order. A
 * pre-tokeniser step reads one of these and writes the next.
 */
#ifndef LLS_TOKENIZER_PIECES_H
#define LLS_TOKENIZER_PIECES_H

#include "core/tokenizer/buffer.h"

struct lls_span {
  size_t start;
  size_t length;
};

struct lls_pieces {
  struct lls_bytes text;
  struct lls_span *spans; /* (count) none of them empty */
  size_t count;
  size_t capacity;
  bool at_start; /* the first piece begins where the whole text begins */
  bool failed;
};

/* Adds a span; empty ones are dropped. */
void lls_pieces_append(struct lls_pieces *pieces, size_t start, size_t end);
void lls_pieces_free(struct lls_pieces *pieces);

#endif
