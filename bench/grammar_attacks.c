/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how much time of the step thread the worst grammars take which a client can
 * send in a few bytes.
 *
 *   bench/grammar_attacks MODEL [NAME [WORK]]
 *
 * MODEL is a folder with a tokeniser. NAME selects grammars whose names contain it. WORK
 * replaces the default of [plugins] mask_work. For each grammar a text of up to TOKENS
 * random tokens is drawn by its masks, the same text in every run. Printed are the tokens
 * made, the processor time of whole masks, of their pieces (the part which one step
 * computes) and of accepting the drawn token, and the error if one ended the text.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex.h"
#include "core/model/model_text.h"

#define TOKENS    60
#define MASK_WORK 30000 /* nodes in a step: the default of [plugins] mask_work */

enum kind { GBNF, REGEX, SCHEMA, CHOICE };

static const struct attack {
  const char *name;
  enum kind kind;
  const char *text;
} attacks[] = {
    {"ambiguous", GBNF, "root ::= s \"q\"\ns ::= [a-z ] s [a-z ]? | [a-z ] s? | [a-z ]"},
    {"ambiguous, letter by letter", GBNF,
     "root ::= s \"q\"\ns ::= x s x? | x s? | x\n"
     "x ::= \"a\" | \"b\" | \"c\" | \"d\" | \"e\" | \"f\" | \"g\" | \"h\" | \"i\" | "
     "\"j\" | \"k\" | \"l\" | \"m\" | \"n\" | \"o\" | \"p\" | \" \""},
    {"ambiguous, two halves", GBNF,
     "root ::= s \"q\"\ns ::= [a-m ] s [a-z ]? | [n-z ] s? | [a-z ] s s | [a-z ]"},
    {"ambiguous, three times itself", GBNF,
     "root ::= s \"q\"\ns ::= s s s | s s | [a-z ]"},
    {"left and right", GBNF, "root ::= a \"q\"\na ::= a b | b a | b\nb ::= [a-z ] | a a"},
    {"nested optional repetition", GBNF, "root ::= (([a-z ]?)* ([a-z ]+)?)* \"q\""},
    {"counts in counts", GBNF,
     "root ::= ((([a-z ]{0,50}){0,50}){0,50} [a-z ]?){0,50} \"q\""},
    {"counts that begin alike", GBNF,
     "root ::= ([a-z ]{1,90} | [a-y ]{2,80} | [a-x ]{3,70} | [a-w ]{4,60}){2,40} \"q\""},
    {"all is forced", GBNF,
     "root ::= s \"b\"\ns ::= \"a\" s \"a\"? | \"a\" s? | \"aaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "\""},
    {"(a|a)*b", REGEX, "([a-z ]|[a-z ])*0"},
    {"(a*)*b", REGEX, "(([a-z ]*)*)*0"},
    {"(a?){50}a{50}", REGEX, "([a-z ]?){50}[a-z ]{50}"},
    {"(a|b)*a(a|b){200}", REGEX, "[a-z ]*a[a-z ]{200}"},
    {"(.*a.*){20}", REGEX, "(.*[aeiou].*){20}"},
    {"anyOf of branches alike", SCHEMA,
     "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-z ]{1,60}1$\"},"
     "{\"type\":\"string\",\"pattern\":\"^[a-z ]{2,70}2$\"},"
     "{\"type\":\"string\",\"pattern\":\"^[a-z ]{3,80}3$\"},"
     "{\"type\":\"string\",\"pattern\":\"^([a-z]+ ?){4,90}4$\"},"
     "{\"type\":\"string\",\"pattern\":\"^([a-z]* ?){5,50}5$\"}]}"},
    {"$ref to itself", SCHEMA,
     "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"array\",\"items\":"
     "{\"$ref\":\"#/$defs/a\"}},{\"type\":\"array\",\"items\":{\"anyOf\":[{\"$ref\":"
     "\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"}]}},{\"$ref\":\"#/$defs/b\"}]},"
     "\"b\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/a\"},\"minItems\":1}}}"},
    {"10,000 choices alike", CHOICE, "the same beginning of all of them, number %u"},
    {"10,000 choices", CHOICE, "%u times"},
};
#define N_ATTACKS (sizeof attacks / sizeof *attacks)

struct bench {
  struct lls_tokenizer *tokenizer;
  struct lls_vocabulary *vocabulary;
  struct lls_grammar_state *state;
  uint32_t *bits;
  uint64_t random, work;
};

struct costs {
  double masks[TOKENS], piece, take, forced; /* seconds; of the last three the largest */
  size_t n;
  int rc;
};

static void die(const char *what)
{
  fprintf(stderr, "bench/grammar_attacks: %s\n", what);
  exit(1);
}

static void keep_largest(double *largest, double seconds)
{
  if (seconds > *largest)
    *largest = seconds;
}

/* xorshift (Marsaglia 2003) */
static uint32_t draw(struct bench *b, uint32_t below)
{
  b->random ^= b->random << 13;
  b->random ^= b->random >> 7;
  b->random ^= b->random << 17;
  return (uint32_t)(b->random >> 20) % below;
}

/* ---- a text ------------------------------------------------------------------------ */

static int fill(struct bench *b, struct costs *costs)
{
  struct lls_mask_progress progress = {0};
  double sum = 0;
  int rc;
  do {
    uint64_t work = b->work;
    double began = bench_cpu_seconds();
    rc = lls_grammar_fill_mask_some(b->state, b->bits, &progress, &work);
    double took = bench_cpu_seconds() - began;
    keep_largest(&costs->piece, took);
    sum += took;
  } while (rc == -EAGAIN);
  costs->masks[costs->n++] = sum;
  return rc;
}

/* Draws a token of the mask which does not end the text; -1 if there is none. */
static int32_t draw_token(struct bench *b)
{
  uint32_t size = b->vocabulary->size, at = draw(b, size);
  for (uint32_t i = 0; i < size; i++, at = (at + 1) % size)
    if ((b->bits[at / 32] >> (at % 32) & 1) != 0 &&
        !lls_vocabulary_ends(b->vocabulary, (int32_t)at))
      return (int32_t)at;
  return -1;
}

static void make_text(struct bench *b, struct lls_grammar *grammar, struct costs *costs)
{
  int32_t forced[64];
  b->random = UINT64_C(88172645463325252);
  costs->rc = lls_grammar_state_init(b->state, grammar);
  while (costs->rc >= 0 && costs->n < TOKENS && !lls_grammar_complete(b->state)) {
    double began = bench_cpu_seconds();
    costs->rc = lls_grammar_forced(b->state, forced, 64);
    keep_largest(&costs->forced, bench_cpu_seconds() - began);
    if (costs->rc >= 0)
      costs->rc = fill(b, costs);
    int32_t token = costs->rc > 0 ? draw_token(b) : -1;
    if (token < 0)
      return;
    began = bench_cpu_seconds();
    costs->rc = lls_grammar_accept_token(b->state, token);
    keep_largest(&costs->take, bench_cpu_seconds() - began);
  }
}

/* ---- a grammar --------------------------------------------------------------------- */

static uint32_t build_schema(struct lls_grammar_tree *tree, const char *text)
{
  json_t *schema = json_loads(text, 0, NULL);
  uint32_t root = lls_grammar_json_schema(tree, schema, true);
  json_decref(schema);
  return root;
}

static uint32_t build_choices(struct lls_grammar_tree *tree, const char *format)
{
  static uint32_t parts[10000];
  char text[100];
  for (uint32_t i = 0; i < 10000; i++) {
    const char *number = strstr(format, "%u");
    int n = snprintf(text, sizeof text, "%.*s%u%s", (int)(number - format), format, i,
                     number + 2);
    parts[i] = lls_grammar_literal(tree, text, (size_t)n);
  }
  return lls_grammar_choice(tree, parts, 10000);
}

static uint32_t build(struct lls_grammar_tree *tree, const struct attack *a)
{
  struct lls_error err;
  int code;
  switch (a->kind) {
  case GBNF:
    return lls_grammar_gbnf(tree, a->text, strlen(a->text));
  case REGEX:
    return lls_grammar_regex(tree, a->text, strlen(a->text), (struct lls_regex_use){0},
                             &code, &err);
  case SCHEMA:
    return build_schema(tree, a->text);
  default:
    return build_choices(tree, a->text);
  }
}

static void run(struct bench *b, const struct attack *a)
{
  const struct lls_grammar_bounds bounds = {
      .nodes = 200000, .bytes = 8u << 20, .rules = 20000};
  struct costs costs = {0};
  struct lls_error err = {0};
  struct lls_grammar *grammar = NULL;
  double began = bench_cpu_seconds();
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  if (tree == NULL)
    die("no memory");
  lls_grammar_set_root(tree, build(tree, a));
  int rc = lls_grammar_compile(tree, b->vocabulary, &LLS_GRAMMAR_LIMITS, &grammar, &err);
  lls_grammar_tree_destroy(tree);
  printf("%-30s compile %7.1f", a->name, (bench_cpu_seconds() - began) * 1e3);
  if (rc < 0) {
    printf("  refused: %s\n", err.text);
    return;
  }
  make_text(b, grammar, &costs);
  size_t n = costs.n;
  printf("  %2zu tokens  mask p50 %7.2f max %7.2f  piece %6.2f  take %6.2f  forced %6.2f",
         n, n > 0 ? bench_median(costs.masks, n) * 1e3 : 0,
         n > 0 ? costs.masks[n - 1] * 1e3 : 0, costs.piece * 1e3, costs.take * 1e3,
         costs.forced * 1e3);
  printf(costs.rc < 0 ? "  %s\n" : "\n", strerror(-costs.rc));
  fflush(stdout);
  lls_grammar_unref(grammar);
}

int main(int argc, char **argv)
{
  struct bench b = {0};
  struct lls_error err;
  if (argc < 2)
    die("usage: bench/grammar_attacks MODEL [NAME [WORK]]");
  b.work = argc > 3 ? strtoull(argv[3], NULL, 10) : MASK_WORK;
  if (lls_model_tokenizer(argv[1], &b.tokenizer, &err) < 0)
    die(err.text);
  int32_t end = lls_tokenizer_eos(b.tokenizer);
  if (lls_vocabulary_create(b.tokenizer, (uint32_t)lls_tokenizer_size(b.tokenizer), &end,
                            1, &b.vocabulary, &err) < 0)
    die(err.text);
  b.state = malloc(lls_grammar_state_bytes());
  b.bits = calloc(lls_vocabulary_words(b.vocabulary), sizeof *b.bits);
  if (b.state == NULL || b.bits == NULL)
    die("no memory");
  printf("ms of processor time, vocabulary of %u tokens\n", b.vocabulary->size);
  for (size_t i = 0; i < N_ATTACKS; i++)
    if (argc < 3 || strstr(attacks[i].name, argv[2]) != NULL)
      run(&b, &attacks[i]);
  free(b.bits);
  free(b.state);
  lls_vocabulary_destroy(b.vocabulary);
  lls_tokenizer_free(b.tokenizer);
  return 0;
}
