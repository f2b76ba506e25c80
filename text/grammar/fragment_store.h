/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments of repetitions that call no rule, found by everything they depend on: the
 * automaton of the repeated part, the state in it, and the bytes that may follow. The
 * inside of a JSON string is the same in most schemas; a walk of 128,000 tokens takes a
 * millisecond or two.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_STORE_H
#define LLS_GRAMMAR_FRAGMENT_STORE_H

#include "text/grammar/fragment.h"

#define LLS_FRAGMENT_KEY 8192

struct lls_fragment_draft;

struct lls_fragment_key {
  uint32_t n; /* bytes */
  char bytes[LLS_FRAGMENT_KEY];
};

/* Fills in the key. Returns false if the rule is too large for one. */
bool lls_fragment_key_of(const struct lls_dfa *dfa, uint32_t state,
                         struct lls_fragment_key *key);

/* [any] Finds a fragment; NULL: there is none with this key. Adds a fragment; NULL: no
 * memory. */
const struct lls_fragment *lls_fragment_store_find(struct lls_fragment_store *store,
                                                   const struct lls_fragment_key *key);
const struct lls_fragment *lls_fragment_store_add(struct lls_fragment_store *store,
                                                  const struct lls_fragment_key *key,
                                                  const struct lls_fragment_draft *draft);

#endif
