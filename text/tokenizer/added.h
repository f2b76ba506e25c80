/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Added tokens: strings that are recognised in the text before the model's own
 * tokenisation; from the left, the longest first. Tokens with normalized = false are
 * searched in the original text, all others in the normalised text.
 */
#ifndef LLS_TOKENIZER_ADDED_H
#define LLS_TOKENIZER_ADDED_H

#include "core/base/error.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/trie.h"
#include "text/tokenizer/vocab.h"

#include <jansson.h>

struct lls_added_token {
  int32_t id;
  bool single_word; /* no match next to a word character */
  bool lstrip;      /* includes the white space before it */
  bool rstrip;      /* includes the white space after it */
};

struct lls_added {
  struct lls_added_token *tokens; /* (count) */
  size_t count;
  struct lls_trie raw;
  struct lls_trie normalized;
};

/* Reads the member "added_tokens" into added and vocab. */
int lls_added_load(struct lls_added *added, const json_t *list, struct lls_vocab *vocab,
                   const struct lls_normalizer *normalizer, struct lls_error *err);
void lls_added_free(struct lls_added *added);

/* A token found in a text, including the white space that belongs to it. */
struct lls_added_match {
  size_t start;
  size_t end;
  int32_t id;
};

/* Returns the longest token of either kind that begins at the text's first byte, and
 * its length in *size; -1 if there is none. The characters around it are not examined. */
int32_t lls_added_at(const struct lls_added *added, const char *text, size_t length,
                     size_t *size);

/*
 * Finds the next token of a trie in text, from *at on, and moves *at after it. `taken`:
 * the end of the previous match, before which white space is not included again.
 */
bool lls_added_find(const struct lls_added *added, const struct lls_trie *trie,
                    const char *text, size_t length, size_t *at, size_t taken,
                    struct lls_added_match *match);

#endif
