/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes grammars: the input is read as nodes built from earlier nodes, then as tokens.
 * A mask must contain exactly the tokens that are accepted, within the limits.
 */
#include "text/grammar/compiled_grammar.h"
#include "t/fuzz/fuzz.h"

#include <errno.h>

#define TOKENS 24
#define STEPS  12

static const char *const texts[TOKENS] = {
    "",     "a",        "b",  "ab", "ba",  "aa",   "aaa", "bbbb", "\xC3",
    "\xA9", "\xC3\xA9", "\"", "\\", "\",", "a\"",  "x",   "xyz",  "\xE2\x82\xAC",
    "\xFF", "0",        "00", " ",  "\n",  "a,\"b"};

struct input {
  const uint8_t *data;
  size_t n;
};

static uint32_t next(struct input *in)
{
  if (in->n == 0)
    return 0;
  in->n--;
  return *in->data++;
}

static uint32_t a_class(struct lls_grammar_tree *tree, struct input *in)
{
  static const uint32_t points[] = {0,   'a',  'b',  'z',    ' ',
                                    '"', 0x7F, 0xE9, 0x20AC, 0x10FFFF};
  struct lls_grammar_range r[2];
  for (int i = 0; i < 2; i++) {
    r[i].first = points[next(in) % 10];
    r[i].last = points[next(in) % 10];
  }
  return next(in) % 2 == 0 ? lls_grammar_class(tree, r, 2)
                           : lls_grammar_class_but(tree, r, 2);
}

static uint32_t a_node(struct lls_grammar_tree *tree, struct input *in)
{
  uint32_t n = lls_grammar_node_count(tree), parts[3], kind = next(in) % 6;
  const char *text = texts[next(in) % TOKENS];
  for (int i = 0; i < 3; i++)
    parts[i] = next(in) % (n > 0 ? n : 1);
  if (n == 0 || kind == 0)
    return lls_grammar_literal(tree, text, strlen(text));
  if (kind == 1)
    return a_class(tree, in);
  if (kind == 2)
    return lls_grammar_sequence(tree, parts, 3);
  if (kind == 3)
    return lls_grammar_choice(tree, parts, 3);
  if (kind == 4)
    return lls_grammar_rule(tree, "r");
  uint32_t min = next(in) % 40, more = next(in);
  return lls_grammar_repeat(tree, parts[0], min / 8,
                            more == 255 ? LLS_GRAMMAR_UNBOUNDED : min / 8 + more);
}

static void define_all(struct lls_grammar_tree *tree, struct input *in)
{
  uint32_t n = lls_grammar_node_count(tree);
  for (uint32_t i = 0; i < n; i++)
    if (lls_grammar_node_at(tree, i).kind == LLS_GRAMMAR_RULE)
      lls_grammar_define(tree, i, next(in) % n);
}

/* Each token is tried on a copy of the state. */
static bool check_mask(struct lls_grammar_state *state, struct lls_grammar_state *copy,
                       uint32_t *mask)
{
  int rc = lls_grammar_fill_mask(state, mask);
  assert(rc >= 0 || rc == -E2BIG);
  for (int32_t t = 0; t < TOKENS && rc >= 0; t++) {
    memcpy(copy, state, lls_grammar_state_bytes());
    int taken = lls_grammar_accept_token(copy, t);
    assert(taken == -E2BIG || (taken == 0) == ((*mask >> t & 1) != 0));
  }
  return rc > 0;
}

static void follow(struct lls_grammar *grammar, struct input *in)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  struct lls_grammar_state *copy = malloc(lls_grammar_state_bytes());
  int32_t forced[8];
  uint32_t mask;
  assert(state != NULL && copy != NULL);
  lls_grammar_state_init(state, grammar);
  for (int step = 0; step < STEPS && check_mask(state, copy, &mask); step++) {
    int n = lls_grammar_forced(state, forced, 8), rc = 0;
    assert(n <= 8);
    memcpy(copy, state, lls_grammar_state_bytes());
    for (int i = 0; i < n && rc == 0; i++)
      rc = lls_grammar_accept_token(copy, forced[i]);
    assert(rc != -EINVAL);
    int32_t token = (int32_t)(next(in) % TOKENS);
    while ((mask >> token & 1) == 0)
      token = (token + 1) % TOKENS;
    if (lls_grammar_accept_token(state, token) < 0)
      break;
  }
  free(state);
  free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const struct lls_grammar_bounds bounds = {
      .nodes = 200, .bytes = 1 << 14, .rules = 50};
  static const struct lls_grammar_limits limits = {
      .positions = 20000, .states = 3000, .time_ns = INT64_C(5000000000)};
  static const int32_t end = 0;
  struct lls_token_bytes tokens[TOKENS];
  struct lls_vocabulary *vocabulary;
  struct lls_grammar *grammar = NULL;
  struct input in = {data, size};
  for (int i = 0; i < TOKENS; i++)
    tokens[i] = (struct lls_token_bytes){texts[i], strlen(texts[i])};
  if (lls_vocabulary_of(tokens, TOKENS, &end, 1, &vocabulary, NULL) < 0)
    return 0;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  assert(tree != NULL);
  uint32_t last = 0;
  for (uint32_t n = next(&in) % 60; n > 0 && last != LLS_GRAMMAR_NONE; n--)
    last = a_node(tree, &in);
  if (last != LLS_GRAMMAR_NONE && lls_grammar_node_count(tree) > 0) {
    define_all(tree, &in);
    lls_grammar_set_root(tree, last);
  }
  struct lls_error err = {0};
  if (lls_grammar_compile(tree, vocabulary, &limits, &grammar, &err) == 0)
    follow(grammar, &in);
  else
    assert(err.text[0] != '\0');
  lls_grammar_unref(grammar);
  lls_grammar_tree_destroy(tree);
  lls_vocabulary_destroy(vocabulary);
  return 0;
}
