/* SPDX-License-Identifier: Apache-2.0 */
/* Formats error sentences; see error.h for the idiom. */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int lls_fail(struct lls_error *err, int code, const char *format, ...)
{
  if (err == NULL)
    return code;
  va_list args;
  va_start(args, format);
  vsnprintf(err->text, sizeof err->text, format, args);
  va_end(args);
  return code;
}

/* Appends as much of `more` as fits; the rest is cut off. */
static void append(struct lls_error *err, const char *more)
{
  size_t used = strlen(err->text);
  size_t room = sizeof err->text - used - 1;
  size_t length = strnlen(more, room);
  memcpy(err->text + used, more, length);
  err->text[used + length] = '\0';
}

int lls_fail_at(struct lls_error *err, int code, const char *format, ...)
{
  if (err == NULL)
    return code;
  struct lls_error inner = *err;
  const char *reason = lls_error_text(&inner, code);
  va_list args;
  va_start(args, format);
  vsnprintf(err->text, sizeof err->text, format, args);
  va_end(args);
  append(err, ": ");
  append(err, reason);
  return code;
}

const char *lls_error_text(const struct lls_error *err, int code)
{
  if (err != NULL && err->text[0] != '\0')
    return err->text;
  return strerror(code < 0 ? -code : code);
}
