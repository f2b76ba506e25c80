/* SPDX-License-Identifier: Apache-2.0 */
/* How the byte-level tokenisers of GGUF files cut words: tokenizer.ggml.pre. */
#ifndef LLS_TOKENIZER_GGUF_PATTERNS_H
#define LLS_TOKENIZER_GGUF_PATTERNS_H

#include <stdbool.h>

#define LLS_GGUF_MAX_PATTERNS 6

struct lls_gguf_pre {
  const char
      *patterns[LLS_GGUF_MAX_PATTERNS + 1]; /* one after the other; ends with NULL */
  bool ignore_merges;                       /* a word that is a token is that */
  bool add_bos;                             /* unless the file says */
  bool add_sep; /* an encoder's: a text stands between bos and sep, whatever it says */
};

/* NULL for a name that is not known. */
const struct lls_gguf_pre *lls_gguf_pre_named(const char *name);

#endif
