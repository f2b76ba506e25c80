/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes forms of uploads and lines of batches; the first byte selects. Forms: the
 * parts are the same, whatever pieces the form arrives in. Lines: they are read in
 * order within their limit, each can be read again from its offset, and a valid one has
 * everything needed to run it.
 */
#include <jansson.h>

#include "core/http/multipart.h"
#include "t/fuzz/fuzz.h"
#ifdef LLS_FUZZ_LINES
#include "core/batch/input_line.h"
#endif

/* ---- forms ------------------------------------------------------------------------- */

static void on_part(void *context, const struct lls_multipart_part *part)
{
  assert(part->name[0] != '\0');
  lls_text_printf(context, "<%s|%s>", part->name, part->filename);
}

static void on_data(void *context, const char *data, size_t length)
{
  lls_text_append(context, data, length);
}

/* Feeds the form in pieces; returns its final state. */
static enum lls_multipart_state feed(const char *form, size_t size, size_t piece,
                                     struct lls_text *out)
{
  const struct lls_multipart_events events = {
      .context = out, .on_part = on_part, .on_data = on_data};
  struct lls_multipart parser;
  assert(lls_multipart_begin(&parser, "multipart/form-data; boundary=\"b\"", &events));
  int status = 0;
  for (size_t at = 0; at < size && status == 0; at += piece) {
    status =
        lls_multipart_feed(&parser, form + at, size - at < piece ? size - at : piece);
    assert(parser.kept.length <= piece + 8192 + 64);
    assert((status == 0) == (parser.why == NULL));
  }
  enum lls_multipart_state state = parser.state;
  assert(lls_multipart_is_over(&parser) == (state == LLS_MULTIPART_OVER));
  lls_multipart_free(&parser);
  return state;
}

static void try_form(const char *form, size_t size)
{
  static const size_t pieces[] = {1, 3, 7, 64};
  struct lls_text whole = {0};
  enum lls_multipart_state end = feed(form, size, size, &whole);
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    struct lls_text out = {0};
    enum lls_multipart_state state = feed(form, size, pieces[i], &out);
    bool broken = state == LLS_MULTIPART_BROKEN || end == LLS_MULTIPART_BROKEN;
    assert(state == end || broken);
    /* small pieces detect too large headers earlier */
    assert(broken ||
           (out.length == whole.length &&
            (out.length == 0 || memcmp(out.data, whole.data, out.length) == 0)));
    lls_text_free(&out);
  }
  lls_text_free(&whole);
}

/* ---- lines ------------------------------------------------------------------------- */

#ifdef LLS_FUZZ_LINES
#define MAX_LINE 300

static void try_line(const struct lls_raw_line *raw)
{
  struct lls_input_line line;
  struct lls_line_error error = {0};
  if (lls_input_line_parse(raw->text, raw->length, "/v1/completions", "m", &line,
                           &error) != 0) {
    assert(error.code != NULL && error.message[0] != '\0');
    return;
  }
  assert(line.custom_id[0] != '\0' && json_is_object(line.body));
  json_decref(line.object);
}

static void read_again(int fd, const struct lls_raw_line *raw)
{
  struct lls_line_reader reader = {
      .fd = fd, .max_line = MAX_LINE, .number = raw->number, .offset = raw->offset};
  struct lls_raw_line again;
  assert(lls_line_reader_next(&reader, &again) == 1);
  assert(again.length == raw->length && again.number == raw->number);
  assert(memcmp(again.text, raw->text, raw->length) == 0);
  lls_line_reader_free(&reader);
}

static void try_lines(const char *text, size_t size)
{
  int fd = open(fuzz_file("lines", text, size), O_RDONLY | O_CLOEXEC);
  struct lls_line_reader reader = {.fd = fd, .max_line = MAX_LINE};
  struct lls_raw_line raw;
  uint64_t number = 0;
  int64_t offset = 0;
  int more;
  assert(fd >= 0);
  while ((more = lls_line_reader_next(&reader, &raw)) == 1) {
    assert(raw.number == number++ && raw.offset >= offset && raw.length > 0);
    assert(raw.length <= MAX_LINE + 1);
    offset = raw.offset + (int64_t)raw.length;
    assert(offset <= (int64_t)size);
    read_again(fd, &raw);
    try_line(&raw);
  }
  assert(more == 0 || more < 0);
  lls_line_reader_free(&reader);
  close(fd);
  fuzz_forget("lines");
}
#else
static void try_lines(const char *text, size_t size)
{
  (void)text;
  (void)size;
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 2 || size > 1 << 16)
    return 0;
  if (data[0] % 2 == 0)
    try_form((const char *)data + 1, size - 1);
  else
    try_lines((const char *)data + 1, size - 1);
  return 0;
}
