/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that readers fill, errors with file and line, and texts as tokens; see
 * reader.h. */
#include "tools/workload/reader.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#define NAME_MAX_BYTES 256 /* bytes of the name of a session or a tool */

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
      .previous = LLS_NO_ITEM,
      .next = LLS_NO_ITEM,
      .wait_ns = LLS_NEVER,
      .delay_ns = LLS_NEVER,
  };
  return row;
}

void lls_rows_free(struct lls_rows *rows)
{
  free(rows->items);
  rows->items = NULL;
  rows->n = rows->capacity = 0;
  lls_names_free(&rows->sessions);
}

/* Checks a name that is written to our own CSV format, and sent in a header. */
static int check_name(const struct lls_place *place, const char *what, const char *name,
                      size_t length, struct lls_error *err)
{
  if (length > NAME_MAX_BYTES)
    return lls_bad(place, err, "the name of a %s has %zu bytes, and may have %d", what,
                   length, NAME_MAX_BYTES);
  for (size_t i = 0; i < length; i++)
    if (!isprint((unsigned char)name[i]) || name[i] == ',' || name[i] == '"')
      return lls_bad(place, err,
                     "the name of a %s may have printable ASCII without commas and "
                     "quotes",
                     what);
  return 0;
}

int lls_row_session(const struct lls_place *place, struct lls_rows *rows,
                    struct lls_item *row, const char *name, size_t length,
                    struct lls_error *err)
{
  if (length == 0)
    return 0;
  int rc = check_name(place, "session", name, length, err);
  if (rc < 0)
    return rc;
  row->session_number = lls_names_number(&rows->sessions, name, length);
  row->session = lls_arena_text(rows->arena, name, length);
  return row->session_number == 0 || row->session == NULL
             ? lls_bad(place, err, "no memory for the name of a session")
             : 0;
}

int lls_row_tool(const struct lls_place *place, struct lls_rows *rows,
                 struct lls_item *row, const char *name, size_t length,
                 struct lls_error *err)
{
  int rc = length > 0 ? check_name(place, "tool", name, length, err) : 0;
  if (rc < 0 || length == 0)
    return rc;
  row->tool = lls_arena_text(rows->arena, name, length);
  return row->tool == NULL ? lls_bad(place, err, "no memory for the name of a tool") : 0;
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
