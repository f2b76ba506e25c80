/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes sources of grammars; the first byte selects: JSON Schema (strict 's', not
 * strict 'l'), a regular expression 'r' (searched 'R', inside JSON 'j'), GBNF 'g', Lark
 * 'L', structural tags 't'. A compiled grammar is followed by its masks: each token in
 * a mask must be accepted.
 */
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex.h"
#include "text/grammar/structural_tag.h"
#include "t/fuzz/fuzz.h"

#include <errno.h>

#define TOKENS 260
#define STEPS  48

/* Every byte, and some tokens of several. */
static const struct lls_vocabulary *vocabulary(void)
{
  static struct lls_vocabulary *made;
  static char bytes[256];
  static const char *const more[] = {"\",", "{\"", "ab", "}]"};
  struct lls_token_bytes tokens[TOKENS + 1] = {0};
  static const int32_t end = TOKENS;
  if (made != NULL)
    return made;
  for (int i = 0; i < 256; i++) {
    bytes[i] = (char)i;
    tokens[i] = (struct lls_token_bytes){&bytes[i], 1};
  }
  for (int i = 0; i < 4; i++)
    tokens[256 + i] = (struct lls_token_bytes){more[i], 2};
  assert(lls_vocabulary_of(tokens, TOKENS + 1, &end, 1, &made, NULL) == 0);
  return made;
}

static uint32_t build(struct lls_grammar_tree *tree, char kind, const char *source,
                      size_t n)
{
  struct lls_error err = {0};
  int code = 0;
  if (kind == 'g')
    return lls_grammar_gbnf(tree, source, n);
  if (kind == 'L')
    return lls_grammar_lark(tree, source, n);
  if (kind == 'r' || kind == 'R' || kind == 'j') {
    struct lls_regex_use use = {
        .search = kind != 'r', .json = kind == 'j', .bounded = kind == 'j', .max = 9};
    uint32_t node = lls_grammar_regex(tree, source, n, use, &code, &err);
    assert(node != LLS_GRAMMAR_NONE || err.text[0] != '\0');
    return node;
  }
  json_t *schema = json_loadb(source, n, JSON_DECODE_ANY, NULL);
  uint32_t node = schema == NULL ? LLS_GRAMMAR_NONE
                  : kind == 't'  ? lls_grammar_structural_tag(tree, schema)
                                 : lls_grammar_json_schema(tree, schema, kind == 's');
  assert(schema == NULL || node != LLS_GRAMMAR_NONE ||
         lls_grammar_tree_check(tree, &err) != 0);
  json_decref(schema);
  return node;
}

/* Chooses one of the set tokens, by the seed. */
static int32_t choose(const uint32_t *mask, uint32_t *seed)
{
  int32_t allowed[TOKENS + 1], n = 0;
  for (int32_t i = 0; i <= TOKENS; i++)
    if (mask[i / 32] >> (i % 32) & 1)
      allowed[n++] = i;
  *seed = *seed * 1103515245u + 12345u;
  return n == 0 ? -1 : allowed[(*seed >> 16) % (uint32_t)n];
}

static void walk(struct lls_grammar *grammar, uint32_t seed)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  uint32_t mask[TOKENS / 32 + 1];
  assert(state != NULL);
  lls_grammar_state_init(state, grammar);
  for (int step = 0; step < STEPS; step++) {
    int rc = lls_grammar_fill_mask(state, mask);
    if (rc <= 0) { /* out of states, or text without tokens */
      assert(rc == -E2BIG || rc == 0);
      break;
    }
    int32_t token = choose(mask, &seed);
    assert(token >= 0);
    rc = lls_grammar_accept_token(state, token);
    assert(rc == 0 || rc == -E2BIG);
    if (rc != 0 || token == TOKENS)
      break;
  }
  free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct lls_grammar_limits limits = {
      .positions = 20000, .states = 2000, .time_ns = INT64_C(1000000000)};
  struct lls_grammar *grammar = NULL;
  struct lls_error err = {0};
  if (size == 0)
    return 0;
  struct lls_grammar_tree *tree =
      lls_grammar_tree_create(&(struct lls_grammar_bounds){20000, 1000000, 1000});
  assert(tree != NULL);
  lls_grammar_set_root(tree,
                       build(tree, (char)data[0], (const char *)data + 1, size - 1));
  int rc = lls_grammar_compile(tree, vocabulary(), &limits, &grammar, &err);
  lls_grammar_tree_destroy(tree);
  if (rc == 0)
    walk(grammar, (uint32_t)size);
  else
    assert(err.text[0] != '\0');
  if (rc == 0)
    lls_grammar_unref(grammar);
  return 0;
}
