/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary in which every byte is a token, so that results depend on the grammar's
 * automaton and not on a tokeniser. */
#ifndef BENCH_GRAMMAR_BYTES_H
#define BENCH_GRAMMAR_BYTES_H

#include "text/grammar/vocabulary.h"

#define GRAMMAR_BYTES_END 256 /* the token that ends a text */

/* Returns NULL without memory. */
static inline struct lls_vocabulary *grammar_bytes(void)
{
  static char all[GRAMMAR_BYTES_END];
  static const int32_t end = GRAMMAR_BYTES_END;
  struct lls_token_bytes tokens[GRAMMAR_BYTES_END + 1] = {0};
  struct lls_vocabulary *made = NULL;
  for (int i = 0; i < GRAMMAR_BYTES_END; i++) {
    all[i] = (char)i;
    tokens[i] = (struct lls_token_bytes){&all[i], 1};
  }
  return lls_vocabulary_of(tokens, GRAMMAR_BYTES_END + 1, &end, 1, &made, NULL) == 0
             ? made
             : NULL;
}

#endif
