/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads lines of JSON objects. The keys of the first one identify the format:
 *
 *   mooncake       timestamp (ms), input_length, output_length, hash_ids (512 tokens
 *                  each), session_id, delay (ms)
 *   llmservingsim  input_toks, output_toks, arrival_time_ns or arrival_time (s, wall
 *                  clock), input_tok_ids
 *   rounds         session_id, round_index, prefix_tokens, newly_append_tokens,
 *                  output_tokens, tools (TraceLab)
 *   custom         prompt (text), output_tokens or --output-len
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_parse.h"
#include "tools/workload/reader.h"

#define MOONCAKE_BLOCK    512
#define MOONCAKE_GRAIN_NS (3 * LLS_NS_PER_S) /* mooncake's times are multiples of 3 s */
#define CUSTOM_OUTPUT     256                /* vLLM's --custom-output-len */
#define WALL_MAX_S        1e10               /* seconds since 1970 */

struct lines {
  struct lls_place place;
  struct lls_rows *rows;
  struct lls_error *err;
  double first_s; /* first time of a wall clock; NaN until the first line */
};

typedef int (*object_reader)(struct lines *, const json_t *, struct lls_item *);

/* ---- values ------------------------------------------------------------------------ */

static int read_number(struct lines *l, const json_t *object, const char *key,
                       double least, double most, double *out)
{
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value))
    return lls_bad(&l->place, l->err, "\"%s\": expected a number, found %s", key,
                   value == NULL ? "nothing" : "something else");
  double number = json_number_value(value);
  if (!(number >= least && number <= most))
    return lls_bad(&l->place, l->err, "\"%s\": expected %.15g to %.15g, found %.15g", key,
                   least, most, number);
  *out = number;
  return 0;
}

static int read_count(struct lines *l, const json_t *object, const char *key,
                      uint32_t *out)
{
  double value = 0;
  int rc = read_number(l, object, key, 1, LLS_LENGTH_MAX, &value);
  if (rc < 0) /* a refused number may not fit in an unsigned */
    return rc;
  *out = (uint32_t)value;
  return 0;
}

static int no_memory(struct lines *l)
{
  return lls_bad(&l->place, l->err, "no memory for more than %u rows", l->rows->n);
}

/* ---- formats ----------------------------------------------------------------------- */

static int read_hashes(struct lines *l, const json_t *list, struct lls_item *row)
{
  size_t n = json_array_size(list);
  if (list != NULL && !json_is_array(list))
    return lls_bad(&l->place, l->err, "\"hash_ids\": expected a list of whole numbers");
  uint64_t *hashes = lls_arena_take(l->rows->arena, n * sizeof *hashes);
  if (hashes == NULL)
    return no_memory(l);
  for (size_t i = 0; i < n; i++) {
    if (!json_is_integer(json_array_get(list, i)))
      return lls_bad(&l->place, l->err, "\"hash_ids\": expected a list of whole numbers");
    hashes[i] = (uint64_t)json_integer_value(json_array_get(list, i));
  }
  row->hashes = hashes;
  row->n_hashes = (uint32_t)n;
  row->hash_tokens = MOONCAKE_BLOCK;
  return 0;
}

/* Makes the row a turn of the session that the key names; without the key of none. */
static int read_session(struct lines *l, const json_t *object, const char *key,
                        struct lls_item *row)
{
  const json_t *name = json_object_get(object, key);
  if (name == NULL)
    return 0;
  if (!json_is_string(name) || json_string_length(name) == 0)
    return lls_bad(&l->place, l->err, "\"%s\": expected the name of a session", key);
  return lls_row_session(&l->place, l->rows, row, json_string_value(name),
                         json_string_length(name), l->err);
}

static int read_ms(struct lines *l, const json_t *object, const char *key, int64_t *ns)
{
  double ms = 0;
  int rc = read_number(l, object, key, 0, (double)LLS_TRACE_MAX_NS / 1e6, &ms);
  *ns = llround(ms * 1e6);
  return rc;
}

/* A turn has a delay in place of a time. Its input_length is what it adds, or with
 * hash_ids the whole prompt. */
static int read_mooncake(struct lines *l, const json_t *object, struct lls_item *row)
{
  bool delayed = json_object_get(object, "session_id") != NULL &&
                 json_object_get(object, "delay") != NULL;
  int rc = read_session(l, object, "session_id", row);
  if (rc == 0)
    rc = read_ms(l, object, delayed ? "delay" : "timestamp",
                 delayed ? &row->delay_ns : &row->arrival_ns);
  if (delayed && json_object_get(object, "hash_ids") == NULL)
    row->growth = LLS_GROWTH_ADDED;
  if (rc == 0)
    rc = read_count(l, object, "input_length", &row->prompt_tokens);
  if (rc == 0)
    rc = read_count(l, object, "output_length", &row->output_tokens);
  return rc == 0 ? read_hashes(l, json_object_get(object, "hash_ids"), row) : rc;
}

static int read_ids(struct lines *l, const json_t *list, struct lls_item *row)
{
  size_t n = json_array_size(list);
  if (list == NULL)
    return 0;
  if (!json_is_array(list) || n != row->prompt_tokens)
    return lls_bad(&l->place, l->err,
                   "\"input_tok_ids\": expected a list of %u token ids",
                   row->prompt_tokens);
  int32_t *ids = lls_arena_take(l->rows->arena, n * sizeof *ids);
  if (ids == NULL)
    return no_memory(l);
  for (size_t i = 0; i < n; i++) {
    json_int_t id = json_integer_value(json_array_get(list, i));
    if (!json_is_integer(json_array_get(list, i)) || id < 0 || id > INT32_MAX)
      return lls_bad(&l->place, l->err, "\"input_tok_ids\": entry %zu is no token id", i);
    ids[i] = (int32_t)id;
  }
  row->ids = ids;
  return 0;
}

static int read_llmservingsim(struct lines *l, const json_t *object, struct lls_item *row)
{
  bool wall = json_object_get(object, "arrival_time_ns") == NULL;
  double at = 0;
  int rc = read_number(l, object, wall ? "arrival_time" : "arrival_time_ns", 0,
                       wall ? WALL_MAX_S : (double)LLS_TRACE_MAX_NS, &at);
  if (rc == 0)
    rc = read_count(l, object, "input_toks", &row->prompt_tokens);
  if (rc == 0)
    rc = read_count(l, object, "output_toks", &row->output_tokens);
  if (rc < 0)
    return rc;
  if (wall && isnan(l->first_s))
    l->first_s = at;
  if (wall && (at - l->first_s) * LLS_NS_PER_S > (double)LLS_TRACE_MAX_NS)
    return lls_bad(&l->place, l->err,
                   "\"arrival_time\": is more than 400 days after the first line's");
  row->arrival_ns = wall ? llround((at - l->first_s) * LLS_NS_PER_S) : llround(at);
  if (row->arrival_ns < 0)
    return lls_bad(&l->place, l->err, "\"arrival_time\": is before the first line's");
  return read_ids(l, json_object_get(object, "input_tok_ids"), row);
}

static int read_text(struct lines *l, const json_t *object, const json_t *prompt,
                     const char *key, struct lls_item *row)
{
  if (!json_is_string(prompt) || json_string_length(prompt) == 0)
    return lls_bad(&l->place, l->err, "\"%s\": expected a text", key);
  row->output_tokens = CUSTOM_OUTPUT;
  if (json_object_get(object, "output_tokens") != NULL) {
    int rc = read_count(l, object, "output_tokens", &row->output_tokens);
    if (rc < 0)
      return rc;
  }
  int rc = lls_row_text(l->rows, row, json_string_value(prompt),
                        json_string_length(prompt), l->err);
  return rc < 0 ? lls_fail_at(l->err, rc, "%s:%u", l->place.file, l->place.line) : 0;
}

static int read_custom(struct lines *l, const json_t *object, struct lls_item *row)
{
  return read_text(l, object, json_object_get(object, "prompt"), "prompt", row);
}

/* Reads the first turn, as vLLM does. */
static int read_spec_bench(struct lines *l, const json_t *object, struct lls_item *row)
{
  const json_t *turns = json_object_get(object, "turns");
  return read_text(l, object, json_array_get(turns, 0), "turns", row);
}

/* ---- rounds of TraceLab --------------------------------------------------------- */

static int read_tokens(struct lines *l, const json_t *object, const char *key,
                       uint32_t least, uint32_t *out)
{
  double value = 0;
  int rc = read_number(l, object, key, 0, LLS_LENGTH_MAX, &value);
  if (rc == 0)
    *out = value < least ? least : (uint32_t)value;
  return rc;
}

/* Adds a tool's time to the wait; the first one gives its name. As in TraceLab's own
 * export, the wall clock counts, and a time that is not known is 0. */
static int read_tool(struct lines *l, const json_t *tool, struct lls_item *row)
{
  const json_t *name = json_object_get(tool, "tool_name");
  const json_t *wall = json_object_get(tool, "tool_wall_latency_ms");
  int64_t ns = 0;
  int rc = 0;
  if (!json_is_string(name))
    return lls_bad(&l->place, l->err, "\"tools\": expected objects with a tool_name");
  if (row->tool == NULL)
    rc = lls_row_tool(&l->place, l->rows, row, json_string_value(name),
                      json_string_length(name), l->err);
  if (rc == 0 && json_is_number(wall) && json_number_value(wall) >= 0)
    rc = read_ms(l, tool, "tool_wall_latency_ms", &ns);
  row->wait_ns += ns;
  if (rc == 0 && row->wait_ns > LLS_TRACE_MAX_NS)
    return lls_bad(&l->place, l->err, "\"tools\": run for more than 400 days");
  return rc;
}

static int read_round(struct lines *l, const json_t *object, struct lls_item *row)
{
  const json_t *tools = json_object_get(object, "tools");
  uint32_t added = 0;
  if (json_object_get(object, "session_id") == NULL)
    return lls_bad(&l->place, l->err, "\"session_id\": expected the name of a session");
  int rc = read_session(l, object, "session_id", row);
  if (rc == 0)
    rc = read_tokens(l, object, "round_index", 0, &row->turn);
  if (rc == 0)
    rc = read_tokens(l, object, "prefix_tokens", 0, &row->kept_tokens);
  if (rc == 0)
    rc = read_tokens(l, object, "newly_append_tokens", 1, &added);
  if (rc == 0)
    rc = read_tokens(l, object, "output_tokens", 1, &row->output_tokens);
  if (rc == 0 && added > LLS_LENGTH_MAX - row->kept_tokens)
    rc = lls_bad(&l->place, l->err, "a prompt of more than %u tokens", LLS_LENGTH_MAX);
  row->prompt_tokens = row->kept_tokens + added;
  row->growth = LLS_GROWTH_KEPT;
  row->wait_ns = 0;
  for (size_t i = 0; rc == 0 && i < json_array_size(tools); i++)
    rc = read_tool(l, json_array_get(tools, i), row);
  return rc;
}

/* ---- lines ------------------------------------------------------------------------- */

static const struct {
  const char *name;
  const char *key; /* a key that only this format has */
  object_reader reader;
  bool timed;
  int64_t grain_ns;
} formats[] = {
    {"mooncake", "input_length", read_mooncake, true, MOONCAKE_GRAIN_NS},
    {"timed_trace", "input_length", read_mooncake, true, 0},
    {"llmservingsim", "input_toks", read_llmservingsim, true, 0},
    {"rounds", "newly_append_tokens", read_round, false, 0},
    {"custom", "prompt", read_custom, false, 0},
    {"spec_bench", "turns", read_spec_bench, false, 0},
};

#define N_FORMATS (sizeof formats / sizeof *formats)

static size_t find_format(const char *name, const json_t *first)
{
  size_t i = 0;
  while (i < N_FORMATS &&
         (strcmp(name, "auto") == 0 ? json_object_get(first, formats[i].key) == NULL
                                    : strcmp(name, formats[i].name) != 0))
    i++;
  return i;
}

static int read_line(struct lines *l, const char *text, size_t length, const char *name,
                     size_t *format)
{
  json_error_t why;
  json_t *object =
      lls_json_parse(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
  if (!json_is_object(object)) {
    json_decref(object);
    return lls_bad(&l->place, l->err, "expected a JSON object: %s",
                   object == NULL ? why.text : "found something else");
  }
  if (*format == N_FORMATS)
    *format = find_format(name, object);
  int rc = 0;
  struct lls_item *row = NULL;
  if (*format == N_FORMATS)
    rc = lls_bad(
        &l->place, l->err,
        "expected the keys of mooncake (input_length), llmservingsim (input_toks), "
        "rounds (newly_append_tokens), custom (prompt) or spec_bench (turns)");
  else if ((row = lls_rows_add(l->rows)) == NULL)
    rc = no_memory(l);
  else
    rc = formats[*format].reader(l, object, row);
  json_decref(object);
  return rc;
}

static int read_lines(struct lines *l, FILE *file, const char *name)
{
  size_t format = N_FORMATS, capacity = 0;
  char *line = NULL;
  int rc = 0;
  for (ssize_t length; rc == 0 && (length = getline(&line, &capacity, file)) >= 0;) {
    l->place.line++;
    if (strspn(line, " \t\r\n") < (size_t)length)
      rc = read_line(l, line, (size_t)length, name, &format);
  }
  if (rc == 0 && ferror(file))
    rc = lls_bad(&l->place, l->err, "cannot be read: %s", strerror(errno));
  free(line);
  if (rc == 0 && format < N_FORMATS) {
    l->rows->timed = formats[format].timed;
    l->rows->grain_ns = formats[format].grain_ns;
  }
  return rc;
}

int lls_read_jsonl(const char *format, const char *path, struct lls_rows *rows,
                   struct lls_error *err)
{
  struct lines lines = {
      .place = {.file = path}, .rows = rows, .err = err, .first_s = NAN};
  FILE *file = fopen(path, "r");
  if (file == NULL)
    return lls_fail(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
  int rc = read_lines(&lines, file, format);
  fclose(file);
  return rc;
}
