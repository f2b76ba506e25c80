/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable arrays: bytes and token ids.
 *
 * An append that runs out of memory sets `failed` and drops what it was given, so that a
 * caller appends freely and asks once, at the end. Bytes do the same past `most`. A
 * zeroed struct is an empty array.
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
  size_t most; /* length that an append may reach; 0: any */
  bool failed;
};

struct lls_ids {
  int32_t *data; /* (count) */
  size_t count;
  size_t capacity;
  bool failed;
};

/* Makes room for `needed` elements of `size` bytes; false when there is no memory. */
bool lls_grow(void **data, size_t *capacity, size_t needed, size_t size);

void lls_bytes_append(struct lls_bytes *bytes, const char *data, size_t length);
void lls_bytes_append_char(struct lls_bytes *bytes, int32_t codepoint);
void lls_bytes_swap(struct lls_bytes *a, struct lls_bytes *b);
void lls_bytes_free(struct lls_bytes *bytes);

void lls_ids_append(struct lls_ids *ids, int32_t id);

/* Text being cut into pieces: one buffer and a list of spans in it, in order. A
 * pre-tokeniser step reads one of these and writes the next. */
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
