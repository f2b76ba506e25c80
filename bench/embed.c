/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders: how long a text takes, alone and in batches.
 *
 *   bench/embed FOLDER [f32|bf16|int8 [THREADS]]
 *       p50 and p90 of single texts of 8 to 128 tokens, and texts a second in batches
 *   bench/embed FOLDER [f32|bf16|int8 [THREADS]] --corpus FILE
 *       the same for the first 1,000 prompts of a JSON list of {instruction, input}
 *   bench/embed FOLDER [f32|bf16|int8 [THREADS]] --vectors
 *       reads a JSON string a line from stdin; prints the vector of each
 *
 * Prints wall time, and the process's CPU time divided by its threads: on a shared
 * machine the latter is what a quiet machine would take, if all threads are equally busy.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/base/json_parse.h"
#include "core/encoder/encoder.h"
#include "core/model/model_text.h"
#include "kernels/cpu/device.h"

#define RUNS 51

static void die(const char *what)
{
  fprintf(stderr, "bench/embed: %s\n", what);
  exit(1);
}

static double cpu_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void encode(struct lls_encoder *e, const struct lls_encoder_text *texts, size_t n,
                   float *vectors)
{
  struct lls_error err = {0};
  if (lls_encoder_encode(e, texts, n, vectors, &err) < 0)
    die(err.text);
}

/* ---- speed ------------------------------------------------------------------------- */

/* Writes a text of `tokens` tokens, [CLS] and [SEP] included, of words which are one
 * token in any English vocabulary. */
static size_t make_text(char *out, unsigned tokens)
{
  static const char *const words[] = {"the", "of", "and", "to", "in", "is", "a", "was"};
  size_t length = 0;
  for (unsigned i = 2; i < tokens; i++)
    length += (size_t)sprintf(out + length, "%s ", words[(i * 5) % 8]);
  return length;
}

static void measure(struct lls_encoder *e, unsigned tokens, unsigned batch,
                    unsigned threads, float *vectors)
{
  char text[2048];
  struct lls_encoder_text texts[32];
  double wall[RUNS], cpu[RUNS];
  size_t bytes = make_text(text, tokens);
  for (unsigned i = 0; i < batch; i++)
    texts[i] = (struct lls_encoder_text){text, bytes};
  for (unsigned run = 0; run < RUNS; run++) {
    double t0 = bench_seconds(), c0 = cpu_seconds();
    encode(e, texts, batch, vectors);
    wall[run] = bench_seconds() - t0;
    cpu[run] = (cpu_seconds() - c0) / threads;
  }
  double p50 = bench_median(wall, RUNS), p90 = wall[RUNS * 9 / 10];
  fflush(stdout);
  printf("%4u tokens x %2u  p50 %7.3f ms  p90 %7.3f ms  cpu/thread p50 %7.3f ms  "
         "%8.0f texts/s\n",
         tokens, batch, p50 * 1e3, p90 * 1e3, bench_median(cpu, RUNS) * 1e3, batch / p50);
}

static void speed(struct lls_encoder *e, unsigned threads)
{
  static const unsigned lengths[] = {8, 16, 32, 64, 128};
  float *vectors = calloc(32, lls_encoder_dims(e) * sizeof *vectors);
  if (vectors == NULL)
    die("out of memory");
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    measure(e, lengths[i], 1, threads, vectors);
  measure(e, 32, 8, threads, vectors);
  measure(e, 32, 32, threads, vectors);
  free(vectors);
}

/* ---- a corpus ---------------------------------------------------------------------- */

#define PROMPTS    1000
#define MAX_TOKENS 128 /* the limit of predictor retrieval */

struct prompt {
  char text[8192];
  struct lls_encoder_text view;
  double tokens, seconds;
};

/* Joins instruction and input to the prompt. Returns false if the row has no prompt. */
static bool read_prompt(const json_t *row, struct prompt *out)
{
  const char *asked = json_string_value(json_object_get(row, "instruction"));
  const char *input = json_string_value(json_object_get(row, "input"));
  if (asked == NULL)
    return false;
  int n =
      snprintf(out->text, sizeof out->text, "%s%s%s", asked,
               input != NULL && *input != '\0' ? "\n" : "", input != NULL ? input : "");
  out->view = (struct lls_encoder_text){out->text, (size_t)n};
  return n > 0 && (size_t)n < sizeof out->text;
}

static double count_tokens(const struct lls_tokenizer *t,
                           const struct lls_encoder_text *text)
{
  struct lls_error err;
  int32_t *ids;
  size_t n;
  if (lls_tokenizer_encode(t, text->text, text->bytes, true, &ids, &n, &err) < 0)
    die(err.text);
  free(ids);
  return (double)(n < MAX_TOKENS ? n : MAX_TOKENS);
}

static size_t read_prompts(const char *path, const char *folder, struct prompt *out)
{
  struct lls_error err;
  struct lls_tokenizer *t;
  size_t index, n = 0;
  json_t *row, *root = lls_json_parse_file(path, 0, NULL);
  if (!json_is_array(root))
    die("the corpus is no JSON list");
  if (lls_model_tokenizer(folder, &t, &err) < 0)
    die(err.text);
  json_array_foreach(root, index, row)
  {
    if (n < PROMPTS && read_prompt(row, &out[n])) {
      out[n].tokens = count_tokens(t, &out[n].view);
      n++;
    }
  }
  lls_tokenizer_free(t);
  json_decref(root);
  if (n == 0)
    die("the corpus has no prompts");
  return n;
}

/* Returns the p-quantile (0 to 1) of sorted values. */
static double part_of(const double *sorted, size_t n, double p)
{
  return sorted[(size_t)(p * (double)(n - 1))];
}

static void measure_corpus(struct lls_encoder *e, const char *path, const char *folder)
{
  struct prompt *prompts = malloc(PROMPTS * sizeof *prompts);
  double *tokens = malloc(2 * PROMPTS * sizeof *tokens), *wall = tokens + PROMPTS;
  float *vector = malloc(lls_encoder_dims(e) * sizeof *vector);
  if (prompts == NULL || tokens == NULL || vector == NULL)
    die("out of memory");
  size_t n = read_prompts(path, folder, prompts);
  for (size_t i = 0; i < n && i < RUNS; i++)
    encode(e, &prompts[i].view, 1, vector);
  for (size_t i = 0; i < n; i++) {
    double begin = bench_seconds();
    encode(e, &prompts[i].view, 1, vector);
    wall[i] = bench_seconds() - begin;
    tokens[i] = prompts[i].tokens;
  }
  bench_median(wall, n); /* bench_median sorts */
  bench_median(tokens, n);
  printf("%zu prompts, tokens p50 %.0f p90 %.0f (at most %d): p50 %.3f ms  p90 %.3f ms  "
         "p99 %.3f ms\n",
         n, part_of(tokens, n, .5), part_of(tokens, n, .9), MAX_TOKENS,
         part_of(wall, n, .5) * 1e3, part_of(wall, n, .9) * 1e3,
         part_of(wall, n, .99) * 1e3);
  free(vector);
  free(tokens);
  free(prompts);
}

/* ---- vectors ----------------------------------------------------------------------- */

static void print_vectors(struct lls_encoder *e)
{
  uint32_t dims = lls_encoder_dims(e);
  float *vector = malloc(dims * sizeof *vector);
  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) >= 0) {
    json_t *text = lls_json_parse_string(line, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_is_string(text) || vector == NULL)
      die("a line that is no JSON string");
    encode(e,
           &(struct lls_encoder_text){json_string_value(text), json_string_length(text)},
           1, vector);
    for (uint32_t d = 0; d < dims; d++)
      printf("%c%.8g", d == 0 ? '[' : ',', (double)vector[d]);
    puts("]");
    json_decref(text);
  }
  free(line);
  free(vector);
}

static enum lls_weight_format format_of(const char *name)
{
  if (strcmp(name, "f32") == 0)
    return LLS_WEIGHTS_F32;
  if (strcmp(name, "bf16") == 0)
    return LLS_WEIGHTS_BF16;
  if (strcmp(name, "int8") == 0)
    return LLS_WEIGHTS_INT8;
  die("weights are f32, bf16 or int8");
  return LLS_WEIGHTS_AUTO;
}

int main(int argc, char **argv)
{
  struct lls_error err = {0};
  struct lls_encoder *e;
  const char *corpus = NULL;
  bool vectors = argc > 2 && strcmp(argv[argc - 1], "--vectors") == 0;
  argc -= vectors;
  if (argc > 3 && strcmp(argv[argc - 2], "--corpus") == 0) {
    corpus = argv[argc - 1];
    argc -= 2;
  }
  if (argc < 2 || argc > 4)
    die("bench/embed FOLDER [f32|bf16|int8 [THREADS]] [--corpus FILE | --vectors]");
  struct lls_encoder_options options = {
      .cpu = &lls_cpu_device,
      .folder = argv[1],
      .weights = argc > 2 ? format_of(argv[2]) : LLS_WEIGHTS_F32,
      .threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 2,
      .max_rows = 1024,
      .max_tokens = corpus != NULL ? MAX_TOKENS : 0,
  };
  if (lls_encoder_create(&options, &e, &err) < 0)
    die(err.text);
  if (corpus != NULL)
    measure_corpus(e, corpus, argv[1]);
  else if (vectors)
    print_vectors(e);
  else
    speed(e, options.threads);
  lls_encoder_destroy(e);
  return 0;
}
