/* SPDX-License-Identifier: Apache-2.0 */
/* See input_line.h. */
#include "core/batch/input_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json_memory.h"
#include "core/base/json_cost.h"

#define PIECE 65536

/* ---- reading ----------------------------------------------------------------------- */

/* Reads more of the file to the end of the buffer. Returns 0 or a negative errno. */
static int fill(struct lls_line_reader *reader)
{
  struct lls_text *buffer = &reader->buffer;
  lls_text_consume(buffer, reader->used);
  reader->used = 0;
  if (!lls_text_reserve(buffer, PIECE))
    return -ENOMEM;
  ssize_t n = pread(reader->fd, buffer->data + buffer->length, PIECE,
                    reader->offset + (int64_t)buffer->length);
  if (n < 0)
    return -errno;
  buffer->length += (size_t)n;
  buffer->data[buffer->length] = '\0';
  reader->ended = n == 0;
  return 0;
}

/* Finds the next line. Returns its length with the line end, 0 at the end of the file. */
static int64_t find_line(struct lls_line_reader *reader)
{
  for (size_t seen = 0;;) {
    size_t length = reader->buffer.length - reader->used;
    const char *at = length > 0 ? reader->buffer.data + reader->used : "";
    const char *end = memchr(at + seen, '\n', length - seen);
    if (end != NULL)
      return end - at + 1;
    if (length > reader->max_line)
      return -E2BIG;
    if (reader->ended)
      return (int64_t)length;
    seen = length;
    int status = fill(reader);
    if (status < 0)
      return status;
  }
}

static bool is_blank(const char *text, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0')
      return false;
  return true;
}

int lls_line_reader_next(struct lls_line_reader *reader, struct lls_raw_line *out)
{
  for (;;) {
    int64_t length = find_line(reader);
    if (length <= 0)
      return (int)length;
    *out = (struct lls_raw_line){.text = reader->buffer.data + reader->used,
                                 .length = (size_t)length,
                                 .number = reader->number,
                                 .offset = reader->offset};
    reader->used += (size_t)length;
    reader->offset += length;
    if (is_blank(out->text, out->length))
      continue;
    reader->number++;
    return (size_t)length > reader->max_line + 1 ? -E2BIG : 1;
  }
}

void lls_line_reader_free(struct lls_line_reader *reader)
{
  lls_text_free(&reader->buffer);
}

/* ---- what a line must have --------------------------------------------------------- */

static int wrong(struct lls_line_error *error, const char *code, const char *param,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

static int wrong(struct lls_line_error *error, const char *code, const char *param,
                 const char *format, ...)
{
  va_list args;
  error->code = code;
  error->param = param;
  va_start(args, format);
  vsnprintf(error->message, sizeof error->message, format, args);
  va_end(args);
  return -EINVAL;
}

static int check_target(const json_t *object, const char *endpoint,
                        struct lls_line_error *error)
{
  const char *method = json_string_value(json_object_get(object, "method"));
  const char *url = json_string_value(json_object_get(object, "url"));
  if (method == NULL || strcmp(method, "POST") != 0)
    return wrong(error, "invalid_method", "method", "'method' must be \"POST\"");
  if (url == NULL || strcmp(url, endpoint) != 0)
    return wrong(error, "invalid_url", "url",
                 "'url' must be the batch's endpoint, \"%s\"", endpoint);
  return 0;
}

static int check_body(const json_t *body, const char *model, struct lls_line_error *error)
{
  const json_t *named = json_object_get(body, "model");
  if (!json_is_object(body))
    return wrong(error, "missing_required_parameter", "body",
                 "'body' must be an object, as the endpoint takes it");
  if (model == NULL || named == NULL || json_is_null(named))
    return 0;
  if (json_is_string(named) && strcmp(json_string_value(named), model) == 0)
    return 0;
  return wrong(error, "model_not_found", "body.model",
               "'body.model' must be \"%.80s\", the model that this server has", model);
}

static int check_line(const struct lls_input_line *line, const char *endpoint,
                      const char *model, struct lls_line_error *error)
{
  if (!json_is_object(line->object))
    return wrong(error, "invalid_json_line", NULL, "the line is no JSON object");
  if (line->custom_id == NULL || line->custom_id[0] == '\0')
    return wrong(error, "missing_required_parameter", "custom_id",
                 "'custom_id' must be a string that is not empty");
  if (check_target(line->object, endpoint, error) != 0)
    return -EINVAL;
  return check_body(line->body, model, error);
}

int lls_input_line_parse(const char *text, size_t length, const char *endpoint,
                         const char *model, struct lls_input_line *out,
                         struct lls_line_error *error)
{
  json_error_t why;
  uint64_t shortages = lls_json_shortages();
  json_t *object =
      lls_json_load(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
  if (lls_json_shortages() != shortages) {
    json_decref(object);
    return wrong(error, "server_error", NULL, "out of memory for the line");
  }
  if (object == NULL)
    return wrong(error, "invalid_json_line", NULL,
                 "the line is not valid JSON: %.100s (column %d)", why.text, why.column);
  *out = (struct lls_input_line){
      .object = object,
      .custom_id = json_string_value(json_object_get(object, "custom_id")),
      .body = json_object_get(object, "body"),
  };
  int status = check_line(out, endpoint, model, error);
  if (status != 0)
    json_decref(object);
  return status;
}
