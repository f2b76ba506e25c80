/* SPDX-License-Identifier: Apache-2.0 */
/* Building a workload: source, selection, arrivals, classes, SLOs, in this order. */
#include "tools/workload/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/model_text.h"
#include "tools/workload/build.h"
#include "tools/workload/lengths.h"
#include "tools/workload/sessions.h"

#define DEFAULT_PROMPTS 1000 /* vLLM's default */
#define LABEL_MAX       16

static int no_memory(struct lls_error *err)
{
  return lls_fail(err, -ENOMEM, "no memory for the workload");
}

/* ---- the source -------------------------------------------------------------------- */

static const char *path_of(const struct lls_workload_options *o)
{
  return o->trace[0] != '\0' ? o->trace : o->dataset_path;
}

static bool named(const struct lls_workload_options *o, const char *name)
{
  return strcmp(o->dataset_name, name) == 0;
}

/* Returns the number of rows: made by an endless source, or drawn from a file without
 * times. */
static uint32_t wanted(const struct lls_workload_options *o)
{
  double rate = NAN;
  lls_rate_parse(o->request_rate, &rate, NULL);
  if (o->num_prompts != LLS_NEVER)
    return (uint32_t)fmin((double)o->num_prompts, LLS_ROWS_MAX);
  if (o->duration != LLS_NEVER && isfinite(rate))
    return (uint32_t)fmax(
        1, fmin(ceil(rate * (double)o->duration / LLS_NS_PER_S), LLS_ROWS_MAX));
  return DEFAULT_PROMPTS;
}

static int check_name(const struct lls_workload_options *o, struct lls_error *err)
{
  size_t length = strlen(o->dataset_name);
  for (const char *at = lls_read_formats; at != NULL; at = strchr(at, '|')) {
    at += *at == '|';
    if (strcspn(at, "|") == length && strncmp(at, o->dataset_name, length) == 0)
      return 0;
  }
  return lls_fail(
      err, -EINVAL,
      "--dataset-name: expected random, prefix_repetition, agents or one of %s; found "
      "'%s'",
      lls_read_formats, o->dataset_name);
}

bool lls_workload_is_random(const struct lls_workload_options *o)
{
  return named(o, "random") || (named(o, "auto") && path_of(o)[0] == '\0');
}

static int load_rows(const struct lls_workload_options *o, struct lls_rows *rows,
                     struct lls_error *err)
{
  const char *path = path_of(o);
  if (o->trace[0] != '\0' && o->dataset_path[0] != '\0')
    return lls_fail(err, -EINVAL, "--trace and --dataset-path: expected one of them");
  if (named(o, "prefix_repetition"))
    return lls_make_prefix_repetition(o, wanted(o), rows, err);
  if (named(o, "agents"))
    return lls_make_agents(o, wanted(o), rows, err);
  if (lls_workload_is_random(o))
    return lls_make_random(o, wanted(o), rows, err);
  int rc = check_name(o, err);
  if (rc < 0)
    return rc;
  if (path[0] == '\0')
    return lls_fail(err, -EINVAL, "--dataset-name %s: expected --dataset-path FILE",
                    o->dataset_name);
  return lls_read(o->dataset_name, path, rows, err);
}

/* ---- lengths ----------------------------------------------------------------------- */

static int parse_lengths(const char *option, const char *text, int64_t fixed,
                         struct lls_lengths **out, struct lls_error *err)
{
  char as_text[48];
  *out = NULL;
  if (fixed != LLS_NEVER)
    snprintf(as_text, sizeof as_text, "fixed:%lld", (long long)fixed);
  else if (text[0] == '\0')
    return 0;
  int rc = lls_lengths_parse(fixed != LLS_NEVER ? as_text : text, out, err);
  return rc < 0 ? lls_fail_at(err, rc, "%s", option) : 0;
}

/* Sets the length; a prompt of another length loses its text and its ids. */
static void set_prompt_length(struct lls_item *row, uint32_t length)
{
  if (row->ids != NULL && length > row->prompt_tokens)
    row->ids = NULL;
  row->text = NULL;
  row->prompt_tokens = length;
}

static int set_lengths(const struct lls_workload_options *o, struct lls_rows *rows,
                       struct lls_error *err)
{
  struct lls_lengths *inputs, *outputs;
  uint64_t seed = (uint64_t)o->seed;
  int rc = parse_lengths("--input-lengths", o->input_lengths, o->input_len, &inputs, err);
  if (rc < 0)
    return rc;
  rc = parse_lengths("--output-lengths", o->output_lengths, o->output_len, &outputs, err);
  if (rc == 0 && rows->sessions.n > 0 && (inputs != NULL || outputs != NULL))
    rc =
        lls_fail(err, -EINVAL,
                 "--input-lengths and --output-lengths: the turns of sessions keep their "
                 "own lengths");
  for (uint32_t i = 0; rc == 0 && i < rows->n; i++) {
    struct lls_random input = lls_random_at(seed, LLS_STREAM_INPUT, i);
    struct lls_random output = lls_random_at(seed, LLS_STREAM_OUTPUT, i);
    if (inputs != NULL)
      set_prompt_length(&rows->items[i], lls_lengths_draw(inputs, &input));
    if (outputs != NULL)
      rows->items[i].output_tokens = lls_lengths_draw(outputs, &output);
  }
  lls_lengths_free(inputs);
  lls_lengths_free(outputs);
  return rc;
}

static int64_t or_else(int64_t option, int64_t fallback)
{
  return option == LLS_NEVER ? fallback : option;
}

/* Is the row's length within the options' bounds? The defaults for ShareGPT are vLLM's
 * (is_valid_sequence). */
static bool has_length(const struct lls_workload_options *o, const struct lls_item *row)
{
  bool chats = named(o, "sharegpt");
  int64_t least = or_else(o->min_len, chats ? 4 : 1);
  int64_t most_input = or_else(o->max_input_len, chats ? 1024 : INT64_MAX);
  int64_t most = or_else(o->max_total_len, chats ? 2048 : INT64_MAX);
  int64_t total = (int64_t)row->prompt_tokens + row->output_tokens;
  return row->prompt_tokens >= least && row->output_tokens >= least &&
         row->prompt_tokens <= most_input && total <= most;
}

/* Filters rows by length. A session ends before its first turn that is left out. */
static int filter(const struct lls_workload_options *o, struct lls_rows *rows,
                  struct lls_rows *turns, struct lls_error *err)
{
  uint32_t kept = 0, kept_turns = 0, cut = 0;
  for (uint32_t i = 0; i < rows->n; i++)
    if (has_length(o, &rows->items[i]))
      rows->items[kept++] = rows->items[i];
  rows->n = kept;
  for (uint32_t i = 0; i < turns->n; i++) {
    const struct lls_item *turn = &turns->items[i];
    if (turn->session_number != cut && !has_length(o, turn))
      cut = turn->session_number;
    if (turn->session_number != cut)
      turns->items[kept_turns++] = *turn;
  }
  turns->n = kept_turns;
  return kept > 0
             ? 0
             : lls_fail(err, -EINVAL,
                        "no request has a length within --min-len, --max-input-len and "
                        "--max-total-len");
}

/* ---- selection --------------------------------------------------------------------- */

static bool keeps_times(const struct lls_workload_options *o, const struct lls_rows *rows)
{
  return rows->timed &&
         (o->trace[0] != '\0' || o->arrivals == LLS_ARRIVALS_TRACE ||
          (o->arrivals == LLS_ARRIVALS_AUTO && strcmp(o->request_rate, "auto") == 0));
}

static void shuffle(uint64_t seed, struct lls_rows *rows)
{
  struct lls_random random = lls_random_at(seed, LLS_STREAM_SHUFFLE, 0);
  for (uint32_t i = rows->n; i > 1; i--) {
    uint32_t j = (uint32_t)lls_random_below(&random, i);
    struct lls_item row = rows->items[i - 1];
    rows->items[i - 1] = rows->items[j];
    rows->items[j] = row;
  }
}

/* Fills up to n rows with copies of rows drawn at random. A copy has no label, since
 * labels are unique. */
static int oversample(uint64_t seed, uint32_t n, struct lls_rows *rows)
{
  struct lls_random random = lls_random_at(seed, LLS_STREAM_SHUFFLE, 1);
  uint32_t distinct = rows->n;
  while (rows->n < n) {
    uint32_t from = (uint32_t)lls_random_below(&random, distinct);
    struct lls_item *row = lls_rows_add(rows);
    if (row == NULL)
      return -ENOMEM;
    *row = rows->items[from];
    row->label = NULL;
  }
  return 0;
}

static int select_rows(const struct lls_workload_options *o, struct lls_rows *rows,
                       struct lls_error *err)
{
  bool timed = keeps_times(o, rows);
  bool all = o->num_prompts == LLS_NEVER && (timed || o->trace[0] != '\0');
  uint32_t n = all ? rows->n : wanted(o);
  bool from_file =
      !named(o, "prefix_repetition") && !named(o, "agents") && path_of(o)[0] != '\0';
  if (from_file && !timed && !o->disable_shuffle && o->trace[0] == '\0')
    shuffle((uint64_t)o->seed, rows);
  if (rows->n > n)
    rows->n = n;
  if (rows->n < n && !timed && !o->no_oversample && rows->sessions.n == 0 &&
      oversample((uint64_t)o->seed, n, rows))
    return no_memory(err);
  return 0;
}

/* ---- finishing --------------------------------------------------------------------- */

static int64_t last_arrival(const struct lls_rows *rows)
{
  int64_t last = 0;
  for (uint32_t i = 0; i < rows->n; i++)
    if (rows->items[i].arrival_ns > last)
      last = rows->items[i].arrival_ns;
  return last;
}

/* Orders by arrival; then come turns that follow others, then items of batches, batch
 * by batch. */
static int in_order(const void *a, const void *b)
{
  const struct lls_item *x = a, *y = b;
  if (x->batch != y->batch)
    return x->batch < y->batch ? -1 : 1;
  if (lls_item_follows(x) != lls_item_follows(y))
    return lls_item_follows(x) ? 1 : -1;
  if (x->arrival_ns != y->arrival_ns)
    return x->arrival_ns < y->arrival_ns ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Returns the least power of two that holds every answer, so that it reveals nothing
 * about a single one. */
static uint32_t bound_of(const struct lls_rows *rows)
{
  uint32_t bound = 1;
  for (uint32_t i = 0; i < rows->n; i++)
    while (bound < rows->items[i].output_tokens)
      bound *= 2;
  return bound;
}

static int finish_rows(const struct lls_workload_options *o, struct lls_rows *rows,
                       struct lls_error *err)
{
  uint32_t bound =
      o->max_new_tokens != LLS_NEVER ? (uint32_t)o->max_new_tokens : bound_of(rows);
  for (uint32_t i = 0; i < rows->n; i++)
    rows->items[i].index = i;
  qsort(rows->items, rows->n, sizeof *rows->items, in_order);
  for (uint32_t i = 0; i < rows->n; i++) {
    struct lls_item *row = &rows->items[i];
    char label[LABEL_MAX];
    row->index = i;
    if (row->max_new_tokens == 0)
      row->max_new_tokens = bound;
    if (row->output_tokens > row->max_new_tokens)
      row->output_tokens = row->max_new_tokens;
    if (row->label != NULL)
      continue;
    int length = snprintf(label, sizeof label, "r%u", i);
    row->label = lls_arena_text(rows->arena, label, (size_t)length);
    if (row->label == NULL)
      return no_memory(err);
  }
  return lls_sessions_link(rows, err);
}

/* Selects rows and gives them times and classes; `turns` follow rows of their
 * sessions. */
static int place_rows(const struct lls_workload_options *o, struct lls_rows *rows,
                      struct lls_rows *turns, struct lls_error *err)
{
  const char *source = path_of(o)[0] != '\0' ? path_of(o) : o->dataset_name;
  int rc = lls_sessions_split(rows, turns, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "%s", source);
  rc = filter(o, rows, turns, err);
  if (rc == 0)
    rc = select_rows(o, rows, err);
  if (rc == 0)
    rc = lls_set_arrivals(o, rows, err);
  if (rc == 0)
    rc = lls_set_classes(o, rows, err);
  return rc == 0 ? lls_sessions_join(rows, turns, err) : rc;
}

static int build_rows(const struct lls_workload_options *o, struct lls_rows *rows,
                      struct lls_error *err)
{
  double rate;
  struct lls_rows turns = {0};
  int rc = lls_rate_parse(o->request_rate, &rate, err);
  if (rc == 0)
    rc = load_rows(o, rows, err);
  if (rc == 0)
    rc = set_lengths(o, rows, err);
  if (rc == 0)
    rc = place_rows(o, rows, &turns, err);
  lls_rows_free(&turns);
  if (rc == 0)
    rc = lls_add_batches(o, last_arrival(rows), rows, err);
  if (rc == 0)
    rc = lls_set_slos(o, rows, err);
  return rc == 0 ? finish_rows(o, rows, err) : rc;
}

int lls_workload_build(const struct lls_workload_options *o, struct lls_workload *out,
                       struct lls_error *err)
{
  struct lls_rows rows = {.arena = lls_arena_create()};
  struct lls_tokenizer *tokenizer = NULL;
  const char *source = path_of(o)[0] != '\0' ? path_of(o) : o->dataset_name;
  int rc = rows.arena == NULL ? no_memory(err) : 0;
  if (rc == 0 && o->tokenizer[0] != '\0')
    rc = lls_model_tokenizer(o->tokenizer, &tokenizer, err);
  rows.tokenizer = tokenizer;
  if (rc == 0)
    rc = build_rows(o, &rows, err);
  lls_tokenizer_free(tokenizer);
  if (rc < 0) {
    lls_rows_free(&rows);
    lls_arena_destroy(rows.arena);
    return rc;
  }
  *out = (struct lls_workload){
      .items = rows.items,
      .n_items = rows.n,
      .n_sessions = rows.sessions.n,
      .n_tenants = rows.n_tenants,
      .last_arrival_ns = last_arrival(&rows),
      .seed = (uint64_t)o->seed,
      .source = lls_arena_text(rows.arena, source, strlen(source)),
      .arena = rows.arena,
  };
  lls_names_free(&rows.sessions);
  return 0;
}

void lls_workload_free(struct lls_workload *workload)
{
  free(workload->items);
  lls_arena_destroy(workload->arena);
  *workload = (struct lls_workload){0};
}
