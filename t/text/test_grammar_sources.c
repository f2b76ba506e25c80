/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions and GBNF as grammars, checked with the simple recogniser; and
 * hostile sources of both and of JSON Schema, which must be refused, or take bounded
 * time. */
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex.h"
#include "text/grammar/regex_product.h"
#include "text/grammar/regex_scan.h"
#include "text/grammar/schema_compile.h"

#include "t/dice.h"
#include "t/grammar_texts.h"

/* ---- regular expressions ---- */

static void expressions(void **state)
{
  (void)state;
  static const struct {
    const char *expression;
    bool search;
    const char *yes[MOST], *no[MOST];
  } cases[] = {
      {"a|b*", false, {"a", "", "bbb"}, {"ab", "c"}},
      {"(ab){2,3}c?", false, {"abab", "abababc"}, {"ab", "abababab"}},
      {"[a-c\\d_-]+", false, {"a1-_", "0"}, {"", "d"}},
      {"[^a-y]", false, {"z", "é", "\n"}, {"b", "zz"}},
      {".\\.\\n", false, {"x.\n", "é.\n"}, {"\n.\n", "xx\n"}},
      {"\\w+@\\w+\\.com", false, {"a@b.com"}, {"a@bxcom", "@b.com"}},
      {"\\u00e9\\x41\\u{1F600}\\ud83d\\ude00", false, {"éA😀😀"}, {"éA"}},
      {"\\p{Lu}\\p{Nd}*", false, {"É", "A12"}, {"a", "1"}},
      {"x{2}y{,2}z{1,}", false, {"xxz", "xxyyzz"}, {"xz", "xxyyyz", "xxy"}},
      {"x{a}", false, {"x{a}"}, {"xxx"}},
      {"^abc$", false, {"abc"}, {"xabc"}},
      {"(?P<year>\\d{4})-(?<m>\\d\\d)-(?:x|y)", false, {"2024-01-x"}, {"2024-1-x"}},
      {"a+?b*?", false, {"ab", "aa"}, {"b"}},
      {"b", true, {"b", "abc", "\nb"}, {"", "a"}},
      {"^b|c$|^$", true, {"bx", "xc", ""}, {"xb", "cx"}},
      {"(^|/)x(/|$)", true, {"x", "a/x", "x/b", "a/x/b"}, {"ax", "xb", "/ax"}},
      {"\\Aab\\Z", true, {"ab"}, {"abc", "xab"}},
      {"^", true, {"", "abc"}, {NULL}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct lls_grammar_tree *tree = new_tree();
    struct lls_error err = {0};
    int code;
    uint32_t node =
        lls_grammar_regex(tree, cases[i].expression, strlen(cases[i].expression),
                          (struct lls_regex_use){.search = cases[i].search}, &code, &err);
    if (node == LLS_GRAMMAR_NONE)
      fail_msg("%s: %s", cases[i].expression, err.text);
    lls_grammar_set_root(tree, node);
    check_texts(tree, cases[i].expression, cases[i].yes, true);
    check_texts(tree, cases[i].expression, cases[i].no, false);
    lls_grammar_tree_destroy(tree);
  }
}

static void what_is_not_regular_is_refused_by_name(void **state)
{
  (void)state;
  static const struct {
    const char *expression, *says;
  } cases[] = {
      {"a(?=b)", "at byte 3: look-around"},
      {"(?<!a)b", "look-around"},
      {"(a)\\1", "back references"},
      {"\\bword", "word boundaries"},
      {"(?i)a", "flags"},
      {"a++", "possessive"},
      {"a{3,2}", "least is more than its most"},
      {"a{70000}", "more than 65536"},
      {"(ab", "a ( without its )"},
      {"ab)", "a ) without its ("},
      {"[ab", "a [ without its ]"},
      {"*a", "nothing to repeat"},
      {"[]", "without anything"},
      {"[z-a]", "first is more than its last"},
      {"\\q", "not known"},
      {"\\", "at its end"},
      {"a^b", "an anchor"},
      {"(a$)+", "an anchor (^ or $) that is repeated"},
      {"\xff", "not UTF-8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct lls_grammar_tree *tree = new_tree();
    struct lls_error err = {0};
    int code;
    assert_int_equal(lls_grammar_regex(tree, cases[i].expression,
                                       strlen(cases[i].expression),
                                       (struct lls_regex_use){0}, &code, &err),
                     LLS_GRAMMAR_NONE);
    if (strstr(err.text, cases[i].says) == NULL)
      fail_msg("%s: %s", cases[i].expression, err.text);
    lls_grammar_tree_destroy(tree);
  }
}

/* ---- GBNF ---- */

static void grammars(void **state)
{
  (void)state;
  static const struct grammar_texts cases[] = {
      {"root ::= \"a\" b? # a comment\nb ::= [x-z]+\n", {"a", "axyz"}, {"", "ab", "x"}},
      {"root ::= (\"a\" |\n \"b\"){2,3}\n", {"ab", "bbb"}, {"a", "aaaa"}},
      {"# c\n\nroot\n  ::= | \"x\" root\n", {"", "xx"}, {"y"}},
      {"root ::= item (\",\" item)* \"\\n\"\nitem ::= [^,\\n\\]\\\\\"]+",
       {"a,é\n"},
       {"a,\n", "a"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\" .",
       {"Aé😀\t\"z", "Aé😀\t\"\n"},
       {"Aé😀\t\""}},
      {"root ::= a-b{,2} c_d{1}\na-b ::= \"1\"\nc_d ::= \"2\"",
       {"2", "12", "112"},
       {"1112", "11"}},
      {"root ::=\n    ( \"a\" ) |\n    ( \"b\" )\n", {"a", "b"}, {"ab"}},
      {"root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= \"(\" expr \")\" | [0-9]+",
       {"1+2", "(1)*(2-3)"},
       {"1+", "()"}},
  };
  check_grammars(lls_grammar_gbnf, cases, sizeof cases / sizeof cases[0]);
}

static void mistakes_in_grammars_name_the_line(void **state)
{
  (void)state;
  static const struct grammar_mistake cases[] = {
      {"", "no rule called root"},
      {"a ::= \"b\"", "no rule called root"},
      {"root ::= a\n\nb ::= \"x", "line 3: a \" without"},
      {"root ::= missing", "the rule \"missing\" is used and not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "the rule \"root\" is defined twice"},
      {"root ::= (\"a\"", "a ( without its )"},
      {"root ::= \"a\")", "a ) without its ("},
      {"root ::= [a", "a [ without its ]"},
      {"root ::= \"\\q\"", "an escape that is none"},
      {"root ::= \"a\"{2,1}", "least is more than its most"},
      {"root ::= \"a\"{x}", "none of {m}"},
      {"root ::= <think>", "symbols for tokens"},
      {"start: \"a\"", "a rule begins as name ::="},
      {"root = \"a\"", "a rule begins as name ::="},
  };
  check_mistakes(lls_grammar_gbnf, cases, sizeof cases / sizeof cases[0]);
}

/* ---- hostile sources ---- */

static char *repeated(const char *before, const char *part, size_t n, const char *after)
{
  char *text = malloc(strlen(before) + n * strlen(part) + strlen(after) + 1), *at = text;
  assert_non_null(text);
  at = stpcpy(at, before);
  for (size_t i = 0; i < n; i++)
    at = stpcpy(at, part);
  strcpy(at, after);
  return text;
}

/* Either it compiles or it fails with a message; in both cases it ends. */
static void survive_schema(char *text)
{
  json_t *schema = json_loads(text, JSON_DECODE_ANY, NULL);
  struct lls_grammar_tree *tree = new_tree();
  struct lls_error err = {0};
  if (schema != NULL && lls_grammar_json_schema(tree, schema, true) == LLS_GRAMMAR_NONE) {
    assert_int_not_equal(lls_grammar_tree_check(tree, &err), 0);
    assert_true(err.text[0] != '\0');
  }
  lls_grammar_tree_destroy(tree);
  json_decref(schema);
  free(text);
}

static void hostile_schemas_end(void **state)
{
  (void)state;
  survive_schema(repeated("", "{\"type\":\"array\",\"items\":", 1500, "{}"));
  survive_schema(repeated("{\"anyOf\":[{}",
                          ",{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", 200,
                          "]}"));
  survive_schema(repeated(
      "{\"allOf\":[{}", ",{\"anyOf\":[{\"minLength\":1},{\"maxLength\":2}]}", 40, "]}"));
  survive_schema(repeated("{\"oneOf\":[{}", ",{\"required\":[\"a\"]}", 2000, "]}"));
  survive_schema(repeated("{\"required\":[\"a\"", ",\"b\"", 100000, "]}"));
  survive_schema(repeated("{\"properties\":{\"", "x", 5000, "\":{}}}"));
  survive_schema(repeated("{\"pattern\":\"", "(", 10000, "\"}"));
  survive_schema(repeated("{\"pattern\":\"", "(a{60000}){60000}", 100, "\"}"));
  survive_schema(
      repeated("{\"maxLength\":9,\"pattern\":\"", "((){60000}){60000}", 9, "\"}"));
  survive_schema(repeated("{\"patternProperties\":{\"(a|b)*a(a|b){",
                          "20}\":{},\"b(a|b){1", 4, "}\":{}}}"));
  survive_schema(repeated("{\"prefixItems\":[{}", ",{}", 50000, "]}"));
  survive_schema(repeated("{\"enum\":[\"a\"", ",\"b\"", 100000, "]}"));
  survive_schema(
      repeated("{\"type\":\"integer\",\"minimum\":-1e300,\"maximum\":1e308", "", 0, "}"));
  survive_schema(repeated(
      "{\"type\":\"number\",\"minimum\":1e-300,\"exclusiveMaximum\":5e-324", "", 0, "}"));
  survive_schema(
      repeated("{\"minItems\":4294967295,\"maxItems\":4294967296", "", 0, "}"));
  /* categories, each of which examines all code points or has 650 ranges */
  survive_schema(repeated("{\"pattern\":\"", "\\\\p{Zl}", 100000, "\"}"));
  survive_schema(repeated("{\"pattern\":\"", "\\\\p{L}", 10000, "\"}"));
  /* 2 * 10^8 pairs of branches */
  survive_schema(repeated("{\"not\":{\"oneOf\":[true", ",true", 20000, "]}}"));
}

/* Items that must be different form 2 * 10^10 pairs. */
static void many_items_are_told_apart(void **state)
{
  (void)state;
  static const struct {
    const char *last;
    enum lls_schema_answer unique;
  } cases[] = {{"[1]", LLS_SCHEMA_YES},   {"[4]", LLS_SCHEMA_NO},
               {"\"5\"", LLS_SCHEMA_YES}, {"5.0", LLS_SCHEMA_NO},
               {"-0.0", LLS_SCHEMA_NO},   {"{\"a\": 1, \"b\": 2}", LLS_SCHEMA_NO}};
  json_t *items = json_pack("[i, {s:i, s:i}]", 0, "b", 2, "a", 1);
  for (int k = 0; k < 200000; k++)
    json_array_append_new(items, json_pack(k % 2 ? "i" : "[i]", k));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    json_array_append_new(items, json_loads(cases[i].last, JSON_DECODE_ANY, NULL));
    assert_int_equal(lls_schema_items_are_unique(items), cases[i].unique);
    json_array_remove(items, json_array_size(items) - 1);
  }
  json_decref(items);
}

static void hostile_grammars_end(void **state)
{
  (void)state;
  char *sources[] = {
      repeated("root ::= ", "(", 100000, ""),
      repeated("root ::= ", "\"a\"{60000} ", 1000, ""),
      repeated("root ::= ", "[a] ", 100000, "\n"),
      repeated("root ::= \"", "a", 100000, ""),
      repeated("root ::= root", "?", 10000, "\n"),
      repeated("", "a ::= b\n", 50000, ""),
  };
  for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
    struct lls_grammar_tree *tree = new_tree();
    lls_grammar_gbnf(tree, sources[i], strlen(sources[i]));
    lls_grammar_tree_destroy(tree);
    free(sources[i]);
  }
}

/* ---- several expressions ---- */

#define LETTERS 5

static const char *const letters[LETTERS] = {"a", "b", "c", "\xC3\xA9", "\n"};

static void draw_text(struct dice *d, char *text, uint32_t most, uint32_t *n)
{
  *text = '\0';
  *n = dice(d, 0, most);
  for (uint32_t i = 0; i < *n; i++)
    strcat(text, letters[dice(d, 0, LETTERS - 1)]);
}

static struct lls_grammar_tree *tree_of(const char *expression)
{
  struct lls_grammar_tree *tree = new_tree();
  int code;
  lls_grammar_set_root(tree, lls_grammar_regex(tree, expression, strlen(expression),
                                               (struct lls_regex_use){.search = true},
                                               &code, NULL));
  return tree;
}

static bool is_in_product(const struct lls_product *p, struct lls_grammar_tree **trees,
                          const char *text, uint32_t n)
{
  bool is = n >= p->min && n <= p->max;
  for (uint32_t i = 0; i < p->n; i++)
    is &= recognises(trees[i], text, strlen(text)) != p->terms[i].outside;
  for (uint32_t i = 0; i < p->n_others; i++)
    is &= strcmp(p->others[i], text) != 0;
  return is;
}

static void check_product(const struct lls_product *p, struct dice *d)
{
  struct lls_grammar_tree *trees[LLS_PRODUCT_TERMS], *tree = new_tree();
  struct lls_error err = {0};
  struct lls_product made = *p;
  uint64_t work = 0;
  int code;
  made.nothing = lls_grammar_choice(tree, NULL, 0);
  lls_grammar_set_root(tree, lls_grammar_product(tree, &made, &work, &code, &err));
  if (code != 0 || lls_grammar_tree_check(tree, &err) != 0)
    fail_msg("%s, %s: %s", p->terms[0].pattern, p->terms[1].pattern, err.text);
  for (uint32_t i = 0; i < p->n; i++)
    trees[i] = tree_of(p->terms[i].pattern);
  for (int round = 0; round < 40; round++) {
    char text[32];
    uint32_t n;
    draw_text(d, text, 8, &n);
    if (recognises(tree, text, strlen(text)) != is_in_product(p, trees, text, n))
      fail_msg("%s%s, %s%s: \"%s\"", p->terms[0].outside ? "not " : "",
               p->terms[0].pattern, p->terms[1].outside ? "not " : "",
               p->terms[1].pattern, text);
  }
  for (uint32_t i = 0; i < p->n; i++)
    lls_grammar_tree_destroy(trees[i]);
  lls_grammar_tree_destroy(tree);
}

/* In addition to each expression's own texts, checks random texts. */
static void products_have_the_texts_of_their_parts(void **state)
{
  (void)state;
  static const char *const expressions[] = {
      "", "^a", "b$", "^[ab]*$", "a.c|b", "^(ab|c){1,3}$", "[^a]\u00e9?$", "^(a|ab)*$"};
  static const char *const others[] = {"", "a", "ab", "\u00e9b", "c"};
  size_t n = sizeof expressions / sizeof expressions[0];
  struct dice d = {11};
  for (size_t i = 0; i < n * n * 4; i++) {
    struct lls_product p = {
        .terms = {{expressions[i % n], true, (i / n / n & 1) != 0},
                  {expressions[i / n % n], true, (i / n / n & 2) != 0}},
        .n = 2,
        .others = others,
        .n_others = dice(&d, 0, 5),
        .min = dice(&d, 0, 3),
        .max = dice(&d, 0, 1) == 0 ? LLS_GRAMMAR_UNBOUNDED : dice(&d, 3, 7),
        .most = LLS_PRODUCT_SETS,
    };
    check_product(&p, &d);
  }
}

/* ---- looked for in a growing text ---- */

#define LONGEST 10

static bool begins_character(char byte)
{
  return ((unsigned char)byte & 0xC0) != 0x80;
}

/* Finds the match that ends first, and begins first, by trying all. */
static bool find_by_trying(const struct lls_grammar_tree *tree, const char *text,
                           size_t n, size_t *begin, size_t *end)
{
  for (*end = 1; *end <= n; ++*end)
    for (*begin = 0; *begin < *end; ++*begin)
      if (begins_character(text[*begin]) && begins_character(text[*end]) &&
          recognises(tree, text + *begin, *end - *begin))
        return true;
  return false;
}

static void scan_in_pieces(const struct lls_regex_finder *finder,
                           const struct lls_grammar_tree *tree, const char *text,
                           size_t n, struct dice *d)
{
  struct lls_regex_scan *scan = lls_regex_scan_create(finder);
  size_t begin, end, at = 0, shown = 0, piece_end = 0, length = 0;
  bool wanted = find_by_trying(tree, text, n, &begin, &end), found = false;
  while (at < n && !found) {
    size_t piece = dice(d, 1, 3);
    piece = piece < n - at ? piece : n - at;
    found = lls_regex_scan_push(scan, text + at, piece, &piece_end, &length);
    if (!found) {
      at += piece;
      assert_true(lls_regex_scan_hold(scan) <= at);
      shown = at - lls_regex_scan_hold(scan);
    }
  }
  assert_int_equal(found, wanted);
  if (found) {
    assert_int_equal(at + piece_end, end);
    assert_int_equal(length, end - begin);
    assert_true(shown <= begin); /* nothing of it was output before */
  }
  lls_regex_scan_destroy(scan);
}

static void scans_of_pieces(void **state)
{
  (void)state;
  static const char *const expressions[] = {"ab",     "a+b",        "aab|b",
                                            "a{2,3}", "(ab|ba)c?a", "[ab]c[^c]",
                                            "a.*c",   "\u00e9a?",   "(a|ab)(c|bcd)"};
  struct dice d = {7};
  for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
    const char *e = expressions[i];
    struct lls_grammar_tree *tree = new_tree();
    struct lls_regex_finder *finder;
    int code;
    lls_grammar_set_root(tree, lls_grammar_regex(tree, e, strlen(e),
                                                 (struct lls_regex_use){0}, &code, NULL));
    assert_int_equal(lls_regex_finder_create(e, strlen(e), &finder, NULL), 0);
    for (int round = 0; round < 500; round++) {
      char text[2 * LONGEST + 1];
      uint32_t n;
      draw_text(&d, text, LONGEST, &n);
      scan_in_pieces(finder, tree, text, strlen(text), &d);
    }
    lls_regex_finder_destroy(finder);
    lls_grammar_tree_destroy(tree);
  }
}

static void scans_that_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *expression, *why;
  } cases[] = {
      {"a*", "empty text"},
      {"", "empty text"},
      {"^a", "an anchor"},
      {"(a|b$)", "an anchor"},
      {"a(", "at byte"},
      {"(?=a)", "look-around"},
      {"(a{1,99}){1,99}b{1,99}", "too large"},
      {"\\bword", "word boundar"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *e = cases[i].expression;
    struct lls_regex_finder *finder = NULL;
    struct lls_error err = {0};
    assert_true(lls_regex_finder_create(e, strlen(e), &finder, &err) < 0);
    if (strstr(err.text, cases[i].why) == NULL)
      fail_msg("%s: %s", e, err.text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_have_the_texts_of_their_parts),
      cmocka_unit_test(scans_of_pieces),
      cmocka_unit_test(scans_that_are_refused),
      cmocka_unit_test(expressions),
      cmocka_unit_test(what_is_not_regular_is_refused_by_name),
      cmocka_unit_test(grammars),
      cmocka_unit_test(mistakes_in_grammars_name_the_line),
      cmocka_unit_test(hostile_schemas_end),
      cmocka_unit_test(many_items_are_told_apart),
      cmocka_unit_test(hostile_grammars_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
