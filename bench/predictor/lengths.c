/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How well predictor retrieval and simpler methods predict the lengths of real answers.
 *
 *   bench/predictor/lengths [--fold N] [--share N] CORPUS TOKENIZER ENCODER|hash
 *     [LENGTH.MLP]
 *   bench/predictor/lengths [--fold N] [--share N] CORPUS TOKENIZER --train >train.jsonl
 *   bench/predictor/lengths [--fold N] [--share N] --pairs CORPUS TOKENIZER ENCODER
 *     LENGTH.MLP
 *
 * CORPUS is a JSON list of {instruction, input, output} or lines of {text, length}; the
 * lengths of answers are in tokens of the folder TOKENIZER. A prompt counts once. Its
 * hash assigns it to one of three sets: of ten prompts 4 (--share) train the length model
 * (see
 * --train), the rest of 8 are the history, and 2 are predicted. Baselines may use the
 * first two sets. --fold 1 to 4 shift the sets, so that five folds predict every prompt
 * once.
 *
 * --pairs prints output_tokens,predicted,confidence as the plugin predicts with its
 * defaults (k = 5, s0 = 0.8, both neighbours and the length model, or only the length
 * model if no neighbour is near).
 *
 * Bucket accuracy is the paper's: the share of predictions in the same bin as the true
 * length, of 10 even bins from 0 to the 99th percentile of the known lengths; longer
 * answers are in the last bin.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/base/json_parse.h"
#include "core/encoder/encoder.h"
#include "core/model/model_text.h"
#include "kernels/cpu/device.h"
#include "plugins/predictors/retrieval/estimate.h"
#include "plugins/predictors/retrieval/history.h"
#include "plugins/predictors/retrieval/regressor.h"
#include "plugins/predictors/retrieval/words.h"

#define BINS  10
#define K     5
#define S0    0.8
#define WORDS 256 /* dimensions of a vector of hashed words */
#define MOST  1000000

enum part { TRAIN, HISTORY, TEST };

struct item {
  uint64_t key;
  char *text;
  uint32_t length;
  enum part part;
  float *vector, *words; /* (dims), (WORDS) */
};

struct corpus {
  uint32_t fold, share;
  struct item *items;
  size_t n, of[3];
  uint32_t dims;
  double range;              /* tokens which all bins together cover */
  double mean, slope, start; /* of known lengths; length = start + slope x prompt bytes */
};

static void die(const char *what)
{
  fprintf(stderr, "bench/predictor/lengths: %s\n", what);
  exit(1);
}

static int say(void *context, int code, const char *format, ...)
{
  (void)context;
  fprintf(stderr, "bench/predictor/lengths: %s\n", format);
  return code;
}

static const struct lls_host host = {.fail = say};

/* ---- the corpus -------------------------------------------------------------------- */

static uint32_t count_tokens(const struct lls_tokenizer *t, const char *text)
{
  struct lls_error err;
  int32_t *ids;
  size_t n;
  if (lls_tokenizer_encode(t, text, strlen(text), false, &ids, &n, &err) < 0)
    die(err.text);
  free(ids);
  return (uint32_t)n + 1; /* plus the token which ends the answer */
}

static void add_item(struct corpus *c, char *text, uint32_t length)
{
  uint64_t key = words_hash(text, strlen(text), 0);
  for (size_t i = 0; i < c->n; i++)
    if (c->items[i].key == key) {
      free(text);
      return;
    }
  uint64_t turn = ((key >> 20) + 2 * c->fold) % 10;
  enum part part = turn < c->share ? TRAIN : turn < 8 ? HISTORY : TEST;
  c->items = realloc(c->items, (c->n + 1) * sizeof *c->items);
  if (c->items == NULL)
    die("out of memory");
  c->items[c->n++] =
      (struct item){.key = key, .text = text, .length = length, .part = part};
  c->of[part]++;
}

static void add_example(struct corpus *c, const struct lls_tokenizer *t, json_t *row)
{
  const char *text = json_string_value(json_object_get(row, "text"));
  const char *asked = json_string_value(json_object_get(row, "instruction"));
  const char *input = json_string_value(json_object_get(row, "input"));
  const char *output = json_string_value(json_object_get(row, "output"));
  if (text != NULL) {
    add_item(c, strdup(text),
             (uint32_t)json_integer_value(json_object_get(row, "length")));
    return;
  }
  if (asked == NULL || output == NULL || *output == '\0')
    return;
  size_t bytes = strlen(asked) + (input != NULL ? strlen(input) : 0) + 2;
  char *prompt = malloc(bytes);
  if (prompt == NULL)
    die("out of memory");
  snprintf(prompt, bytes, "%s\n%s", asked, input != NULL ? input : "");
  add_item(c, prompt, count_tokens(t, output));
}

static void read_corpus(struct corpus *c, const char *path, const char *tokenizer)
{
  struct lls_error err;
  struct lls_tokenizer *t;
  size_t index;
  json_t *row, *root = lls_json_parse_file(path, 0, NULL);
  if (lls_model_tokenizer(tokenizer, &t, &err) < 0)
    die(err.text);
  json_array_foreach(root, index, row) add_example(c, t, row);
  FILE *file = json_is_array(root) ? NULL : fopen(path, "r");
  char *line = NULL;
  size_t capacity = 0;
  while (file != NULL && getline(&line, &capacity, file) >= 0) {
    row = lls_json_parse_string(line, 0, NULL);
    add_example(c, t, row);
    json_decref(row);
  }
  if (file != NULL)
    fclose(file);
  free(line);
  json_decref(root);
  lls_tokenizer_free(t);
  if (c->of[TRAIN] < 10 || c->of[HISTORY] < 10 || c->of[TEST] < 10)
    die("too few prompts in the corpus");
}

static void print_training(const struct corpus *c)
{
  for (size_t i = 0; i < c->n; i++)
    if (c->items[i].part == TRAIN) {
      json_t *row = json_pack("{s:s, s:i}", "text", c->items[i].text, "length",
                              (int)c->items[i].length);
      char *line = json_dumps(row, JSON_COMPACT);
      puts(line);
      free(line);
      json_decref(row);
    }
}

/* ---- vectors ----------------------------------------------------------------------- */

static void encode(struct corpus *c, const char *folder)
{
  struct lls_error err;
  struct lls_encoder *e = NULL;
  bool hash = strcmp(folder, "hash") == 0;
  struct lls_encoder_options o = {
      .cpu = &lls_cpu_device,
      .folder = folder,
      .threads = 1,
      .max_tokens = 128,
      .weights = LLS_WEIGHTS_BF16,
  };
  if (!hash && lls_encoder_create(&o, &e, &err) < 0)
    die(err.text);
  c->dims = hash ? WORDS : lls_encoder_dims(e);
  for (size_t i = 0; i < c->n; i++) {
    struct item *x = &c->items[i];
    size_t bytes = strlen(x->text);
    x->words = malloc(WORDS * sizeof *x->words);
    x->vector = malloc(c->dims * sizeof *x->vector);
    if (x->words == NULL || x->vector == NULL)
      die("out of memory");
    words_of_text(x->text, bytes, x->words, WORDS);
    struct lls_encoder_text text = {x->text, bytes};
    if (hash)
      memcpy(x->vector, x->words, WORDS * sizeof *x->words);
    else if (lls_encoder_encode(e, &text, 1, x->vector, &err) < 0)
      die(err.text);
  }
  lls_encoder_destroy(e);
}

/* ---- baselines --------------------------------------------------------------------- */

/* Fits the baselines: mean, least-squares regression on the prompt's bytes, 99th
 * percentile. */
static void fit(struct corpus *c)
{
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  double *lengths = malloc(c->n * sizeof *lengths);
  if (lengths == NULL)
    die("out of memory");
  for (size_t i = 0; i < c->n; i++) {
    double bytes = (double)strlen(c->items[i].text), length = c->items[i].length;
    if (c->items[i].part == TEST)
      continue;
    lengths[(size_t)n] = length;
    n++, x += bytes, y += length, xx += bytes * bytes, xy += bytes * length;
  }
  qsort(lengths, (size_t)n, sizeof *lengths, bench_compare);
  c->range = lengths[(size_t)(n * .99)] + 1;
  c->mean = y / n;
  c->slope = (n * xy - x * y) / (n * xx - x * x);
  c->start = (y - c->slope * x) / n;
  free(lengths);
}

/* `known` of ten prompts to predict are in the history, as if served before. */
static struct history *remember(const struct corpus *c, bool words, bool training,
                                uint32_t known)
{
  struct history *h;
  if (history_create(words ? WORDS : c->dims, (uint32_t)(2 * c->n), NULL, &h) < 0)
    die("out of memory");
  for (size_t i = 0; i < c->n; i++) {
    const struct item *x = &c->items[i];
    if (x->part == HISTORY || (training && x->part == TRAIN) ||
        (x->part == TEST && (x->key >> 40) % 10 < known))
      history_add(h, words ? x->words : x->vector, x->length);
  }
  return h;
}

/* ---- methods ----------------------------------------------------------------------- */

struct method {
  const struct corpus *corpus;
  const struct history *history; /* NULL: without neighbours */
  const struct regressor *regressor;
  bool words; /* the history has vectors of hashed words */
  double s0;
  bool linear; /* regression on the prompt's length; false: the mean */
  bool both;   /* neighbours and the length model */
  bool itself; /* a prompt found in the history is predicted by its own answer only */
  uint32_t hits;
};

static struct lls_prediction predict(struct method *m, const struct item *x)
{
  struct neighbour near[K];
  struct lls_prediction p = {0};
  const struct corpus *c = m->corpus;
  uint32_t n = 0;
  if (m->history != NULL)
    n = history_near(m->history, m->words ? x->words : x->vector, K, near);
  double told = m->regressor != NULL ? regressor_log_length(m->regressor, x->vector) : 0;
  double deviation = m->regressor != NULL ? regressor_deviation(m->regressor) : 0;
  if (m->itself && estimate_from_itself(near, n, MOST, &p)) {
    m->hits++;
  } else if (m->both && m->regressor != NULL
                 ? estimate_from_both(near, n, m->s0, told, deviation, MOST, &p)
                 : estimate_from_neighbours(near, n, m->s0, MOST, &p)) {
    m->hits++;
  } else if (m->regressor != NULL) {
    estimate_from_log(told, deviation, MOST, &p);
  } else {
    double length = m->linear ? c->start + c->slope * (double)strlen(x->text) : c->mean;
    p.length = length > 1 ? (uint32_t)(length + .5) : 1;
  }
  return p;
}

static int bin(const struct corpus *c, double length)
{
  int b = (int)(length / c->range * BINS);
  return b < BINS ? b : BINS - 1;
}

static void judge(const char *name, struct method m)
{
  const struct corpus *c = m.corpus;
  double right = 0, error = 0, absolute = 0, squares = 0;
  double *errors = malloc(c->of[TEST] * sizeof *errors);
  size_t n = 0;
  if (errors == NULL)
    die("out of memory");
  for (size_t i = 0; i < c->n; i++) {
    const struct item *x = &c->items[i];
    if (x->part != TEST)
      continue;
    double length = predict(&m, x).length, off = fabs(length - x->length);
    right += bin(c, length) == bin(c, x->length);
    errors[n++] = off / x->length;
    error += off / x->length;
    absolute += off / c->range;
    squares += pow(log(length) - log(x->length), 2);
  }
  double count = (double)n;
  printf("| %-42s | %.3f | %.3f | %.3f | %.3f | %.3f | %.2f |\n", name, right / count,
         error / count, bench_median(errors, n), absolute / count, sqrt(squares / count),
         m.hits / count);
  free(errors);
}

/* Measures repeated prompts with equal answers, as at temperature 0: with and without
 * the rule that a prompt's own earlier answer alone decides. */
static void repeat(const struct corpus *c, const struct regressor *r)
{
  static const uint32_t known[] = {5, 8, 9};
  for (size_t i = 0; i < 2 * (sizeof known / sizeof *known); i++) {
    char name[64];
    bool itself = i % 2 == 1;
    struct history *h = remember(c, false, false, known[i / 2]);
    snprintf(name, sizeof name, "0.%u of prompts known%s", known[i / 2],
             itself ? ", told by themselves" : "");
    judge(name, (struct method){.corpus = c,
                                .history = h,
                                .s0 = r != NULL ? S0 : 0,
                                .regressor = r,
                                .both = true,
                                .itself = itself});
    history_destroy(h);
  }
}

static void compare(struct corpus *c, const struct regressor *r)
{
  struct history *near = remember(c, false, false, 0);
  struct history *all = remember(c, false, true, 0);
  struct history *words = remember(c, true, true, 0);
  printf("| method | bucket accuracy | mean relative error | median of it | mean error / "
         "range | deviation of log | found |\n| --- | --- | --- | --- | --- | --- | --- "
         "|\n");
  judge("mean of all", (struct method){.corpus = c});
  judge("prompt length, linear", (struct method){.corpus = c, .linear = true});
  judge("5 nearest of hashed words",
        (struct method){.corpus = c, .history = words, .words = true, .s0 = -1});
  judge("retrieval: 5 nearest from 0.8",
        (struct method){.corpus = c, .history = near, .s0 = S0, .regressor = r});
  judge("the same and the length model",
        (struct method){
            .corpus = c, .history = near, .s0 = S0, .regressor = r, .both = true});
  judge("retrieval: 5 nearest, any",
        (struct method){.corpus = c, .history = near, .s0 = -1, .regressor = r});
  judge("any, training prompts too",
        (struct method){.corpus = c, .history = all, .s0 = -1, .regressor = r});
  if (r != NULL)
    judge("length model alone", (struct method){.corpus = c, .regressor = r});
  history_destroy(near);
  history_destroy(all);
  history_destroy(words);
  repeat(c, r);
}

static void print_pairs(struct corpus *c, const struct regressor *r)
{
  struct history *near = remember(c, false, false, 0);
  struct method m = {
      .corpus = c, .history = near, .s0 = S0, .regressor = r, .both = true};
  for (size_t i = 0; i < c->n; i++) {
    if (c->items[i].part != TEST)
      continue;
    struct lls_prediction p = predict(&m, &c->items[i]);
    printf("%u,%u,%.3f\n", c->items[i].length, p.length, p.confidence);
  }
  history_destroy(near);
}

int main(int argc, char **argv)
{
  struct corpus c = {.share = 4};
  struct regressor *r = NULL;
  if (argc > 2 && strcmp(argv[1], "--fold") == 0) {
    c.fold = (uint32_t)atoi(argv[2]);
    argc -= 2, argv += 2;
  }
  if (argc > 2 && strcmp(argv[1], "--share") == 0) {
    c.share = (uint32_t)atoi(argv[2]);
    argc -= 2, argv += 2;
  }
  bool pairs = argc == 6 && strcmp(argv[1], "--pairs") == 0;
  argc -= pairs, argv += pairs;
  if (argc < 4 || argc > 5)
    die("lengths [--fold N] [--share N] [--pairs] CORPUS TOKENIZER ENCODER|hash|--train "
        "[LENGTH.MLP]");
  read_corpus(&c, argv[1], argv[2]);
  if (strcmp(argv[3], "--train") == 0) {
    print_training(&c);
    return 0;
  }
  encode(&c, argv[3]);
  fit(&c);
  if (argc > 4 && regressor_read(argv[4], c.dims, &host, &r) < 0)
    die("the length model cannot be read");
  if (pairs) {
    print_pairs(&c, r);
  } else {
    printf("%s, encoder %s: %zu prompts to train, %zu history, %zu to predict; mean "
           "%.0f tokens, bins of %.0f\n\n",
           argv[1], argv[3], c.of[TRAIN], c.of[HISTORY], c.of[TEST], c.mean,
           c.range / BINS);
    compare(&c, r);
  }
  for (size_t i = 0; i < c.n; i++) {
    free(c.items[i].text);
    free(c.items[i].vector);
    free(c.items[i].words);
  }
  free(c.items);
  regressor_free(r);
  return 0;
}
