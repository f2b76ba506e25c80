/* SPDX-License-Identifier: Apache-2.0 */
/* A state machine with one state for each part of the syntax; see multipart.h. */
#include "core/http/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_BOUNDARY     70 /* RFC 2046, section 5.1.1 */
#define MAX_PART_HEADERS 8192

/* ---- headers ---------------------------------------------------------------------- */

/* Returns the next semicolon outside of quotes, or NULL. */
static const char *next_parameter(const char *at, const char *end)
{
  for (bool quoted = false; at < end; at++)
    if (*at == '"')
      quoted = !quoted;
    else if (quoted)
      at += *at == '\\' && at + 1 < end;
    else if (*at == ';')
      return at;
  return NULL;
}

/* Copies the value of a header's parameter, as in `; name="a \"b\""`, to out. Returns
 * false if the parameter is missing or too long. */
static bool parameter(const char *header, size_t length, const char *name, char *out,
                      size_t size)
{
  const char *at = header, *end = header + length;
  size_t name_length = strlen(name), n = 0;
  while ((at = next_parameter(at, end)) != NULL) {
    at++;
    while (at < end && (*at == ' ' || *at == '\t'))
      at++;
    if ((size_t)(end - at) > name_length && at[name_length] == '=' &&
        strncasecmp(at, name, name_length) == 0)
      break;
  }
  if (at == NULL)
    return false;
  at += name_length + 1;
  bool quoted = at < end && *at == '"';
  at += quoted;
  while (at < end && (quoted ? *at != '"' : *at != ';' && *at != ' ')) {
    at += quoted && *at == '\\' && at + 1 < end;
    if (n + 1 == size)
      return false;
    out[n++] = *at++;
  }
  out[n] = '\0';
  return n > 0 && strlen(out) == n;
}

static int broken(struct lls_multipart *form, const char *why)
{
  form->state = LLS_MULTIPART_BROKEN;
  form->why = why;
  return -EINVAL;
}

/* Begins the part that these header lines describe. */
static int begin_part(struct lls_multipart *form, const char *headers, size_t length)
{
  static const char disposition[] = "content-disposition:";
  struct lls_multipart_part part = {0};
  const char *end = headers + length;
  for (const char *line = headers; line < end;) {
    const char *stop = memmem(line, (size_t)(end - line), "\r\n", 2);
    size_t n = (size_t)((stop != NULL ? stop : end) - line);
    if (n >= sizeof disposition - 1 &&
        strncasecmp(line, disposition, sizeof disposition - 1) == 0) {
      parameter(line, n, "name", part.name, sizeof part.name);
      parameter(line, n, "filename", part.filename, sizeof part.filename);
    }
    line += n + 2;
  }
  if (part.name[0] == '\0')
    return broken(form, "a part has no name");
  form->state = LLS_MULTIPART_DATA;
  form->events.on_part(form->events.context, &part);
  return 0;
}

/* ---- states: each returns the bytes of `kept` that it took; 0: more are needed ----- */

static size_t find_first(struct lls_multipart *form)
{
  const struct lls_text *kept = &form->kept;
  size_t length = strlen(form->delimiter);
  const char *at = memmem(kept->data, kept->length, form->delimiter, length);
  if (at == NULL)
    return kept->length > length ? kept->length - length : 0;
  form->state = LLS_MULTIPART_DELIMITED;
  return (size_t)(at - kept->data) + length;
}

static size_t after_delimiter(struct lls_multipart *form)
{
  const struct lls_text *kept = &form->kept;
  size_t blank = 0;
  while (blank < kept->length && (kept->data[blank] == ' ' || kept->data[blank] == '\t'))
    blank++;
  if (kept->length < blank + 2)
    return 0;
  if (memcmp(kept->data + blank, "--", 2) == 0)
    form->state = LLS_MULTIPART_OVER;
  else if (memcmp(kept->data + blank, "\r\n", 2) == 0)
    form->state = LLS_MULTIPART_HEADERS;
  else
    broken(form, "a delimiter is not followed by a line end");
  /* leave the line end in `kept`: a part without headers then ends like any other, at an
   * empty line */
  return form->state == LLS_MULTIPART_HEADERS ? blank : blank + 2;
}

static size_t read_headers(struct lls_multipart *form)
{
  const struct lls_text *kept = &form->kept;
  const char *at = memmem(kept->data, kept->length, "\r\n\r\n", 4);
  if (at == NULL) {
    if (kept->length > MAX_PART_HEADERS)
      broken(form, "the headers of a part are too large");
    return 0;
  }
  size_t length = (size_t)(at - kept->data);
  begin_part(form, kept->data, length);
  return length + 4;
}

static size_t read_data(struct lls_multipart *form)
{
  const struct lls_text *kept = &form->kept;
  size_t length = strlen(form->delimiter);
  const char *at = memmem(kept->data, kept->length, form->delimiter, length);
  size_t sure = kept->length >= length ? kept->length - length + 1 : 0;
  if (at != NULL)
    sure = (size_t)(at - kept->data);
  if (sure > 0)
    form->events.on_data(form->events.context, kept->data, sure);
  if (at == NULL)
    return sure;
  form->state = LLS_MULTIPART_DELIMITED;
  return sure + length;
}

static size_t advance(struct lls_multipart *form)
{
  switch (form->state) {
  case LLS_MULTIPART_BEFORE:
    return find_first(form);
  case LLS_MULTIPART_DELIMITED:
    return after_delimiter(form);
  case LLS_MULTIPART_HEADERS:
    return read_headers(form);
  case LLS_MULTIPART_DATA:
    return read_data(form);
  default:
    return form->kept.length; /* input after the last delimiter is ignored */
  }
}

/* ---- the whole --------------------------------------------------------------------- */

bool lls_multipart_begin(struct lls_multipart *form, const char *content_type,
                         const struct lls_multipart_events *events)
{
  static const char type[] = "multipart/form-data";
  char boundary[MAX_BOUNDARY + 1];
  *form = (struct lls_multipart){.events = *events};
  if (content_type == NULL || strncasecmp(content_type, type, sizeof type - 1) != 0 ||
      !parameter(content_type, strlen(content_type), "boundary", boundary,
                 sizeof boundary))
    return false;
  snprintf(form->delimiter, sizeof form->delimiter, "\r\n--%s", boundary);
  lls_text_puts(&form->kept, "\r\n"); /* the first delimiter needs a line end, too */
  return true;
}

int lls_multipart_feed(struct lls_multipart *form, const char *data, size_t length)
{
  if (form->state == LLS_MULTIPART_BROKEN)
    return -EINVAL;
  lls_text_append(&form->kept, data, length);
  if (form->kept.failed)
    return broken(form, "out of memory");
  for (;;) {
    enum lls_multipart_state before = form->state;
    size_t taken = form->kept.length > 0 ? advance(form) : 0;
    if (form->state == LLS_MULTIPART_BROKEN)
      return -EINVAL;
    lls_text_consume(&form->kept, taken);
    if (taken == 0 && form->state == before)
      return 0;
  }
}

bool lls_multipart_is_over(const struct lls_multipart *form)
{
  return form->state == LLS_MULTIPART_OVER;
}

void lls_multipart_free(struct lls_multipart *form)
{
  lls_text_free(&form->kept);
}
