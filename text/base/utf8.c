/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 validation after the table of well-formed sequences (Unicode, table 3-7). */
#include "text/base/utf8.h"

#include <utf8proc.h>

/* The bytes after a lead byte: their number, and the range of the first one. */
struct lead {
  unsigned char follow;
  unsigned char low;
  unsigned char high;
};

static struct lead lead_of(unsigned char byte)
{
  if (byte >= 0xc2 && byte <= 0xdf)
    return (struct lead){1, 0x80, 0xbf};
  if (byte == 0xe0)
    return (struct lead){2, 0xa0, 0xbf};
  if (byte == 0xed)
    return (struct lead){2, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef)
    return (struct lead){2, 0x80, 0xbf};
  if (byte == 0xf0)
    return (struct lead){3, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3)
    return (struct lead){3, 0x80, 0xbf};
  if (byte == 0xf4)
    return (struct lead){3, 0x80, 0x8f};
  return (struct lead){0, 0, 0};
}

enum lls_utf8 lls_utf8_first(const char *text, size_t length, size_t *taken)
{
  const unsigned char *bytes = (const unsigned char *)text;
  *taken = 1;
  if (bytes[0] < 0x80)
    return LLS_UTF8_COMPLETE;
  struct lead lead = lead_of(bytes[0]);
  if (lead.follow == 0)
    return LLS_UTF8_BROKEN;
  for (size_t i = 1; i <= lead.follow; i++) {
    if (i >= length)
      return LLS_UTF8_CUT_SHORT;
    unsigned char low = i == 1 ? lead.low : 0x80;
    unsigned char high = i == 1 ? lead.high : 0xbf;
    if (bytes[i] < low || bytes[i] > high)
      return LLS_UTF8_BROKEN;
    *taken = i + 1;
  }
  return LLS_UTF8_COMPLETE;
}

bool lls_utf8_is_valid(const char *text, size_t length)
{
  for (size_t at = 0, taken; at < length; at += taken)
    if (lls_utf8_first(text + at, length - at, &taken) != LLS_UTF8_COMPLETE)
      return false;
  return true;
}

bool lls_utf8_is_ascii(const char *text, size_t length)
{
  unsigned char bits = 0;
  for (size_t i = 0; i < length; i++)
    bits |= (unsigned char)text[i];
  return bits < 0x80;
}

bool lls_utf8_repair(const char *text, size_t length, struct lls_bytes *out)
{
  bool broken = false;
  for (size_t at = 0, taken; at < length; at += taken) {
    if (lls_utf8_first(text + at, length - at, &taken) == LLS_UTF8_COMPLETE) {
      lls_bytes_append(out, text + at, taken);
    } else {
      lls_bytes_append(out, LLS_REPLACEMENT, sizeof LLS_REPLACEMENT - 1);
      broken = true;
    }
  }
  return broken;
}

int32_t lls_utf8_char(const char *text)
{
  utf8proc_int32_t codepoint;
  utf8proc_iterate((const utf8proc_uint8_t *)text,
                   (utf8proc_ssize_t)lls_utf8_length(text), &codepoint);
  return codepoint;
}

int32_t lls_utf8_last(const char *text, size_t length, size_t *size)
{
  size_t at = length - 1;
  while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
    at--;
  *size = length - at;
  return lls_utf8_char(text + at);
}

bool lls_char_is_space(int32_t codepoint)
{
  if (codepoint < 0x80)
    return codepoint == ' ' || (codepoint >= '\t' && codepoint <= '\r');
  if (codepoint == 0x85)
    return true;
  utf8proc_category_t category = utf8proc_category(codepoint);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool lls_char_is_letter(int32_t codepoint)
{
  utf8proc_category_t category = utf8proc_category(codepoint);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool lls_char_is_word(int32_t codepoint)
{
  if (codepoint == 0x200c || codepoint == 0x200d)
    return true;
  utf8proc_category_t category = utf8proc_category(codepoint);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}
