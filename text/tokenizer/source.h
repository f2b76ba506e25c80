/* SPDX-License-Identifier: Apache-2.0 */
/* The tokeniser of a model, as files of its folder or its GGUF file describe it. */
#ifndef LLS_TOKENIZER_SOURCE_H
#define LLS_TOKENIZER_SOURCE_H

#include "text/tokenizer/gguf_metadata.h"

struct lls_tokenizer_source {
  json_t *root;     /* tokenizer.json, or what the older files amount to */
  json_t *config;   /* tokenizer_config.json; an empty object where there is none */
  const char *file; /* of the folder, what root was read from, for messages; NULL: the
                       model is a GGUF file */
};

int lls_tokenizer_source_read(const char *model_folder,
                              struct lls_tokenizer_source *source, struct lls_error *err);
int lls_tokenizer_source_read_gguf(const struct lls_gguf_metadata *,
                                   struct lls_tokenizer_source *source,
                                   struct lls_error *err);
void lls_tokenizer_source_free(struct lls_tokenizer_source *source);

/* Reads a JSON object from a file of the folder; -ENOENT, without a sentence,
 * if absent. */
int lls_folder_json(const char *folder, const char *name, json_t **out,
                    struct lls_error *err);

/* A token of tokenizer_config.json: a string, or an object with "content"; or NULL. */
const char *lls_config_token(const json_t *config, const char *member);

#endif
