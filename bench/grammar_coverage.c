/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many JSON Schemas compile, and whether their automata accept valid and refuse
 * invalid instances.
 *
 *   bench/grammar_coverage FOLDER [--loose] [--wrong] [--refused] [--times]
 *
 * FOLDER has files of MaskBench (guidance-ai/jsonschemabench, maskbench/data), each an
 * object with `schema` and `tests`, or of JSON-Schema-Test-Suite (tests/draft2020-12),
 * each an array of such objects. Prints a row for each data set: schemas; schemas which
 * compile; schemas without a wrongly judged instance; refused valid and accepted invalid
 * instances; the processor time to compile; then the reasons for refused schemas.
 * --loose: `strict` is false. --wrong: prints each wrongly judged instance and the place;
 * --refused: each refused schema and its reason; --times: each schema's time.
 *
 * An instance is written as text with ", " and ": " and its properties in the file's
 * order. Where the file has texts (bench/grammar_documents), they are judged unchanged.
 */
#include "core/base/json_parse.h"
#include "grammar_orders.h"

#include "bench/grammar_bytes.h"

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/json_schema.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_SETS    128
#define MOST_REASONS 256
#define MOST_TIMES   (1u << 16)

struct data_set {
  char name[48];
  unsigned schemas, compiled, passing, refused_valid, accepted_invalid, instances;
  unsigned by_order; /* refused_valid which another order of properties would pass */
};

struct reason {
  char text[160];
  unsigned n;
};

struct coverage {
  struct data_set sets[MOST_SETS], all;
  unsigned n_sets;
  struct reason reasons[MOST_REASONS];
  unsigned n_reasons;
  double us[MOST_TIMES]; /* times to compile, of schemas which compile */
  unsigned n_us;
  struct lls_vocabulary *vocabulary;
  bool strict, names_wrong, names_refused, tells_times;
};

static void die(const char *what)
{
  fprintf(stderr, "bench/grammar_coverage: %s\n", what);
  exit(1);
}

static struct lls_vocabulary *bytes(void)
{
  struct lls_vocabulary *made = grammar_bytes();
  if (made == NULL)
    die("out of memory");
  return made;
}

/* ---- counting ---- */

/* Returns the data set of a file: in MaskBench the name before "---" or the number, in
 * JSON-Schema-Test-Suite the file, which is of one keyword. */
static struct data_set *set_of(struct coverage *c, const char *file)
{
  char name[48];
  size_t n = strcspn(file, ".");
  const char *dashes = strstr(file, "---");
  if (dashes != NULL)
    n = (size_t)(dashes - file);
  else
    while (n > 1 && strchr("0123456789_", file[n - 1]) != NULL)
      n--;
  if (strncmp(file, "BFCL_", 5) == 0)
    n = 4;
  snprintf(name, sizeof name, "%.*s", (int)n, file);
  for (unsigned i = 0; i < c->n_sets; i++)
    if (strcmp(c->sets[i].name, name) == 0)
      return &c->sets[i];
  if (c->n_sets == MOST_SETS)
    die("too many data sets");
  strcpy(c->sets[c->n_sets].name, name);
  return &c->sets[c->n_sets++];
}

/* Counts a refusal by its keyword and reason, any other error by its first words. */
static void count_reason(struct coverage *c, const char *error)
{
  char text[160];
  const char *what = strstr(error, ": ");
  snprintf(text, sizeof text, "%s", what != NULL ? what + 2 : error);
  char *end = strstr(text, " (it is left out");
  if (end != NULL)
    *end = '\0';
  if ((end = strstr(text, " the regular expression")) != NULL && strrchr(text, ':') > end)
    memmove(end, strrchr(text, ':'), strlen(strrchr(text, ':')) + 1);
  if ((end = strstr(text, "\", not ")) != NULL)
    end[1] = '\0';
  for (unsigned i = 0; i < c->n_reasons; i++)
    if (strcmp(c->reasons[i].text, text) == 0) {
      c->reasons[i].n++;
      return;
    }
  if (c->n_reasons < MOST_REASONS) {
    strcpy(c->reasons[c->n_reasons].text, text);
    c->reasons[c->n_reasons++].n = 1;
  }
}

/* ---- one schema ---- */

static double now_us(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compile(struct coverage *c, const char *file, const json_t *schema,
                   struct lls_grammar **grammar, struct lls_error *err)
{
  static const struct lls_grammar_bounds bounds = {1u << 18, 16u << 20, 1u << 15};
  double begun = now_us();
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  if (tree == NULL)
    die("out of memory");
  lls_grammar_set_root(tree, lls_grammar_json_schema(tree, schema, c->strict));
  int rc = lls_grammar_compile(tree, c->vocabulary, &LLS_GRAMMAR_LIMITS, grammar, err);
  lls_grammar_tree_destroy(tree);
  double us = now_us() - begun;
  if (rc == 0 && c->n_us < MOST_TIMES)
    c->us[c->n_us++] = us;
  if (c->tells_times)
    printf("%s: %.0f us to %s\n", file, us, rc == 0 ? "compile" : "be refused");
  return rc;
}

/* Returns the instance's text. *taken is the number of bytes which the automaton
 * accepts, plus one if the text is complete and may end. */
static char *take(struct lls_grammar *grammar, const json_t *test, size_t *taken)
{
  const char *written = json_string_value(json_object_get(test, "text"));
  char *text = written != NULL ? strdup(written)
                               : json_dumps(json_object_get(test, "data"),
                                            JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  size_t n = 0;
  if (text == NULL || state == NULL)
    die("out of memory");
  lls_grammar_state_init(state, grammar);
  while (text[n] != '\0' && lls_grammar_accept_bytes(state, text + n, 1) >= 0)
    n++;
  *taken = n + (text[n] == '\0' && lls_grammar_may_end(state));
  free(state);
  return text;
}

static void name_wrong(const char *file, size_t index, const char *text, size_t n,
                       bool valid, bool by_order)
{
  if (valid)
    printf("%s: test %zu is valid%s; refused at the end of: %.*s\n", file, index,
           by_order ? " and taken in another order" : "",
           (int)(n < 70 ? n : 70) + (text[n] != '\0'), text + (n < 70 ? 0 : n - 70));
  else
    printf("%s: test %zu is invalid; accepted: %.200s\n", file, index, text);
}

/* Judges an instance. Returns true if the judgement differs from the file. */
static bool misjudges(const struct coverage *c, struct data_set *set,
                      struct lls_grammar *grammar, const char *file, size_t index,
                      const json_t *test)
{
  bool valid = json_is_true(json_object_get(test, "valid"));
  size_t n;
  char *text = take(grammar, test, &n);
  bool taken = n > strlen(text), by_order = false;
  json_t *data =
      valid && !taken ? lls_json_parse_string(text, JSON_DECODE_ANY, NULL) : NULL;
  if (data != NULL)
    by_order = grammar_takes_in_some_order(grammar, data);
  json_decref(data);
  if (valid != taken && c->names_wrong)
    name_wrong(file, index, text, n, valid, by_order);
  free(text);
  set->instances++;
  set->refused_valid += valid && !taken;
  set->by_order += by_order;
  set->accepted_invalid += !valid && taken;
  return valid != taken;
}

static void judge(struct coverage *c, struct data_set *set, const char *file,
                  const json_t *one)
{
  struct lls_grammar *grammar = NULL;
  struct lls_error err = {0};
  const json_t *test;
  size_t index;
  unsigned wrong = 0;
  set->schemas++;
  if (compile(c, file, json_object_get(one, "schema"), &grammar, &err) != 0) {
    if (c->names_refused)
      printf("%s: %s\n", file, err.text);
    count_reason(c, err.text);
    return;
  }
  set->compiled++;
  json_array_foreach(json_object_get(one, "tests"), index, test)
  {
    wrong += misjudges(c, set, grammar, file, index, test);
  }
  set->passing += wrong == 0;
  lls_grammar_unref(grammar);
}

static void judge_file(struct coverage *c, const char *folder, const char *file)
{
  char path[4096];
  size_t index;
  const json_t *one;
  snprintf(path, sizeof path, "%s/%s", folder, file);
  json_t *content = lls_json_parse_file(path, JSON_ALLOW_NUL, NULL);
  struct data_set *set = set_of(c, file);
  if (content == NULL) { /* a number too large, or nested too deep */
    set->schemas++;
    count_reason(c, "file: cannot be read as JSON");
  } else if (json_is_array(content)) {
    json_array_foreach(content, index, one)
    {
      judge(c, set, file, one);
    }
  } else {
    judge(c, set, file, content);
  }
  json_decref(content);
}

/* ---- the report ---- */

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct data_set *)a)->name, ((const struct data_set *)b)->name);
}

static int by_count(const void *a, const void *b)
{
  return (int)((const struct reason *)b)->n - (int)((const struct reason *)a)->n;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void print_set(const struct data_set *set)
{
  printf("| %-20s | %7u | %8u | %5.1f %% | %7u | %5u | %5u | %5u | %9u |\n", set->name,
         set->schemas, set->compiled, 100.0 * set->compiled / set->schemas, set->passing,
         set->refused_valid, set->by_order, set->accepted_invalid, set->instances);
}

static void report(struct coverage *c)
{
  qsort(c->sets, c->n_sets, sizeof c->sets[0], by_name);
  qsort(c->reasons, c->n_reasons, sizeof c->reasons[0], by_count);
  qsort(c->us, c->n_us, sizeof c->us[0], by_size);
  strcpy(c->all.name, "all");
  printf("| data set             | schemas | compiled |         | passing | "
         "valid refused | of these, for the order of properties | invalid accepted | "
         "instances |\n"
         "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (unsigned i = 0; i < c->n_sets; i++) {
    const struct data_set *set = &c->sets[i];
    print_set(set);
    c->all.schemas += set->schemas;
    c->all.compiled += set->compiled;
    c->all.passing += set->passing;
    c->all.refused_valid += set->refused_valid;
    c->all.by_order += set->by_order;
    c->all.accepted_invalid += set->accepted_invalid;
    c->all.instances += set->instances;
  }
  print_set(&c->all);
  if (c->n_us > 0)
    printf("\nto compile: p50 %.0f us, p90 %.0f us, p99 %.0f us, longest %.0f us\n\n",
           c->us[c->n_us / 2], c->us[c->n_us * 9 / 10], c->us[c->n_us * 99 / 100],
           c->us[c->n_us - 1]);
  for (unsigned i = 0; i < c->n_reasons; i++)
    printf("%6u  %s\n", c->reasons[i].n, c->reasons[i].text);
}

int main(int argc, char **argv)
{
  static struct coverage coverage = {.strict = true};
  struct dirent **files;
  if (argc < 2)
    die("FOLDER [--loose] [--wrong] [--refused] [--times]");
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--loose") == 0)
      coverage.strict = false;
    else if (strcmp(argv[i], "--wrong") == 0)
      coverage.names_wrong = true;
    else if (strcmp(argv[i], "--refused") == 0)
      coverage.names_refused = true;
    else if (strcmp(argv[i], "--times") == 0)
      coverage.tells_times = true;
    else
      die("options are --loose, --wrong, --refused and --times");
  }
  int n = scandir(argv[1], &files, NULL, alphasort);
  if (n < 0)
    die("the folder cannot be read");
  coverage.vocabulary = bytes();
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(files[i]->d_name, '.');
    if (dot != NULL && strcmp(dot, ".json") == 0)
      judge_file(&coverage, argv[1], files[i]->d_name);
    free(files[i]);
  }
  free(files);
  report(&coverage);
  lls_vocabulary_destroy(coverage.vocabulary);
  return 0;
}
