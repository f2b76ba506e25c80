/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers: rows, errors with file and line, and the choice of the reader
 * for a file. */
#include "tools/workload/reader.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char lls_read_formats[] =
    "auto|csv|azure|burstgpt|servegen|distserve|lengths|mooncake|timed_trace|"
    "llmservingsim|custom|spec_bench|sharegpt|lmbench|alpaca|decisions";

struct lls_item *lls_rows_add(struct lls_rows *rows)
{
  if (rows->n == rows->capacity) {
    uint32_t capacity = rows->capacity > 0 ? 2 * rows->capacity : 1024;
    struct lls_item *items = capacity > LLS_ROWS_MAX
                                 ? NULL
                                 : reallocarray(rows->items, capacity, sizeof *items);
    if (items == NULL)
      return NULL;
    rows->items = items;
    rows->capacity = capacity;
  }
  struct lls_item *row = &rows->items[rows->n++];
  *row = (struct lls_item){
      .arrival_ns = LLS_NEVER,
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER},
  };
  return row;
}

void lls_rows_free(struct lls_rows *rows)
{
  free(rows->items);
  rows->items = NULL;
  rows->n = rows->capacity = 0;
}

int lls_bad(const struct lls_place *place, struct lls_error *err, const char *format, ...)
{
  char text[LLS_ERROR_MAX / 2];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return lls_fail(err, -EINVAL, "%s:%u: %s", place->file, place->line, text);
}

/* ---- texts ------------------------------------------------------------------------- */

static int no_tokenizer(struct lls_error *err)
{
  return lls_fail(
      err, -EINVAL,
      "texts need a tokeniser to know their lengths: give --tokenizer FOLDER, a "
      "folder with tokenizer.json");
}

int lls_text_tokens(const struct lls_rows *rows, const char *text, size_t length,
                    uint32_t *tokens, struct lls_error *err)
{
  int32_t *ids = NULL;
  size_t count;
  if (rows->tokenizer == NULL)
    return no_tokenizer(err);
  int rc = lls_tokenizer_encode(rows->tokenizer, text, length, false, &ids, &count, err);
  if (rc < 0)
    return rc;
  free(ids);
  *tokens = count > LLS_LENGTH_MAX ? LLS_LENGTH_MAX : (uint32_t)count;
  return 0;
}

int lls_row_text(struct lls_rows *rows, struct lls_item *row, const char *text,
                 size_t length, struct lls_error *err)
{
  int32_t *ids = NULL;
  size_t count;
  if (rows->tokenizer == NULL)
    return no_tokenizer(err);
  int rc = lls_tokenizer_encode(rows->tokenizer, text, length, true, &ids, &count, err);
  if (rc < 0)
    return rc;
  row->text = lls_arena_text(rows->arena, text, length);
  row->ids = count > LLS_LENGTH_MAX
                 ? NULL
                 : lls_arena_copy(rows->arena, ids, count * sizeof *ids);
  free(ids);
  if (row->text == NULL || row->ids == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a text of %zu bytes", length);
  row->prompt_tokens = (uint32_t)count;
  return 0;
}

/* ---- which reader ------------------------------------------------------------------ */

typedef int (*read_file)(const char *format, const char *path, struct lls_rows *,
                         struct lls_error *);

/* Guesses the format from the beginning of the file: a JSON list of chats, lines of
 * JSON objects, a decision log, or a table. */
static int guess(const char *path, read_file *out, struct lls_error *err)
{
  FILE *file = fopen(path, "r");
  int c, next;
  if (file == NULL)
    return lls_fail(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
  do
    c = fgetc(file);
  while (c != EOF && isspace(c));
  next = fgetc(file);
  fclose(file);
  *out = c == '['                  ? lls_read_chats
         : c == '{'                ? lls_read_jsonl
         : c == 'H' && next == ' ' ? lls_read_recorded
                                   : lls_read_csv;
  return 0;
}

static read_file reader_of(const char *format)
{
  static const struct {
    const char *format;
    read_file reader;
  } readers[] = {
      {"mooncake", lls_read_jsonl},     {"timed_trace", lls_read_jsonl},
      {"custom", lls_read_jsonl},       {"llmservingsim", lls_read_jsonl},
      {"spec_bench", lls_read_jsonl},   {"lmbench", lls_read_chats},
      {"alpaca", lls_read_chats},       {"sharegpt", lls_read_chats},
      {"decisions", lls_read_recorded},
  };
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (strcmp(format, readers[i].format) == 0)
      return readers[i].reader;
  return lls_read_csv;
}

int lls_read(const char *format, const char *path, struct lls_rows *rows,
             struct lls_error *err)
{
  read_file reader = reader_of(format);
  if (strcmp(format, "auto") == 0) {
    int rc = guess(path, &reader, err);
    if (rc < 0)
      return rc;
  }
  int rc = reader(format, path, rows, err);
  if (rc == 0 && rows->n == 0)
    return lls_fail(err, -EINVAL, "%s: has no requests", path);
  return rc;
}
