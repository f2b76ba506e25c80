/* SPDX-License-Identifier: Apache-2.0 */
/* Growable text; see text.h for what happens when memory runs out. */
#include "core/base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

#define SMALLEST 128

/* True if the text is consistent. A NUL follows the text, so length stays below
 * capacity. */
static bool is_sound(const struct lls_text *text)
{
  return text->data == NULL ? text->length == 0 && text->capacity == 0
                            : text->length < text->capacity;
}

bool lls_text_reserve(struct lls_text *text, size_t more)
{
  if (more >= SIZE_MAX / 2 - text->length) {
    text->failed = true;
    return false;
  }
  size_t needed = text->length + more + 1;
  if (needed <= text->capacity)
    return true;
  size_t capacity = text->capacity > SMALLEST ? text->capacity : SMALLEST;
  while (capacity < needed)
    capacity *= 2;
  char *data = realloc(text->data, capacity);
  if (data == NULL) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void lls_text_append(struct lls_text *text, const void *data, size_t length)
{
  if (!lls_text_reserve(text, length))
    return;
  if (length > 0)
    memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = '\0';
  LLS_CHECK(is_sound(text));
}

void lls_text_puts(struct lls_text *text, const char *string)
{
  lls_text_append(text, string, strlen(string));
}

void lls_text_printf(struct lls_text *text, const char *format, ...)
{
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length >= 0 && lls_text_reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void lls_text_consume(struct lls_text *text, size_t count)
{
  LLS_CHECK(count <= text->length);
  if (count == 0)
    return;
  text->length -= count;
  memmove(text->data, text->data + count, text->length + 1);
}

void lls_text_clear(struct lls_text *text)
{
  text->length = 0;
  text->failed = false;
  if (text->data != NULL)
    text->data[0] = '\0';
}

void lls_text_free(struct lls_text *text)
{
  free(text->data);
  *text = (struct lls_text){0};
}
