/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the metadata of a GGUF file is read here. core/model has the reader and fills this
 * in (core/model/model_text.c), so that nothing in text/ needs to know how the file is
 * laid out.
 */
#ifndef LLS_TOKENIZER_GGUF_METADATA_H
#define LLS_TOKENIZER_GGUF_METADATA_H

#include "core/base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct lls_gguf_metadata {
  const char *path; /* of the file, for messages */
  const void *file; /* what the three functions are called with */
  /* *out is the value of a key as JSON, an array as a list; NULL if there is none. */
  int (*value)(const void *file, const char *key, json_t **out, struct lls_error *err);
  /* A whole number, of an array the first; the fallback where there is none. */
  int64_t (*integer)(const void *file, const char *key, int64_t fallback);
  /* `text` with the key's text in it; NULL where there is none, or a longer one than
   * fits. */
  const char *(*text)(const void *file, const char *key, char *text, size_t size);
};

#endif
