/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled grammars against a simple recogniser that tries everything (t/grammar.h). */
#include "t/tap.h"

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "t/grammar.h"

#include <errno.h>
#include <jansson.h>

#define TOKENS 64

static const struct lls_grammar_bounds bounds = {
    .nodes = 10000, .bytes = 1 << 20, .rules = 1000};

/* Bytes, parts of characters, and strings of several; token 0 ends a text. */
static const char *const token_text[TOKENS] = {"",
                                               "a",
                                               "b",
                                               "c",
                                               "ab",
                                               "ba",
                                               "aa",
                                               "bb",
                                               "aab",
                                               "aba",
                                               "abab",
                                               "aaaa",
                                               "\xC3",
                                               "\xA9",
                                               "\xC3\xA9",
                                               "a\xC3",
                                               ("\xA9"
                                                "b"),
                                               "\xC3\xA9\xC3\xA9",
                                               "\x7F",
                                               "\xC2\x80",
                                               "\xC2",
                                               "\x80",
                                               "bc",
                                               "cb",
                                               "cc",
                                               "abc",
                                               "bca",
                                               "d",
                                               "\xFF",
                                               "{",
                                               "}",
                                               "\"",
                                               "{\"",
                                               "\"}",
                                               "\",",
                                               ":",
                                               "\":",
                                               ",",
                                               "\",\"",
                                               "[",
                                               "]",
                                               "[[",
                                               "]]",
                                               "[]",
                                               "0",
                                               "1",
                                               "01",
                                               "\\",
                                               "\\\"",
                                               "x\"",
                                               "\\n",
                                               "xy",
                                               "x\"}",
                                               "x\",\"y",
                                               "\xE2\x82\xAC",
                                               "\xE2",
                                               "\x82\xAC\"",
                                               "+",
                                               "*",
                                               "a+a",
                                               "+a",
                                               "aaaaaaaa",
                                               "bbbb",
                                               "ccc"};

static struct lls_vocabulary *vocabulary_of_all(void)
{
  struct lls_token_bytes tokens[TOKENS];
  const int32_t end = 0;
  struct lls_vocabulary *v = NULL;
  for (int i = 0; i < TOKENS; i++)
    tokens[i] = (struct lls_token_bytes){token_text[i], strlen(token_text[i])};
  assert_int_equal(lls_vocabulary_of(tokens, TOKENS, &end, 1, &v, NULL), 0);
  return v;
}

static bool allowed(const uint32_t *bits, uint32_t token)
{
  return (bits[token / 32] >> (token % 32) & 1) != 0;
}

/* Checks every token, in the mask or not, by matching the text with the token
 * appended. */
static void check_mask(struct oracle *o, const struct lls_grammar_tree *tree,
                       const char *text, uint32_t n, const uint32_t *bits)
{
  char longer[ORACLE_TEXT + 1];
  memcpy(longer, text, n);
  for (uint32_t t = 1; t < TOKENS; t++) {
    uint32_t more = (uint32_t)strlen(token_text[t]);
    memcpy(longer + n, token_text[t], more);
    oracle_read(o, tree, longer, n + more);
    if (oracle_goes_on(o) != allowed(bits, t))
      fail_msg("after \"%.*s\" token \"%s\" is %s", (int)n, text, token_text[t],
               allowed(bits, t) ? "allowed" : "not allowed");
  }
}

/* Only the bytes of the forced tokens may follow. */
static void check_forced(struct oracle *o, const struct lls_grammar_tree *tree,
                         const char *text, uint32_t n, struct lls_grammar_state *state)
{
  char longer[ORACLE_TEXT + 1];
  int32_t tokens[2];
  int n_tokens = lls_grammar_forced(state, tokens, 2);
  assert_true(n_tokens >= 0);
  memcpy(longer, text, n);
  for (int i = 0; i < n_tokens; i++)
    for (const char *forced = token_text[tokens[i]]; *forced != '\0'; forced++) {
      for (int byte = 0; byte < 256; byte++) {
        longer[n] = (char)byte;
        oracle_read(o, tree, longer, n + 1);
        assert_int_equal(oracle_goes_on(o), (unsigned char)*forced == byte);
      }
      longer[n++] = *forced;
    }
}

/* The mask is the same if it is computed in pieces, with other work of the grammar in
 * between; each piece does some work, and hardly more than its limit. */
static void check_pieces(struct lls_grammar_state *state, const uint32_t *bits, int rc)
{
  /* of a path from the root, in the worst of these grammars */
  enum { PIECE = 40, MOST = 50000 };
  struct lls_mask_progress progress = {0};
  uint32_t others[TOKENS / 32];
  int again;
  do {
    uint64_t before = lls_grammar_state_work(state), work = PIECE;
    again = lls_grammar_fill_mask_some(state, others, &progress, &work);
    uint64_t took = lls_grammar_state_work(state) - before;
    assert_true(again != -EAGAIN || (took > 0 && work == 0));
    assert_true(took < PIECE + MOST);
    lls_grammar_forced(state, &(int32_t){0}, 1);
  } while (again == -EAGAIN);
  assert_int_equal(again, rc);
  assert_memory_equal(others, bits, sizeof others);
}

/* Draws tokens by the masks up to the oracle's longest text. Returns false if a limit
 * was reached: a few random grammars are that ambiguous. */
static bool follow_one(struct lls_grammar *grammar, const struct lls_grammar_tree *tree,
                       struct dice *d)
{
  static struct oracle oracle;
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  char text[ORACLE_TEXT + 1];
  uint32_t bits[TOKENS / 32], n = 0;
  int rc = 0;
  lls_grammar_state_init(state, grammar);
  for (int step = 0; step < 5 && n < 20 && rc == 0; step++) {
    oracle_read(&oracle, tree, text, n);
    assert_int_equal(lls_grammar_may_end(state), oracle_matches(&oracle));
    rc = lls_grammar_fill_mask(state, bits);
    if (rc < 0)
      break;
    check_pieces(state, bits, rc);
    assert_int_equal(allowed(bits, 0), lls_grammar_may_end(state));
    check_mask(&oracle, tree, text, n, bits);
    check_forced(&oracle, tree, text, n, state);
    uint32_t token = dice(d, 1, TOKENS - 1);
    for (uint32_t tries = 0; tries < TOKENS && !allowed(bits, token); tries++)
      token = 1 + token % (TOKENS - 1);
    if (!allowed(bits, token))
      break;
    rc = lls_grammar_accept_token(state, (int32_t)token);
    assert_true(rc == 0 || rc == -E2BIG);
    memcpy(text + n, token_text[token], strlen(token_text[token]));
    n += (uint32_t)strlen(token_text[token]);
  }
  free(state);
  assert_true(rc >= 0 || rc == -E2BIG);
  return rc >= 0;
}

static void test_random_grammars(void **state)
{
  (void)state;
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_vocabulary *v = vocabulary_of_all();
  struct dice d = {.state = 1};
  int compiled = 0, bounded = 0;
  for (int i = 0; i < 400; i++) {
    struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
    struct lls_grammar *grammar = NULL;
    random_grammar(tree, &d);
    int rc = lls_grammar_compile(tree, v, &limits, &grammar, NULL);
    if (rc == 0) {
      compiled++;
      bounded += !follow_one(grammar, tree, &d);
    } else {
      bounded += rc == -E2BIG;
      assert_true(rc == -E2BIG || rc == -EINVAL); /* otherwise nothing matches */
    }
    lls_grammar_unref(grammar);
    lls_grammar_tree_destroy(tree);
  }
  assert_true(compiled > 100 && bounded < compiled / 20);
  lls_vocabulary_destroy(v);
}

/* ---- names of properties ----------------------------------------------------------- */

/* Parts of names, and tokens that end a name, its value, and objects around it. */
static const char *const name_text[] = {"",
                                        "a",
                                        "b",
                                        "c",
                                        "ab",
                                        "abc",
                                        "abcd",
                                        "x",
                                        "xy",
                                        "e",
                                        "\"",
                                        "\":",
                                        "b\"",
                                        "x\"",
                                        "c\":",
                                        "x\":1",
                                        "\":1}",
                                        "a\":1}",
                                        "1",
                                        "12",
                                        "0",
                                        "1}",
                                        "}",
                                        "}}",
                                        "\":1}}",
                                        "x\":1,",
                                        "{",
                                        "{\"",
                                        ":",
                                        ",",
                                        ",\"",
                                        ",\"x",
                                        " ",
                                        "null",
                                        "\"x\"",
                                        ":{",
                                        "\":{",
                                        "\":{\"",
                                        "\":{\"x\"",
                                        "\\",
                                        "\\n",
                                        "\\u",
                                        "\\\"",
                                        "u0",
                                        "00",
                                        "00e9",
                                        "d83d",
                                        "\xC3",
                                        "\xA9",
                                        "\xC3\xA9",
                                        "a\xC3",
                                        ("\xA9"
                                         "a"),
                                        "\xE2",
                                        "\x82",
                                        "\xAC",
                                        "\xE2\x82",
                                        "\xE2\x82\xAC",
                                        "\xE2\x82\xAC\":1}",
                                        "\xF0",
                                        "\x9F",
                                        "\x98\x80",
                                        "\xED",
                                        "\xA0",
                                        "\xFF",
                                        "\n",
                                        "}\n",
                                        "\x7F",
                                        "\xED\x9F",
                                        "\xC3\"",
                                        "\xA9\"",
                                        "\xA9\":1},",
                                        "\xC3\xAA"};
#define NAME_TOKENS (sizeof name_text / sizeof *name_text)

/* Tries each token, in the mask or not, on a copy of the state. */
static void check_by_taking(const struct lls_grammar_state *state, const uint32_t *bits)
{
  struct lls_grammar_state *copy = malloc(lls_grammar_state_bytes());
  for (uint32_t t = 0; t < NAME_TOKENS; t++) {
    memcpy(copy, state, lls_grammar_state_bytes());
    if ((lls_grammar_accept_token(copy, (int32_t)t) == 0) != allowed(bits, t))
      fail_msg("token \"%s\" is %s", name_text[t],
               allowed(bits, t) ? "allowed" : "not allowed");
  }
  free(copy);
}

static void follow_names(struct lls_grammar *grammar, struct dice *d)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  uint32_t bits[(NAME_TOKENS + 31) / 32];
  lls_grammar_state_init(state, grammar);
  for (int step = 0; step < 30 && !lls_grammar_complete(state); step++) {
    assert_true(lls_grammar_fill_mask(state, bits) >= 0);
    check_by_taking(state, bits);
    uint32_t token = dice(d, 1, NAME_TOKENS - 1);
    for (uint32_t tries = 0; tries < NAME_TOKENS && !allowed(bits, token); tries++)
      token = (token + 1) % NAME_TOKENS;
    if (!allowed(bits, token) || lls_grammar_accept_token(state, (int32_t)token) < 0)
      break;
  }
  free(state);
}

static struct lls_vocabulary *vocabulary_of_names(void)
{
  struct lls_token_bytes tokens[NAME_TOKENS];
  const int32_t end = 0;
  struct lls_vocabulary *v = NULL;
  for (uint32_t i = 0; i < NAME_TOKENS; i++)
    tokens[i] = (struct lls_token_bytes){name_text[i], strlen(name_text[i])};
  assert_int_equal(lls_vocabulary_of(tokens, NAME_TOKENS, &end, 1, &v, NULL), 0);
  return v;
}

/* Reads a JSON Schema with ' for ", or a grammar in llama.cpp's notation. */
static uint32_t read_source(struct lls_grammar_tree *tree, const char *source)
{
  char text[400];
  if (source[0] != '{')
    return lls_grammar_gbnf(tree, source, strlen(source));
  snprintf(text, sizeof text, "%s", source);
  for (char *quote = text; (quote = strchr(quote, '\'')) != NULL;)
    *quote = '"';
  json_t *schema = json_loads(text, 0, NULL);
  uint32_t root = lls_grammar_json_schema(tree, schema, true);
  json_decref(schema);
  return root;
}

/* In names that may continue as any others, most of the vocabulary is not walked; the
 * tokens that are taken whole, and those that leave the name for the rest of the
 * object, must be exactly right. The last grammars only begin in this way: a character
 * is missing from the repetition, or the text continues differently before and after
 * it. */
static void test_names(void **state)
{
  static const char *const sources[] = {
      "{'type':'object','properties':{'ab':{'$ref':'#'},'abc':{'const':'x'},'\xC3\xA9"
      "a':{'type':'null'}},'additionalProperties':{'type':'integer'}}",
      "{'type':'object','additionalProperties':{'anyOf':[{'$ref':'#'},{'type':'null'}]}}",
      "{'type':'object','additionalProperties':true}",
      "{'type':'object','properties':{'\xE2\x82\xAC':{'type':'string'},"
      "'a':{'type':'string','maxLength':20}},'additionalProperties':{'type':'string'}}",
      "root ::= \"{\" [a-z\xC3\xA9] [^\"]* \"\\\":\"",
      "root ::= \"{\" [a-z] ([^\"]+ \"\\\":\" | \":\")"};
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_vocabulary *v = vocabulary_of_names();
  struct dice d = {.state = 2};
  (void)state;
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
    struct lls_grammar *grammar = NULL;
    lls_grammar_set_root(tree, read_source(tree, sources[i]));
    assert_int_equal(lls_grammar_compile(tree, v, &limits, &grammar, NULL), 0);
    for (int k = 0; k < 100; k++)
      follow_names(grammar, &d);
    lls_grammar_unref(grammar);
    lls_grammar_tree_destroy(tree);
  }
  lls_vocabulary_destroy(v);
}

/* ---- long tokens ------------------------------------------------------------------- */

#define LONGEST 600 /* more ends of a repetition than a fragment holds */

/* The repetition may end before any byte that it takes; only for tokens that it does
 * not take completely the place is recorded. */
static void test_ends_anywhere(void **state)
{
  static const char source[] = "root ::= [^\"]+ \"aa\" \"\\\"\" [^\"]* \"b\"";
  static const char *const after[] = {"", "\"", "\"b", "\"\"", "b\"", "c\"b", "c"};
  enum { KINDS = sizeof after / sizeof *after, N = KINDS * LONGEST };
  static char text[N][LONGEST + 4];
  static struct lls_token_bytes tokens[N];
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  const int32_t end = 0;
  uint32_t bits[(N + 31) / 32];
  struct lls_vocabulary *v = NULL;
  struct lls_grammar *grammar = NULL;
  (void)state;
  for (uint32_t t = 0; t < N; t++) { /* few of the long ones leave the repetition */
    if (t / KINDS > 30 && t % KINDS > 0)
      continue;
    memset(text[t], 'a', t / KINDS);
    strcpy(text[t] + t / KINDS, after[t % KINDS]);
    tokens[t] = (struct lls_token_bytes){text[t], strlen(text[t])};
  }
  assert_int_equal(lls_vocabulary_of(tokens, N, &end, 1, &v, NULL), 0);
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  lls_grammar_set_root(tree, lls_grammar_gbnf(tree, source, sizeof source - 1));
  assert_int_equal(lls_grammar_compile(tree, v, &limits, &grammar, NULL), 0);
  struct lls_grammar_state *at = malloc(lls_grammar_state_bytes());
  struct lls_grammar_state *copy = malloc(lls_grammar_state_bytes());
  lls_grammar_state_init(at, grammar);
  static const char *const steps[] = {"", "c", "a", "a", "\"", "b"};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    assert_int_equal(lls_grammar_accept_bytes(at, steps[i], strlen(steps[i])), 0);
    assert_true(lls_grammar_fill_mask(at, bits) >= 0);
    for (uint32_t t = 1; t < N; t++) {
      memcpy(copy, at, lls_grammar_state_bytes());
      if ((lls_grammar_accept_token(copy, (int32_t)t) == 0) != allowed(bits, t))
        fail_msg("after %zu tokens %u a and %s are %s", i, t / KINDS, after[t % KINDS],
                 allowed(bits, t) ? "allowed" : "not allowed");
    }
  }
  free(at);
  free(copy);
  lls_grammar_unref(grammar);
  lls_grammar_tree_destroy(tree);
  lls_vocabulary_destroy(v);
}

/* {"type": "object", "properties": {"name_0": {"type": ["integer", "null"]}, ...}} */
static json_t *schema_of(uint32_t n)
{
  json_t *properties = json_object();
  for (uint32_t i = 0; i < n; i++) {
    char name[24];
    snprintf(name, sizeof name, "name_%u", i);
    json_object_set_new(properties, name,
                        json_pack("{s:[ss]}", "type", "integer", "null"));
  }
  return json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
                   "additionalProperties", 0);
}

/* Takes the schema. */
static int compile_schema(json_t *schema, const struct lls_vocabulary *v,
                          struct lls_grammar **grammar, struct lls_error *err)
{
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&(struct lls_grammar_bounds){
      .nodes = 1u << 18, .bytes = 16u << 20, .rules = 1u << 15});
  lls_grammar_set_root(tree, lls_grammar_json_schema(tree, schema, true));
  int rc = lls_grammar_compile(tree, v, &limits, grammar, err);
  json_decref(schema);
  lls_grammar_tree_destroy(tree);
  return rc;
}

/* A text with every step-th of n properties is accepted, with a mask before each. */
static void take_every(struct lls_grammar *grammar, uint32_t n, uint32_t step)
{
  struct lls_grammar_state *at = malloc(lls_grammar_state_bytes());
  uint32_t bits[(TOKENS + 31) / 32];
  lls_grammar_state_init(at, grammar);
  assert_int_equal(lls_grammar_accept_bytes(at, "{", 1), 0);
  for (uint32_t i = 0; i < n; i += step) {
    char text[64];
    int length = snprintf(text, sizeof text, "%s\"name_%u\": %s", i > 0 ? ", " : "", i,
                          i % 2 == 0 ? "null" : "12");
    assert_int_equal(lls_grammar_fill_mask(at, bits), 1);
    if (lls_grammar_accept_bytes(at, text, (size_t)length) != 0)
      fail_msg("of %u properties, number %u is refused", n, i);
  }
  assert_int_equal(lls_grammar_accept_bytes(at, ", \"name_0\"", 10), -EINVAL);
  assert_int_equal(lls_grammar_accept_bytes(at, "}", 1), 0);
  assert_true(lls_grammar_may_end(at));
  free(at);
}

/* Any number of properties is either compiled within the limits of requests, or
 * refused. */
static void test_many_properties(void **state)
{
  static const uint32_t counts[] = {1, 32, 33, 170, 3000, 4096};
  struct lls_vocabulary *v = vocabulary_of_all();
  struct lls_grammar *grammar = NULL;
  struct lls_error err = {0};
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    assert_int_equal(compile_schema(schema_of(counts[i]), v, &grammar, &err), 0);
    take_every(grammar, counts[i], 1);
    take_every(grammar, counts[i], 37);
    lls_grammar_unref(grammar);
  }
  assert_int_equal(compile_schema(schema_of(4097), v, &grammar, &err), -EINVAL);
  assert_non_null(strstr(err.text, "an object of 4097 properties"));
  lls_vocabulary_destroy(v);
}

/* A product of automata is a chain of rules. A rule is not copied to each place where
 * another one ends with it, which would double the size at each character. */
static void test_long_products(void **state)
{
  struct lls_vocabulary *v = vocabulary_of_all();
  struct lls_grammar *grammar = NULL;
  struct lls_error err = {0};
  char text[160];
  (void)state;
  json_t *schema =
      json_pack("{s:s, s:i}", "pattern",
                "^[a-z0-9-]+:[a-z0-9.-]+:([a-z0-9-]+)?:[a-z0-9-]+$", "maxLength", 146);
  if (compile_schema(schema, v, &grammar, &err) != 0)
    fail_msg("%s", err.text);
  for (int length = 146; length <= 147; length++) {
    struct lls_grammar_state *at = malloc(lls_grammar_state_bytes());
    lls_grammar_state_init(at, grammar);
    int n = snprintf(text, sizeof text, "\"a:b::%0*d\"", length - 5, 7);
    assert_int_equal(lls_grammar_accept_bytes(at, text, (size_t)n) == 0, length == 146);
    free(at);
  }
  lls_grammar_unref(grammar);
  lls_vocabulary_destroy(v);
}

/* n parts that begin alike, each a counted repetition: as many calls are open at
 * once. */
static int compile_alike(uint32_t n, const struct lls_vocabulary *v,
                         struct lls_error *err)
{
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  struct lls_grammar *grammar = NULL;
  uint32_t parts[400];
  for (uint32_t i = 0; i < n; i++)
    parts[i] =
        lls_grammar_repeat(tree, lls_grammar_literal(tree, "a", 1), 100 + i, 100 + i);
  lls_grammar_set_root(tree, lls_grammar_choice(tree, parts, n));
  int rc = lls_grammar_compile(tree, v, &limits, &grammar, err);
  lls_grammar_tree_destroy(tree);
  lls_grammar_unref(grammar);
  return rc;
}

/* A grammar whose start needs too many states is refused at compile time, so that no
 * answer fails by it. */
static void test_ambiguous_beginnings(void **state)
{
  struct lls_vocabulary *v = vocabulary_of_all();
  struct lls_error err = {0};
  (void)state;
  assert_int_equal(compile_alike(50, v, &err), 0);
  assert_int_equal(compile_alike(400, v, &err), -E2BIG);
  assert_string_equal(err.text, "the grammar's beginning is too ambiguous");
  lls_vocabulary_destroy(v);
}

/* {"c": a string of one of n such parts, which all begin alike}. */
static int compile_pattern(const char *part, uint32_t n, const struct lls_vocabulary *v,
                           struct lls_grammar **out)
{
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  char pattern[8192] = "^(";
  for (uint32_t i = 1, at = 2; i <= n; i++)
    at += (uint32_t)snprintf(pattern + at, sizeof pattern - at, part, 20 + i,
                             i < n ? "|" : ")$");
  json_t *schema = json_pack("{s:s, s:{s:{s:s, s:s}}, s:[s], s:b}", "type", "object",
                             "properties", "c", "type", "string", "pattern", pattern,
                             "required", "c", "additionalProperties", 0);
  lls_grammar_set_root(tree, lls_grammar_json_schema(tree, schema, true));
  int rc = lls_grammar_compile(tree, v, &limits, out, NULL);
  json_decref(schema);
  lls_grammar_tree_destroy(tree);
  return rc;
}

static void answer_by(struct lls_grammar *grammar, struct dice *d)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  uint32_t bits[(TOKENS + 31) / 32];
  assert_int_equal(lls_grammar_state_init(state, grammar), 0);
  for (int step = 0; step < 40 && !lls_grammar_complete(state); step++) {
    assert_int_equal(lls_grammar_fill_mask(state, bits), 1);
    uint32_t token = dice(d, 0, TOKENS - 1);
    while (!allowed(bits, token))
      token = (token + 1) % TOKENS;
    assert_int_equal(lls_grammar_accept_token(state, (int32_t)token), 0);
  }
  free(state);
}

/* The same inside of a text: either refused at compile time, or answers are
 * generated. */
static void test_parts_that_begin_alike(void **state)
{
  static const char *const parts[] = {"a{%u}%s", "a{1,%u}b%s", "[ab]{%u}c%s",
                                      "d[ab]{%u}%s"};
  struct lls_vocabulary *v = vocabulary_of_all();
  struct dice d = {.state = 1};
  (void)state;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    for (uint32_t n = 50; n <= 400; n += 25) {
      struct lls_grammar *grammar = NULL;
      int rc = compile_pattern(parts[i], n, v, &grammar);
      if (rc == 0)
        answer_by(grammar, &d);
      assert_true(n <= 150 ? rc == 0 : n < 350 || rc == -E2BIG);
      lls_grammar_unref(grammar);
    }
  lls_vocabulary_destroy(v);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_grammars),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_ends_anywhere),
      cmocka_unit_test(test_many_properties),
      cmocka_unit_test(test_long_products),
      cmocka_unit_test(test_ambiguous_beginnings),
      cmocka_unit_test(test_parts_that_begin_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
