/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable arrays of bytes and of token ids.
 *
 * An append that runs out of memory sets `failed` and appends nothing, so a caller can
 * append without checks and test `failed` once at the end. Bytes behave the same beyond
 * `most`. A zeroed struct is an empty array.
 */
#ifndef LLS_TEXT_BUFFER_H
#define LLS_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_bytes {
  char *data; /* (length), not terminated */
  size_t length;
  size_t capacity;
  size_t most; /* limit of length; 0: none */
  bool failed;
};

struct lls_ids {
  int32_t *data; /* (count) */
  size_t count;
  size_t capacity;
  bool failed;
};

/* Makes room for `needed` elements of `size` bytes. Returns false if out of memory. */
bool lls_grow(void **data, size_t *capacity, size_t needed, size_t size);

void lls_bytes_append(struct lls_bytes *bytes, const char *data, size_t length);
void lls_bytes_append_char(struct lls_bytes *bytes, int32_t codepoint);
void lls_bytes_swap(struct lls_bytes *a, struct lls_bytes *b);
void lls_bytes_free(struct lls_bytes *bytes);

void lls_ids_append(struct lls_ids *ids, int32_t id);

/* A text that is being split into pieces: one buffer and a list of spans in it, in
 * order. A pre-tokeniser step reads one of these and writes the next one. */
struct lls_span {
  size_t start;
  size_t length;
};

struct lls_pieces {
  struct lls_bytes text;
  struct lls_span *spans; /* (count) none is empty */
  size_t count;
  size_t capacity;
  bool at_start; /* the first piece begins at the beginning of the whole text */
  bool failed;
};

/* Adds a span; empty ones are dropped. */
void lls_pieces_append(struct lls_pieces *pieces, size_t start, size_t end);
void lls_pieces_free(struct lls_pieces *pieces);

#endif
