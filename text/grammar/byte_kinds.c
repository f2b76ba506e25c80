/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of ASCII bytes, and the states of a character; see byte_kinds.h. */
#include "text/grammar/byte_kinds.h"

enum { BETWEEN, LAST, TWO_MORE, THREE_MORE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 };

uint64_t lls_byte_kind(uint8_t byte)
{
  if (byte >= '0' && byte <= '9')
    return 1;
  if (byte >= 'A' && byte <= 'Z')
    return 2;
  if (byte >= 'a' && byte <= 'z')
    return 4;
  if (byte < ' ' || byte == 0x7F)
    return 8;
  uint8_t mark = (uint8_t)(byte - ' '); /* the 32 punctuation marks, which lie between
                                         * digits and letters */
  mark = (uint8_t)(mark - (byte > '9' ? 10 : 0) - (byte > 'Z' ? 26 : 0) -
                   (byte > 'z' ? 26 : 0));
  return UINT64_C(16) << mark;
}

static uint8_t lead(uint8_t byte)
{
  if (byte < 0x80)
    return BETWEEN;
  if (byte < 0xC2 || byte > 0xF4)
    return LLS_UTF8_BROKEN;
  if (byte < 0xE0)
    return LAST;
  if (byte < 0xF0)
    return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : TWO_MORE;
  return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : THREE_MORE;
}

uint8_t lls_utf8_next(uint8_t state, uint8_t byte)
{
  static const struct {
    uint8_t lo, hi, next;
  } after[] = {
      [LAST] = {0x80, 0xBF, BETWEEN},        [TWO_MORE] = {0x80, 0xBF, LAST},
      [THREE_MORE] = {0x80, 0xBF, TWO_MORE}, [AFTER_E0] = {0xA0, 0xBF, LAST},
      [AFTER_ED] = {0x80, 0x9F, LAST},       [AFTER_F0] = {0x90, 0xBF, TWO_MORE},
      [AFTER_F4] = {0x80, 0x8F, TWO_MORE},
  };
  if (state == BETWEEN)
    return lead(byte);
  return byte >= after[state].lo && byte <= after[state].hi ? after[state].next
                                                            : LLS_UTF8_BROKEN;
}
