/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-perplexity: the perplexity of a model over a text, and its distance from the
 * same model with other weights, or from another model with the same tokeniser.
 *
 * The definition is that of llama.cpp's llama-perplexity, so that figures can be
 * compared: windows of `context` tokens that do not overlap, BOS in the place of the
 * first token where the model adds one; of each window the second half is scored.
 * Tokens after the last whole window are dropped. Exit status as llmserve-sim's.
 */
#include "config.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file.h"
#include "core/base/progress_bar.h"
#include "core/plugin/crash.h"
#include "core/model/model_text.h"
#include "tools/cli/cli.h"
#include "tools/perplexity/score.h"
#include "tools/perplexity/scorer.h"

#define EXIT_USAGE 2

#define WEIGHTS "auto|f32|bf16|int8|int4"

static const char *const weight_names[] = {"auto", "f32", "bf16", "int8", "int4"};

enum { CACHE_AUTO, CACHE_INT8 };

static const char *const cache_names[] = {"", ", cache int8"};

enum { AGAINST_NONE }; /* followed by 1 + enum lls_weight_format */

struct options {
  const char *model, *file; /* positional arguments, not in the table */
  int64_t weights, cache, against;
  const char *reference;
  int64_t context, chunks, threads;
  bool json, quiet, help, version;
};

#define OPTIONS struct options
#include "tools/cli/table.h"

static const struct lls_param params[] = {
    CHOICE(weights, "auto", WEIGHTS, "of the model; auto: its own, as [model] weights"),
    CHOICE(cache, "auto", "auto|int8",
           "K and V; int8: of full blocks, as [cache] int8 = all, in steps of a block"),
    CHOICE(
        against, "none", "none|" WEIGHTS,
        "compare with the same model in these weights, such as f32: mean KL divergence "
        "and how often both find the same token the likeliest"),
    LLS_PARAM_STRING(struct options, reference, "",
                     "compare with this model of the same tokens instead, in the weights "
                     "of --against (none: its own)",
                     .flags = LLS_OPTION_FILE),
    INT(context, "512", 4, 1 << 24, "tokens", "of a window"),
    INT(chunks, "0", 0, 1 << 30, "windows", "score only the first ones; 0: all"),
    INT(threads, "0", 0, 4096, "", "0: one per core"),
    FLAG(json, "false", "print the report as a JSON object, and no progress"),
    FLAG(quiet, "false", "show no progress"),
    FLAG(help, "false", "show this"),
    FLAG(version, "false", "show the version"),
};

static const struct lls_option_group group = {
    .title = "Options",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(struct options)},
};

struct tool {
  struct options options;
  int32_t *tokens; /* (n_tokens) tokens of the file */
  size_t n_tokens;
  int32_t bos;       /* first token of each window; -1: none */
  uint32_t n_chunks; /* number of windows to score */
  bool compares;
  struct lls_scorer model, reference;
  struct lls_score score;
};

static uint32_t first_scored(const struct tool *t)
{
  return (uint32_t)t->options.context / 2;
}

/* ---- the text ---------------------------------------------------------------------- */

static int encode(struct tool *t, const struct lls_tokenizer *tokenizer,
                  struct lls_error *err)
{
  unsigned char *text;
  size_t bytes;
  int rc = lls_file_map(t->options.file, &text, &bytes, err);
  if (rc < 0)
    return rc;
  rc = lls_tokenizer_encode(tokenizer, (const char *)text, bytes, true, &t->tokens,
                            &t->n_tokens, err);
  munmap(text, bytes);
  int32_t bos = lls_tokenizer_bos(tokenizer);
  t->bos = rc == 0 && t->n_tokens > 0 && t->tokens[0] == bos ? bos : -1;
  return rc;
}

static int read_text(struct tool *t, struct lls_error *err)
{
  struct lls_tokenizer *tokenizer;
  int rc = lls_model_tokenizer(t->options.model, &tokenizer, err);
  if (rc < 0)
    return rc;
  rc = encode(t, tokenizer, err);
  lls_tokenizer_free(tokenizer);
  if (rc < 0)
    return rc;
  size_t chunks = t->n_tokens / (size_t)t->options.context;
  if (chunks == 0)
    return lls_fail(err, -EINVAL,
                    "%s: %zu tokens, and a window has %lld: expected a longer text or a "
                    "smaller --context",
                    t->options.file, t->n_tokens, (long long)t->options.context);
  if (t->options.chunks > 0 && chunks > (size_t)t->options.chunks)
    chunks = (size_t)t->options.chunks;
  t->n_chunks = (uint32_t)chunks;
  return 0;
}

/* ---- scoring ----------------------------------------------------------------------- */

static bool quiet(const struct options *o)
{
  return o->quiet || o->json;
}

static int open_model(struct tool *t, struct lls_error *err)
{
  return lls_scorer_open(&t->model,
                         &(struct lls_scorer_options){
                             .model = t->options.model,
                             .weights = (enum lls_weight_format)t->options.weights,
                             .threads = (uint32_t)t->options.threads,
                             .context = (uint32_t)t->options.context,
                             .int8 = t->options.cache == CACHE_INT8,
                             .quiet = quiet(&t->options),
                         },
                         err);
}

static enum lls_weight_format reference_weights(const struct options *o)
{
  return o->against == AGAINST_NONE ? LLS_WEIGHTS_AUTO
                                    : (enum lls_weight_format)(o->against - 1);
}

static const char *reference_model(const struct options *o)
{
  return o->reference[0] != '\0' ? o->reference : o->model;
}

static int open_reference(struct tool *t, struct lls_error *err)
{
  const struct options *o = &t->options;
  t->compares = o->against != AGAINST_NONE || o->reference[0] != '\0';
  if (!t->compares)
    return 0;
  int rc = lls_scorer_open(&t->reference,
                           &(struct lls_scorer_options){
                               .model = reference_model(o),
                               .weights = reference_weights(o),
                               .threads = (uint32_t)o->threads,
                               .context = (uint32_t)o->context,
                               .quiet = quiet(o),
                           },
                           err);
  if (rc == 0 && t->reference.config.vocab != t->model.config.vocab)
    rc =
        lls_fail(err, -EINVAL,
                 "--reference: a vocabulary of %u, and the model's is %u: only models of "
                 "the same tokens can be compared",
                 t->reference.config.vocab, t->model.config.vocab);
  return rc;
}

/* Computes the rows that predict the n tokens after position `first`. */
static int score_rows(struct tool *t, const int32_t *window, uint32_t first, uint32_t n,
                      struct lls_error *err)
{
  const uint32_t vocab = t->model.config.vocab;
  const float *logits, *other = NULL;
  int rc = lls_scorer_rows(&t->model, window + first, first, n, &logits, err);
  if (rc == 0 && t->compares)
    rc = lls_scorer_rows(&t->reference, window + first, first, n, &other, err);
  for (uint32_t i = 0; rc == 0 && i < n; i++)
    lls_score_add(&t->score, logits + (size_t)i * vocab,
                  other != NULL ? other + (size_t)i * vocab : NULL, vocab,
                  window[first + i + 1]);
  return rc;
}

static int score_window(struct tool *t, int32_t *window, struct lls_error *err)
{
  /* the last token is left out, since its row predicts no token of the window */
  const uint32_t last = (uint32_t)t->options.context - 1;
  uint32_t at = first_scored(t);
  if (t->bos >= 0)
    window[0] = t->bos;
  int rc = lls_scorer_skip(&t->model, window, 0, at, err);
  if (rc == 0 && t->compares)
    rc = lls_scorer_skip(&t->reference, window, 0, at, err);
  for (uint32_t n; rc == 0 && at < last; at += n) {
    n = last - at < t->model.rows ? last - at : t->model.rows;
    rc = score_rows(t, window, at, n, err);
  }
  return rc;
}

static int score(struct tool *t, struct lls_error *err)
{
  struct lls_progress progress;
  int rc = 0;
  lls_progress_begin(&progress, !quiet(&t->options), "llmserve-perplexity");
  for (uint32_t i = 0; rc == 0 && i < t->n_chunks; i++) {
    rc = score_window(t, t->tokens + (size_t)i * (size_t)t->options.context, err);
    char more[40];
    snprintf(more, sizeof more, "perplexity %.4f", exp(t->score.loss.mean));
    lls_progress_count(&progress, i + 1, t->n_chunks, "windows", more);
  }
  lls_progress_end(&progress);
  return rc;
}

/* ---- the report -------------------------------------------------------------------- */

/* Prints exp of a mean; its error is the mean's error times exp of the mean. */
static void print_exp(const char *name, const struct lls_mean *m)
{
  double x = exp(m->mean);
  printf("%-24s %10.4f +- %.4f\n", name, x, x * lls_mean_error(m));
}

static void print_comparison(const struct tool *t)
{
  const struct lls_score *s = &t->score;
  printf("reference: %s, weights %s\n", reference_model(&t->options),
         weight_names[reference_weights(&t->options)]);
  print_exp("its perplexity", &s->reference_loss);
  print_exp("ratio to it", &s->difference);
  printf("%-24s %10.6f +- %.6f nats, KL(reference || model)\n", "mean KL divergence",
         s->divergence.mean, lls_mean_error(&s->divergence));
  printf("%-24s %10.3f +- %.3f %%\n", "same likeliest token", 100 * s->agreement.mean,
         100 * lls_mean_error(&s->agreement));
}

static void print(const struct tool *t)
{
  const struct options *o = &t->options;
  const uint32_t context = (uint32_t)o->context;
  printf("model: %s, weights %s%s\n", o->model, weight_names[o->weights],
         cache_names[o->cache]);
  printf("text: %s, %zu tokens: %u window%s of %u%s; of each the tokens %u to %u are "
         "scored\n",
         o->file, t->n_tokens, t->n_chunks, t->n_chunks == 1 ? "" : "s", context,
         t->bos >= 0 ? ", BOS in the place of their first token" : "",
         first_scored(t) + 2, context);
  printf("scored tokens: %llu; +- is one standard error\n",
         (unsigned long long)t->score.loss.n);
  print_exp("perplexity", &t->score.loss);
  if (t->compares)
    print_comparison(t);
}

/* Adds NAME and NAME_error, one standard error, to the report. */
static void add_measured(json_t *report, const char *name, double x, double error)
{
  char error_name[64];
  snprintf(error_name, sizeof error_name, "%s_error", name);
  json_object_set_new(report, name, json_real(x));
  json_object_set_new(report, error_name, json_real(error));
}

static void add_exp(json_t *report, const char *name, const struct lls_mean *m)
{
  double x = exp(m->mean);
  add_measured(report, name, x, x * lls_mean_error(m));
}

static void add_comparison(json_t *report, const struct tool *t)
{
  const struct lls_score *s = &t->score;
  json_object_set_new(report, "reference", json_string(reference_model(&t->options)));
  json_object_set_new(report, "reference_weights",
                      json_string(weight_names[reference_weights(&t->options)]));
  add_exp(report, "reference_perplexity", &s->reference_loss);
  add_exp(report, "ratio", &s->difference);
  add_measured(report, "kl_divergence", s->divergence.mean,
               lls_mean_error(&s->divergence));
  add_measured(report, "same_likeliest_token", s->agreement.mean,
               lls_mean_error(&s->agreement));
}

/* The members of `print` as a JSON object. A name that is not UTF-8 has no member. */
static int print_json(const struct tool *t, struct lls_error *err)
{
  const struct options *o = &t->options;
  json_t *report = json_pack(
      "{s:s*, s:s, s:s, s:s*, s:I, s:I, s:I, s:I}", "model", o->model, "weights",
      weight_names[o->weights], "cache", o->cache == CACHE_INT8 ? "int8" : "auto", "text",
      o->file, "tokens", (json_int_t)t->n_tokens, "context", (json_int_t)o->context,
      "windows", (json_int_t)t->n_chunks, "scored_tokens", (json_int_t)t->score.loss.n);
  add_exp(report, "perplexity", &t->score.loss);
  if (t->compares)
    add_comparison(report, t);
  int rc = report == NULL || json_dumpf(report, stdout, JSON_INDENT(2)) != 0
               ? lls_fail(err, -ENOMEM, "the report cannot be made")
               : 0;
  putchar('\n');
  json_decref(report);
  return rc;
}

/* ---- the command ------------------------------------------------------------------- */

static void help(struct options *o)
{
  const struct lls_bound_options bound = {&group, o};
  puts("Usage: llmserve-perplexity MODEL FILE [OPTION]...\n"
       "Measures how well a model predicts a text. MODEL is a folder or a .gguf file,\n"
       "FILE a text. The text is cut into windows of --context tokens; in each, which\n"
       "begins with BOS in the place of its first token if the model adds one, the\n"
       "second half is scored, every token by what precedes it in the window; what\n"
       "is left at the end of the text is not. Perplexity is exp of the mean of\n"
       "-ln p(token), as llama.cpp's llama-perplexity has it.");
  lls_options_help(&bound, 1, stdout);
}

static int measure(struct tool *t, struct lls_error *err)
{
  if (t->options.version) {
    puts("llmserve-perplexity " PACKAGE_VERSION);
    return 0;
  }
  if (t->options.help) {
    help(&t->options);
    return 0;
  }
  if (t->options.file == NULL)
    return lls_fail(err, -EINVAL, "expected a MODEL and a FILE; try --help");
  int rc = read_text(t, err);
  if (rc == 0)
    rc = open_model(t, err);
  if (rc == 0)
    rc = open_reference(t, err);
  if (rc == 0)
    rc = score(t, err);
  if (rc == 0 && t->options.json)
    rc = print_json(t, err);
  else if (rc == 0)
    print(t);
  if (rc == 0 && (fflush(stdout) != 0 || ferror(stdout)))
    rc = lls_fail(err, -EIO, "the report cannot be written");
  return rc;
}

/* Takes MODEL and FILE, which come first; returns their number. */
static int take_arguments(struct options *o, int argc, char **argv)
{
  int n = 0;
  const char **const places[] = {&o->model, &o->file};
  while (n < 2 && n + 1 < argc && strncmp(argv[n + 1], "--", 2) != 0) {
    *places[n] = argv[n + 1];
    n++;
  }
  return n;
}

int main(int argc, char **argv)
{
  struct tool t = {.n_tokens = 0};
  const struct lls_bound_options bound = {&group, &t.options};
  struct lls_error err = {0};
  lls_crash_install();
  lls_crash_may_exit(); /* the tool itself may exit at any time, a plugin may not */
  int rc = lls_options_default(&bound, 1, &err);
  if (rc == 0) {
    int n = take_arguments(&t.options, argc, argv);
    rc = lls_options_parse(&bound, 1, argc - n, argv + n, &err);
    if (rc == 0)
      rc = measure(&t, &err);
    lls_scorer_close(&t.reference);
    lls_scorer_close(&t.model);
    free(t.tokens);
    lls_options_release(&bound, 1);
  }
  if (rc == 0)
    return EXIT_SUCCESS;
  fprintf(stderr, "llmserve-perplexity: %s\n", lls_error_text(&err, rc));
  return rc == -EINVAL || rc == -ERANGE || rc == -ENOENT ? EXIT_USAGE : EXIT_FAILURE;
}
