/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One mapped GGUF file (versions 2 and 3, little endian): its metadata, and the places
 * of its tensors. The file is untrusted: every count, length, type and offset is
 * checked when it is opened.
 *
 * The layout: "GGUF", version (4 bytes), numbers of tensors and metadata entries (8
 * bytes each). An entry is key, type, value; a tensor is name, dimensions from the
 * innermost to the outermost, type, offset. Then follows the data, each tensor after
 * the previous one at a multiple of general.alignment. A text is its length (8 bytes)
 * and its bytes.
 */
#ifndef LLS_MODEL_GGUF_FILE_H
#define LLS_MODEL_GGUF_FILE_H

#include <jansson.h>

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/base/hash.h"

enum lls_gguf_type {
  LLS_GGUF_U8,
  LLS_GGUF_I8,
  LLS_GGUF_U16,
  LLS_GGUF_I16,
  LLS_GGUF_U32,
  LLS_GGUF_I32,
  LLS_GGUF_F32,
  LLS_GGUF_BOOL,
  LLS_GGUF_STRING,
  LLS_GGUF_ARRAY,
  LLS_GGUF_U64,
  LLS_GGUF_I64,
  LLS_GGUF_F64,
  LLS_GGUF_TYPES
};

struct lls_gguf_entry {
  UT_hash_handle hh;
  enum lls_gguf_type type; /* for an array, of its items */
  bool is_array;
  uint64_t n; /* number of items; 1 unless an array */
  const unsigned char *data;
  char key[];
};

#define LLS_GGUF_MAX_DIMS 4

struct lls_gguf_tensor {
  UT_hash_handle hh;
  uint32_t n_dims;
  uint64_t shape[LLS_GGUF_MAX_DIMS]; /* outermost dimension first */
  enum lls_dtype dtype;
  size_t offset, bytes; /* offset and size in the file's data */
  const unsigned char *data;
  char name[];
};

struct lls_gguf_file {
  char *path;
  unsigned char *map;
  size_t bytes;
  struct lls_gguf_entry *entries;  /* uthash by key */
  struct lls_gguf_tensor *tensors; /* uthash by name, in the file's order */
};

/* Opens a file. Returns 0, or a negative errno with a sentence that names the file. */
int lls_gguf_file_open(const char *path, struct lls_gguf_file **out,
                       struct lls_error *err);
void lls_gguf_file_close(struct lls_gguf_file *); /* NULL is allowed */

/* Sets *out to the value of a key as JSON, with arrays as JSON arrays; NULL if there is
 * none. */
int lls_gguf_value(const struct lls_gguf_file *, const char *key, json_t **out,
                   struct lls_error *err);
/* Returns an integer; the fallback if the key is missing or not a number. */
int64_t lls_gguf_integer(const struct lls_gguf_file *, const char *key, int64_t fallback);
/* Copies the key's text into `text` and returns it; NULL if it is missing or does not
 * fit. */
const char *lls_gguf_text(const struct lls_gguf_file *, const char *key, char *text,
                          size_t size);

#endif
