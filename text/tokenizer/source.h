/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the description of a model's tokeniser from its folder or its GGUF file. */
#ifndef LLS_TOKENIZER_SOURCE_H
#define LLS_TOKENIZER_SOURCE_H

#include "text/tokenizer/gguf_metadata.h"

struct lls_tokenizer_source {
  json_t *root;     /* tokenizer.json, or older files converted to its form */
  json_t *config;   /* tokenizer_config.json; an empty object if it is missing */
  const char *file; /* the folder's file that root was read from, for messages; NULL: a
                     * GGUF file */
};

int lls_tokenizer_source_read(const char *model_folder,
                              struct lls_tokenizer_source *source, struct lls_error *err);
int lls_tokenizer_source_read_gguf(const struct lls_gguf_metadata *,
                                   struct lls_tokenizer_source *source,
                                   struct lls_error *err);
void lls_tokenizer_source_free(struct lls_tokenizer_source *source);

/* Reads a JSON object from a file of the folder. Returns -ENOENT, without a sentence in
 * err, if the file is missing. */
int lls_folder_json(const char *folder, const char *name, json_t **out,
                    struct lls_error *err);

/* Returns a token of tokenizer_config.json, which is a string, or an object with
 * "content"; NULL if it is missing. */
const char *lls_config_token(const json_t *config, const char *member);

#endif
