/* SPDX-License-Identifier: Apache-2.0 */
/* The byte alphabet both ways, computed instead of stored in tables: a byte costs a few
 * comparisons. */
#include "text/tokenizer/bytelevel.h"

#include "text/base/utf8.h"

/* Bytes that represent themselves: '!'..'~', 0xa1..0xac, 0xae..0xff. */
static bool is_itself(int32_t byte)
{
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

/* The remaining bytes, 0..0x20, 0x7f..0xa0 and 0xad, are numbered from 0x100 in this
 * order. */
static int32_t char_of(unsigned char byte)
{
  if (is_itself(byte))
    return byte;
  if (byte <= 0x20)
    return 0x100 + byte;
  return byte == 0xad ? 0x143 : 0x121 + (byte - 0x7f);
}

static int32_t byte_of(int32_t codepoint)
{
  if (codepoint <= 0xff)
    return is_itself(codepoint) ? codepoint : -1;
  if (codepoint <= 0x120)
    return codepoint - 0x100;
  if (codepoint <= 0x142)
    return 0x7f + (codepoint - 0x121);
  return codepoint == 0x143 ? 0xad : -1;
}

void lls_bytelevel_encode(const char *text, size_t length, struct lls_bytes *out)
{
  for (size_t i = 0; i < length; i++) {
    int32_t codepoint = char_of((unsigned char)text[i]);
    char encoded[2] = {(char)(0xc0 | codepoint >> 6), (char)(0x80 | (codepoint & 0x3f))};
    if (codepoint < 0x80)
      lls_bytes_append(out, &text[i], 1);
    else
      lls_bytes_append(out, encoded, 2);
  }
}

void lls_bytelevel_decode(const char *text, size_t length, struct lls_bytes *out)
{
  size_t start = out->length;
  for (size_t at = 0; at < length; at += lls_utf8_length(text + at)) {
    int32_t byte = byte_of(lls_utf8_char(text + at));
    if (byte < 0) {
      out->length = start;
      lls_bytes_append(out, text, length);
      return;
    }
    lls_bytes_append(out, &(char){(char)byte}, 1);
  }
}
