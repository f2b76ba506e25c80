/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded hash table from which nothing is removed; see fragment_store.h. */
#include "text/grammar/fragment_store.h"

#include "text/grammar/fragment_draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES      1024
#define MEMORY_BYTES (64u << 20)

struct entry {
  const char *key;
  uint32_t n;
  const struct lls_fragment *fragment; /* NULL: free */
};

struct lls_fragment_store {
  pthread_mutex_t lock;
  struct lls_fragment_memory memory;
  uint32_t n;
  struct entry entries[2 * ENTRIES]; /* by hash */
};

int lls_fragment_store_create(struct lls_fragment_store **out)
{
  struct lls_fragment_store *s = calloc(1, sizeof *s);
  if (s == NULL || lls_fragment_memory_create(&s->memory, MEMORY_BYTES) < 0) {
    free(s);
    return -ENOMEM;
  }
  pthread_mutex_init(&s->lock, NULL);
  *out = s;
  return 0;
}

void lls_fragment_store_destroy(struct lls_fragment_store *s)
{
  if (s == NULL)
    return;
  pthread_mutex_destroy(&s->lock);
  free(s->memory.base);
  free(s);
}

static void put(struct lls_fragment_key *key, const void *bytes, size_t n)
{
  memcpy(key->bytes + key->n, bytes, n);
  key->n += (uint32_t)n;
}

bool lls_fragment_key_of(const struct lls_dfa *dfa, uint32_t state,
                         struct lls_fragment_key *key)
{
  const struct lls_dfa_state *s = &dfa->states[state];
  const struct lls_nfa_rule *rule = &dfa->nfa->rules[s->rule];
  size_t needed = rule->n_states * sizeof(struct lls_nfa_state) +
                  s->n_set * sizeof(uint32_t) + sizeof rule->follow + sizeof(uint32_t);
  key->n = 0;
  if (needed > sizeof key->bytes)
    return false;
  put(key, &rule->follow, sizeof rule->follow);
  put(key, &rule->n_states, sizeof rule->n_states);
  for (uint32_t i = 0; i < rule->n_states; i++) {
    struct lls_nfa_state from = dfa->nfa->states[rule->first_state + i], to;
    memset(&to, 0, sizeof to); /* padding is part of the key */
    to.kind = from.kind;
    if (from.kind == LLS_NFA_RANGE) {
      to.lo = from.lo;
      to.hi = from.hi;
    }
    if (from.kind != LLS_NFA_MATCH)
      to.out = from.out - rule->first_state;
    if (from.kind == LLS_NFA_SPLIT)
      to.other = from.other - rule->first_state;
    put(key, &to, sizeof to);
  }
  for (uint32_t i = 0; i < s->n_set; i++) {
    uint32_t at = dfa->sets[s->set + i] - rule->first_state;
    put(key, &at, sizeof at);
  }
  return true;
}

static uint32_t hash(const struct lls_fragment_key *key)
{
  uint64_t h = key->n;
  for (uint32_t i = 0; i < key->n; i++)
    h = (h ^ (uint8_t)key->bytes[i]) * UINT64_C(0x100000001B3);
  return (uint32_t)(h >> 32 ^ h);
}

/* Returns the entry of the key, or the free entry for it. */
static struct entry *entry_of(struct lls_fragment_store *s,
                              const struct lls_fragment_key *key)
{
  uint32_t at = hash(key) % (2 * ENTRIES);
  while (
      s->entries[at].fragment != NULL &&
      (s->entries[at].n != key->n || memcmp(s->entries[at].key, key->bytes, key->n) != 0))
    at = (at + 1) % (2 * ENTRIES);
  return &s->entries[at];
}

const struct lls_fragment *lls_fragment_store_find(struct lls_fragment_store *s,
                                                   const struct lls_fragment_key *key)
{
  pthread_mutex_lock(&s->lock);
  const struct lls_fragment *found = entry_of(s, key)->fragment;
  pthread_mutex_unlock(&s->lock);
  return found;
}

const struct lls_fragment *lls_fragment_store_add(struct lls_fragment_store *s,
                                                  const struct lls_fragment_key *key,
                                                  const struct lls_fragment_draft *draft)
{
  pthread_mutex_lock(&s->lock);
  struct entry *e = entry_of(s, key);
  if (e->fragment == NULL && s->n < ENTRIES) {
    size_t before = s->memory.used;
    char *copy = lls_fragment_memory_take(&s->memory, key->n);
    const struct lls_fragment *fragment =
        copy != NULL ? lls_draft_copy(draft, &s->memory) : NULL;
    if (fragment != NULL) {
      memcpy(copy, key->bytes, key->n);
      *e = (struct entry){copy, key->n, fragment};
      s->n++;
    } else {
      s->memory.used = before;
    }
  }
  const struct lls_fragment *found = e->fragment;
  pthread_mutex_unlock(&s->lock);
  return found;
}
