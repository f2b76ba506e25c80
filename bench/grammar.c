/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of grammars: compiling JSON schemas, and one mask for each token of a
 * document.
 *
 *   bench/grammar MODEL [--ids] FILE...
 *
 * MODEL: a folder or a GGUF file with a tokeniser. Each FILE has {"schema": ..., "tests":
 * [{"data": ..., "valid": ...}]}, as the files of JSONSchemaBench's maskbench do. Prints
 * the times to compile and to mask (us of the thread's CPU time), how many schemas were
 * refused, and how often a document was judged differently from its file. A piece is the
 * part of a mask which one step computes. --ids prints the input of
 * bench/grammar_peers.py instead: the vocabulary in hexadecimal, then a line of JSON for
 * each valid document with the number of its file and its tokens.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/base/json_parse.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/json_schema.h"
#include "core/model/model_text.h"

#define MOST_SAMPLES (1u << 22)
#define MASK_WORK    30000 /* nodes in a step: the default of [plugins] mask_work */

struct samples {
  float *us; /* (n) samples */
  size_t n;
};

struct bench {
  struct lls_tokenizer *tokenizer;
  struct lls_vocabulary *vocabulary;
  struct lls_grammar_state *state;
  uint32_t *bits;
  struct samples compile, mask, piece;
  uint64_t work; /* most nodes in a piece */
  uint32_t schemas, refused, documents, wrongly_refused, wrongly_taken, failed;
  bool ids;
};

static void die(const char *what)
{
  fprintf(stderr, "bench/grammar: %s\n", what);
  exit(1);
}

static void note(struct samples *s, double seconds)
{
  if (s->n < MOST_SAMPLES)
    s->us[s->n++] = (float)(seconds * 1e6);
}

static int compare(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

static void report(const char *what, struct samples *s)
{
  static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 1};
  double sum = 0;
  for (size_t i = 0; i < s->n; i++)
    sum += (double)s->us[i];
  qsort(s->us, s->n, sizeof *s->us, compare);
  printf("%-12s %8zu  mean %.1f us", what, s->n, s->n > 0 ? sum / (double)s->n : 0);
  for (int i = 0; i < 5 && s->n > 0; i++)
    printf("  p%g %.1f", quantiles[i] * 100,
           (double)s->us[(size_t)(quantiles[i] * (double)(s->n - 1))]);
  printf("\n");
}

/* ---- a document ------------------------------------------------------------------- */

static bool take(struct bench *b, const int32_t *ids, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct lls_mask_progress progress = {0};
    double mask_s = 0;
    int rc;
    do {
      uint64_t work = b->work;
      double began = bench_cpu_seconds();
      rc = lls_grammar_fill_mask_some(b->state, b->bits, &progress, &work);
      double took_s = bench_cpu_seconds() - began;
      note(&b->piece, took_s);
      mask_s += took_s;
    } while (rc == -EAGAIN);
    note(&b->mask, mask_s);
    b->failed += rc < 0;
    if (rc < 0 || (b->bits[ids[i] / 32] >> (ids[i] % 32) & 1) == 0)
      return false;
    if (lls_grammar_accept_token(b->state, ids[i]) < 0)
      die("a token of the mask is not taken");
  }
  return lls_grammar_may_end(b->state);
}

static void print_ids(int file, const int32_t *ids, size_t n)
{
  printf("[%d", file);
  for (size_t i = 0; i < n; i++)
    printf(", %d", ids[i]);
  printf("]\n");
}

static void read_document(struct bench *b, struct lls_grammar *grammar, int file,
                          const json_t *test)
{
  char *text = json_dumps(json_object_get(test, "data"), JSON_ENCODE_ANY);
  bool valid = json_is_true(json_object_get(test, "valid"));
  int32_t *ids = NULL;
  size_t n = 0;
  if (text == NULL ||
      lls_tokenizer_encode(b->tokenizer, text, strlen(text), false, &ids, &n, NULL) < 0)
    die("a document cannot be read");
  if (b->ids) {
    if (valid)
      print_ids(file, ids, n);
  } else {
    lls_grammar_state_init(b->state, grammar);
    bool taken = take(b, ids, n);
    b->documents++;
    b->wrongly_refused += valid && !taken;
    b->wrongly_taken += !valid && taken;
  }
  free(ids);
  free(text);
}

/* ---- a file ------------------------------------------------------------------------ */

static struct lls_grammar *compile(struct bench *b, const json_t *schema)
{
  const struct lls_grammar_bounds bounds = {
      .nodes = 200000, .bytes = 8u << 20, .rules = 20000};
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar *grammar = NULL;
  double began = bench_cpu_seconds();
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  if (tree == NULL)
    die("no memory");
  lls_grammar_set_root(tree, lls_grammar_json_schema(tree, schema, true));
  int rc = lls_grammar_compile(tree, b->vocabulary, &limits, &grammar, NULL);
  lls_grammar_tree_destroy(tree);
  if (rc == 0)
    note(&b->compile, bench_cpu_seconds() - began);
  b->refused += rc < 0;
  b->schemas++;
  return grammar;
}

static void read_file(struct bench *b, int file, const char *path)
{
  json_t *whole = lls_json_parse_file(path, 0, NULL), *test;
  json_t *schema = json_object_get(whole, "schema");
  size_t i;
  struct lls_grammar *grammar = schema != NULL && !b->ids ? compile(b, schema) : NULL;
  if (grammar != NULL || b->ids)
    json_array_foreach(json_object_get(whole, "tests"), i, test)
        read_document(b, grammar, file, test);
  lls_grammar_unref(grammar);
  json_decref(whole);
}

/* ---- the vocabulary ---------------------------------------------------------------- */

static void print_vocabulary(const struct bench *b)
{
  const struct lls_vocabulary *v = b->vocabulary;
  for (uint32_t i = 0; i < v->size; i++) {
    printf(i > 0 ? ", \"" : "[\"");
    for (uint32_t at = v->offsets[i]; at < v->offsets[i + 1]; at++)
      printf("%02x", (unsigned char)v->text[at]);
    printf("\"");
  }
  printf("]\n");
}

static float *samples_of(void)
{
  float *us = malloc(MOST_SAMPLES * sizeof *us);
  if (us == NULL)
    die("no memory");
  return us;
}

int main(int argc, char **argv)
{
  struct bench b = {0};
  struct lls_error err;
  int first = argc > 2 && strcmp(argv[2], "--ids") == 0 ? 3 : 2;
  if (argc <= first)
    die("usage: bench/grammar MODEL [--ids] FILE...");
  if (lls_model_tokenizer(argv[1], &b.tokenizer, &err) < 0)
    die(err.text);
  int32_t end = lls_tokenizer_eos(b.tokenizer);
  double began = bench_cpu_seconds();
  if (lls_vocabulary_create(b.tokenizer, (uint32_t)lls_tokenizer_size(b.tokenizer), &end,
                            1, &b.vocabulary, &err) < 0)
    die(err.text);
  double vocabulary_s = bench_cpu_seconds() - began;
  b.ids = first == 3;
  b.state = malloc(lls_grammar_state_bytes());
  b.bits = calloc(lls_vocabulary_words(b.vocabulary), sizeof *b.bits);
  b.compile.us = samples_of();
  b.mask.us = samples_of();
  b.piece.us = samples_of();
  b.work = MASK_WORK;
  if (b.ids)
    print_vocabulary(&b);
  for (int i = first; i < argc; i++)
    read_file(&b, i - first, argv[i]);
  if (!b.ids) {
    printf("vocabulary of %u tokens: %.1f ms\n", b.vocabulary->size, vocabulary_s * 1e3);
    report("compile", &b.compile);
    report("mask", &b.mask);
    report("piece", &b.piece);
    printf("%u schemas, %u refused; %u documents: %u valid ones refused, %u invalid ones "
           "taken, %u masks over a bound\n",
           b.schemas, b.refused, b.documents, b.wrongly_refused, b.wrongly_taken,
           b.failed);
  }
  free(b.compile.us);
  free(b.mask.us);
  free(b.piece.us);
  free(b.bits);
  free(b.state);
  lls_vocabulary_destroy(b.vocabulary);
  lls_tokenizer_free(b.tokenizer);
  return 0;
}
