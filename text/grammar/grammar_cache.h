/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammars compiled for a tokeniser, found by the text that each came from. The
 * same schema arrives with request after request, and mask fragments built for one
 * request serve the next. The least recently used grammars are evicted first.
 *
 * Any thread may call. A grammar is compiled without the lock, so two threads that
 * request the same one at the same moment may both compile it.
 */
#ifndef LLS_GRAMMAR_GRAMMAR_CACHE_H
#define LLS_GRAMMAR_GRAMMAR_CACHE_H

#include "text/grammar/compiled_grammar.h"

#define LLS_GRAMMAR_CACHE_MOST  128
#define LLS_GRAMMAR_CACHE_BYTES (UINT64_C(256) << 20)

struct lls_grammar_cache;

/* size: number of the model's logits. ends: (n_ends) the model's end-of-sequence
 * tokens, copied. Returns 0 or -ENOMEM. */
int lls_grammar_cache_create(const struct lls_tokenizer *tokenizer, uint32_t size,
                             const int32_t *ends, uint32_t n_ends,
                             struct lls_grammar_cache **out, struct lls_error *err);
/* Call it after the last grammar of the cache was released. */
void lls_grammar_cache_destroy(struct lls_grammar_cache *cache);

/* Builds a tree. Returns its root node, or LLS_GRAMMAR_NONE with the tree failed. */
typedef uint32_t (*lls_grammar_builder)(struct lls_grammar_tree *tree,
                                        const void *context);

/* [any] Gets the grammar of this key (n bytes). If the cache does not have it, `build`
 * makes its tree. *out receives a reference that the caller owns. Errors are those of
 * lls_grammar_compile. */
int lls_grammar_cache_get(struct lls_grammar_cache *cache, const char *key, size_t n,
                          lls_grammar_builder build, const void *context,
                          struct lls_grammar **out, struct lls_error *err);

#endif
