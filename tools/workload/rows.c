/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that readers fill, errors with file and line, and texts as tokens; see
 * reader.h. */
#include "tools/workload/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

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
