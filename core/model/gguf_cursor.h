/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a GGUF header from its first byte to its last; used by gguf_*.c only. */
#ifndef LLS_MODEL_GGUF_CURSOR_H
#define LLS_MODEL_GGUF_CURSOR_H

#include "core/model/gguf_file.h"

/* The rest of the file, and where its errors go. */
struct lls_gguf_cursor {
  const struct lls_gguf_file *file;
  const unsigned char *at, *end;
  struct lls_error *err;
};

/* n bytes, or NULL and a sentence that calls them `what`. */
const unsigned char *lls_gguf_take(struct lls_gguf_cursor *, size_t n, const char *what);
/* The same of what each is named for. */
int lls_gguf_take_u32(struct lls_gguf_cursor *, uint32_t *out, const char *what);
int lls_gguf_take_u64(struct lls_gguf_cursor *, uint64_t *out, const char *what);
/* A text's bytes; not terminated. */
int lls_gguf_take_text(struct lls_gguf_cursor *, const unsigned char **text,
                       uint64_t *length, const char *what);
/* A key or a name: short, and without a zero inside. */
int lls_gguf_take_name(struct lls_gguf_cursor *, const unsigned char **name,
                       uint64_t *length, const char *what);

/* gguf_tensors.c: reads n tensors, and checks that they lie in the file. */
int lls_gguf_read_tensors(struct lls_gguf_cursor *, struct lls_gguf_file *, uint64_t n,
                          size_t alignment);

#endif
