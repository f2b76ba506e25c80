/* SPDX-License-Identifier: Apache-2.0 */
/* Converts escapes to UTF-8 and digits to numbers; see literal.h. */
#include "text/template/literal.h"

#include "text/base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int digit_value(char digit)
{
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  if (digit >= 'a' && digit <= 'f')
    return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : 99;
}

/* Reads up to count digits. Returns how many there were. */
static size_t read_digits(const char *text, const char *end, size_t count, int base,
                          uint32_t *value)
{
  size_t i = 0;
  *value = 0;
  for (; i < count && text + i < end && digit_value(text[i]) < base; i++)
    *value = *value * (uint32_t)base + (uint32_t)digit_value(text[i]);
  return i;
}

/* Appends a character given by its number. Returns the length of the escape, or 0 if it
 * is not valid. */
static size_t append_numbered(const char *at, const char *end, struct lls_bytes *out)
{
  size_t count = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
  uint32_t value;
  size_t read = count > 0 ? read_digits(at + 1, end, count, 16, &value)
                          : read_digits(at, end, 3, 8, &value);
  if ((count > 0 && read < count) || value > 0x10ffff ||
      (value >= 0xd800 && value < 0xe000))
    return 0;
  lls_bytes_append_char(out, (int32_t)value);
  return count > 0 ? count + 1 : read;
}

/* Appends the character of the escape after a backslash. Returns the escape's length,
 * or 0. */
static size_t append_escape(const char *at, const char *end, struct lls_bytes *out)
{
  static const char letters[] = "nrtabfv\\'\"";
  static const char meant[] = "\n\r\t\a\b\f\v\\'\"";
  const char *letter = *at != '\0' ? strchr(letters, *at) : NULL;
  if (letter != NULL) {
    lls_bytes_append(out, &meant[letter - letters], 1);
    return 1;
  }
  if (*at == '\n')
    return 1;
  if (*at == 'x' || *at == 'u' || *at == 'U' || (*at >= '0' && *at <= '7'))
    return append_numbered(at, end, out);
  if (*at == 'N')
    return 0;
  lls_bytes_append(out, "\\", 1); /* Python keeps unknown escapes as they are */
  lls_bytes_append(out, at, 1);
  return 1;
}

bool lls_literal_string(const char *quoted, size_t length, struct lls_bytes *out)
{
  const char *at = quoted + 1, *end = quoted + length - 1;
  while (at < end) {
    size_t taken = 1;
    if (*at != '\\')
      lls_bytes_append(out, at, 1);
    else if ((taken = append_escape(at + 1, end, out)) > 0)
      taken++;
    else
      return false;
    at += taken;
  }
  return !out->failed;
}

bool lls_literal_number(const char *text, size_t length, bool real, struct lls_value *out)
{
  char digits[64], *end;
  size_t count = 0;
  int base = 10;
  for (size_t i = 0; i < length && count < sizeof digits - 1; i++)
    if (text[i] != '_')
      digits[count++] = text[i];
  digits[count] = '\0';
  if (count == sizeof digits - 1)
    return false;
  errno = 0;
  if (real) {
    *out = lls_real(strtod(digits, &end));
    return *end == '\0';
  }
  if (count > 2 && digits[0] == '0' && digits[1] > '9')
    base = digits[1] == 'x' || digits[1] == 'X'   ? 16
           : digits[1] == 'b' || digits[1] == 'B' ? 2
                                                  : 8;
  *out = lls_integer(strtoll(digits + (base != 10 ? 2 : 0), &end, base));
  return errno == 0 && *end == '\0';
}
