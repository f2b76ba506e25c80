/* SPDX-License-Identifier: Apache-2.0 */
/* How the byte-level tokenisers of GGUF files split words, by the name in
 * tokenizer.ggml.pre. */
#ifndef LLS_TOKENIZER_GGUF_PATTERNS_H
#define LLS_TOKENIZER_GGUF_PATTERNS_H

#include <stdbool.h>

#define LLS_GGUF_MAX_PATTERNS 6

struct lls_gguf_pre {
  const char *patterns[LLS_GGUF_MAX_PATTERNS + 1]; /* applied in order; ends with NULL */
  bool ignore_merges;                              /* a word that is itself a token is not
                                                    * split by merges */
  bool add_bos;                                    /* used if the file does not set it */
  bool add_sep; /* for encoders: a text is put between bos and sep, whatever the file
                 * sets */
};

/* Returns NULL for an unknown name. */
const struct lls_gguf_pre *lls_gguf_pre_named(const char *name);

#endif
