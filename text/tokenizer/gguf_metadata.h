/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface through which text/ reads the metadata of a GGUF file. core/model has
 * the reader and fills this struct (core/model/model_text.c), so nothing in text/
 * depends on the layout of the file.
 */
#ifndef LLS_TOKENIZER_GGUF_METADATA_H
#define LLS_TOKENIZER_GGUF_METADATA_H

#include "core/base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct lls_gguf_metadata {
  const char *path; /* path of the file, for messages */
  const void *file; /* first argument of the three functions */
  /* Sets *out to the value of a key as JSON, with GGUF arrays as JSON arrays; NULL if
   * the key is missing. */
  int (*value)(const void *file, const char *key, json_t **out, struct lls_error *err);
  /* Returns an integer, of an array its first one; the fallback if the key is missing. */
  int64_t (*integer)(const void *file, const char *key, int64_t fallback);
  /* Copies the key's string into `text` and returns it; NULL if it is missing or does
   * not fit. */
  const char *(*text)(const void *file, const char *key, char *text, size_t size);
};

#endif
