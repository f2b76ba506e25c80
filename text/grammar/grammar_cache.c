/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of compiled grammars, ordered by last use: uthash keeps the order of
 * insertion, and an entry that is used is inserted again. */
#include "text/grammar/grammar_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "text/grammar/grammar_internal.h"

/* Bounds of a tree: clients may send hostile grammars. */
static const struct lls_grammar_bounds bounds = {
    .nodes = 1u << 18, .bytes = 16u << 20, .rules = 1u << 15};

struct kept {
  UT_hash_handle hh;
  struct lls_grammar *grammar; /* the cache's reference */
  char key[];
};

struct lls_grammar_cache {
  struct lls_vocabulary *vocabulary;
  pthread_mutex_t lock;
  struct kept *kept; /* under lock; the first one is the least recently used */
};

int lls_grammar_cache_create(const struct lls_tokenizer *tokenizer, uint32_t size,
                             const int32_t *ends, uint32_t n_ends,
                             struct lls_grammar_cache **out, struct lls_error *err)
{
  struct lls_grammar_cache *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the cache of grammars");
  int rc = lls_vocabulary_create(tokenizer, size, ends, n_ends, &cache->vocabulary, err);
  if (rc != 0) {
    free(cache);
    return rc;
  }
  pthread_mutex_init(&cache->lock, NULL);
  *out = cache;
  return 0;
}

static void forget(struct lls_grammar_cache *cache, struct kept *kept)
{
  HASH_DEL(cache->kept, kept);
  lls_grammar_unref(kept->grammar);
  free(kept);
}

void lls_grammar_cache_destroy(struct lls_grammar_cache *cache)
{
  struct kept *kept, *next;
  if (cache == NULL)
    return;
  HASH_ITER(hh, cache->kept, kept, next)
  {
    forget(cache, kept);
  }
  lls_vocabulary_destroy(cache->vocabulary);
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}

/* [lock held] Returns a new reference to the grammar of the key, or NULL. */
static struct lls_grammar *find(struct lls_grammar_cache *cache, const char *key,
                                size_t n)
{
  struct kept *kept;
  HASH_FIND(hh, cache->kept, key, n, kept);
  if (kept == NULL)
    return NULL;
  if (HASH_COUNT(cache->kept) > 1) { /* deleting the only entry would free the table */
    HASH_DEL(cache->kept, kept);
    HASH_ADD_KEYPTR(hh, cache->kept, kept->key, n, kept);
  }
  if (kept->hh.tbl != NULL)
    return lls_grammar_ref(kept->grammar);
  struct lls_grammar *grammar = kept->grammar; /* no memory for an entry: the caller's
                                                * reference remains the only one */
  free(kept);
  return grammar;
}

/* [lock held] Sums the sizes again, since grammars grow in use, and evicts beyond the
 * limit. */
static void trim(struct lls_grammar_cache *cache)
{
  uint64_t bytes = 0;
  struct kept *kept, *next;
  HASH_ITER(hh, cache->kept, kept, next)
  {
    bytes += lls_grammar_bytes(kept->grammar);
  }
  HASH_ITER(hh, cache->kept, kept, next)
  {
    if (bytes <= LLS_GRAMMAR_CACHE_BYTES &&
        HASH_COUNT(cache->kept) <= LLS_GRAMMAR_CACHE_MOST)
      return;
    bytes -= lls_grammar_bytes(kept->grammar);
    forget(cache, kept);
  }
}

/* Stores the grammar. Without memory for an entry the grammar is used but not stored. */
static void keep(struct lls_grammar_cache *cache, const char *key, size_t n,
                 struct lls_grammar *grammar)
{
  struct kept *kept = malloc(sizeof *kept + n);
  if (kept == NULL)
    return;
  memcpy(kept->key, key, n);
  pthread_mutex_lock(&cache->lock);
  struct kept *other;
  HASH_FIND(hh, cache->kept, key, n, other);
  if (other == NULL) {
    HASH_ADD_KEYPTR(hh, cache->kept, kept->key, n, kept);
    if (kept->hh.tbl != NULL) {
      kept->grammar = lls_grammar_ref(grammar);
      trim(cache);
      kept = NULL;
    }
  }
  pthread_mutex_unlock(&cache->lock);
  free(kept);
}

/* Stores the key in the grammar; called before other threads see it. */
static void remember_key(struct lls_grammar *grammar, const char *key, size_t n)
{
  grammar->key = malloc(n + 1);
  if (grammar->key == NULL)
    return;
  memcpy(grammar->key, key, n);
  grammar->key_bytes = n;
}

int lls_grammar_cache_get(struct lls_grammar_cache *cache, const char *key, size_t n,
                          lls_grammar_builder build, const void *context,
                          struct lls_grammar **out, struct lls_error *err)
{
  pthread_mutex_lock(&cache->lock);
  *out = find(cache, key, n);
  pthread_mutex_unlock(&cache->lock);
  if (*out != NULL)
    return 0;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  if (tree == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the grammar");
  lls_grammar_tree_set_vocabulary(tree, cache->vocabulary);
  lls_grammar_set_root(tree, build(tree, context));
  int rc = lls_grammar_compile(tree, cache->vocabulary, &LLS_GRAMMAR_LIMITS, out, err);
  lls_grammar_tree_destroy(tree);
  if (rc == 0) {
    remember_key(*out, key, n);
    keep(cache, key, n, *out);
  }
  return rc;
}
