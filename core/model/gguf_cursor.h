/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a GGUF header from its first byte to its last; used by gguf_*.c only. */
#ifndef LLS_MODEL_GGUF_CURSOR_H
#define LLS_MODEL_GGUF_CURSOR_H

#include "core/model/gguf_file.h"

/* The remaining bytes of the file, and the error to fill. */
struct lls_gguf_cursor {
  const struct lls_gguf_file *file;
  const unsigned char *at, *end;
  struct lls_error *err;
};

/* Takes n bytes; returns NULL, with a sentence that calls them `what`, if the file is
 * too short. */
const unsigned char *lls_gguf_take(struct lls_gguf_cursor *, size_t n, const char *what);
/* Take the value that each is named for; errors as for lls_gguf_take. */
int lls_gguf_take_u32(struct lls_gguf_cursor *, uint32_t *out, const char *what);
int lls_gguf_take_u64(struct lls_gguf_cursor *, uint64_t *out, const char *what);
/* Takes a text; its bytes are not terminated. */
int lls_gguf_take_text(struct lls_gguf_cursor *, const unsigned char **text,
                       uint64_t *length, const char *what);
/* Takes a key or a name, which must be short and without a zero byte. */
int lls_gguf_take_name(struct lls_gguf_cursor *, const unsigned char **name,
                       uint64_t *length, const char *what);

/* gguf_tensors.c: reads the headers of n tensors, and checks that their data lies in
 * the file. */
int lls_gguf_read_tensors(struct lls_gguf_cursor *, struct lls_gguf_file *, uint64_t n,
                          size_t alignment);

#endif
