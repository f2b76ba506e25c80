/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammars that were compiled for a tokeniser, by the text that each came from: the
 * same schema comes with request after request, and the masks that were found for one are
 * there for the next. Those that were not used for longest go first.
 *
 * Any thread may ask; a grammar is compiled without the lock, so that two threads which
 * ask for the same one at once may both compile it.
 */
#ifndef LLS_GRAMMAR_GRAMMAR_CACHE_H
#define LLS_GRAMMAR_GRAMMAR_CACHE_H

#include "text/grammar/compiled_grammar.h"

#define LLS_GRAMMAR_CACHE_MOST  128
#define LLS_GRAMMAR_CACHE_BYTES (UINT64_C(256) << 20)

struct lls_grammar_cache;

/* size: the model's logits; ends: (n_ends) its end-of-sequence tokens, copied. -ENOMEM.
 */
int lls_grammar_cache_create(const struct lls_tokenizer *tokenizer, uint32_t size,
                             const int32_t *ends, uint32_t n_ends,
                             struct lls_grammar_cache **out, struct lls_error *err);
/* After the last grammar that came from it. */
void lls_grammar_cache_destroy(struct lls_grammar_cache *cache);

/* Builds a tree: the node of its root, or LLS_GRAMMAR_NONE with the tree failed. */
typedef uint32_t (*lls_grammar_builder)(struct lls_grammar_tree *tree,
                                        const void *context);

/* [any] The grammar of this key (n bytes), which `build` makes a tree for if it is not
 * there. *out is the caller's reference. Fails as lls_grammar_compile. */
int lls_grammar_cache_get(struct lls_grammar_cache *cache, const char *key, size_t n,
                          lls_grammar_builder build, const void *context,
                          struct lls_grammar **out, struct lls_error *err);

#endif
