/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table's bytes: the length of the trie; its units of 32 bits, lowest byte first;
 * and texts that each end with a zero. A unit has its label in bits 0 to 7, bit 8 if a
 * string ends there, bit 9 if its offset is in units of 256, and the offset from bit 10
 * on. A unit with bit 31 is a value: the position of a text.
 */
#include "text/tokenizer/charsmap.h"

#include "text/base/unicode.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHORT 6 /* bytes: longer clusters are searched code point by code point */

struct lls_charsmap {
  unsigned char *bytes; /* (n) */
  size_t n, units;
};

/* ---- loading ---------------------------------------------------------------------- */

static int digit(char c)
{
  static const char all[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *found = c != '\0' ? strchr(all, c) : NULL;
  return found != NULL ? (int)(found - all) : -1;
}

/* Returns the number of bytes, or -EINVAL. */
static int64_t from_base64(const char *text, size_t length, unsigned char *out)
{
  uint32_t bits = 0;
  int64_t n = 0;
  while (length > 0 && text[length - 1] == '=')
    length--;
  for (size_t i = 0; i < length; i++) {
    int value = digit(text[i]);
    if (value < 0)
      return -EINVAL;
    bits = bits << 6 | (uint32_t)value;
    if (i % 4 > 0)
      out[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
  }
  return n;
}

static int64_t from_list(const json_t *list, unsigned char *out)
{
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)list, i, item)
  {
    if (!json_is_integer(item))
      return -EINVAL;
    out[i] = (unsigned char)json_integer_value(item);
  }
  return (int64_t)json_array_size(list);
}

static uint32_t unit_at(const struct lls_charsmap *map, size_t unit)
{
  const unsigned char *b = map->bytes + 4 + unit * 4;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Returns false if the bytes are not a table; its last text must end with a zero. */
static bool check(struct lls_charsmap *map)
{
  if (map->n < 8)
    return false;
  const unsigned char *b = map->bytes;
  size_t trie = b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
  map->units = trie / 4;
  return trie % 4 == 0 && trie > 0 && trie < map->n - 4 && b[map->n - 1] == '\0' &&
         lls_utf8_is_valid((const char *)b + 4 + trie, map->n - 4 - trie);
}

int lls_charsmap_load(const json_t *node, struct lls_charsmap **out,
                      struct lls_error *err)
{
  size_t most = json_is_string(node) ? json_string_length(node) : json_array_size(node);
  struct lls_charsmap *map = calloc(1, sizeof *map);
  if (map != NULL)
    map->bytes = malloc(most + 1);
  if (map == NULL || map->bytes == NULL) {
    lls_charsmap_free(map);
    return lls_fail(err, -ENOMEM, "no memory for a normalizer");
  }
  int64_t n = json_is_string(node)
                  ? from_base64(json_string_value(node), most, map->bytes)
                  : from_list(node, map->bytes);
  map->n = n > 0 ? (size_t)n : 0;
  if (!check(map)) {
    lls_charsmap_free(map);
    return lls_fail(err, -EINVAL, "\"precompiled_charsmap\" is not a table");
  }
  *out = map;
  return 0;
}

void lls_charsmap_free(struct lls_charsmap *map)
{
  if (map != NULL)
    free(map->bytes);
  free(map);
}

/* ---- applying the table ----------------------------------------------------------- */

static size_t offset_of(uint32_t unit)
{
  return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Returns NULL if there is no text at this place, or it would begin inside a
 * character. */
static const char *text_at(const struct lls_charsmap *map, size_t place)
{
  size_t texts = 4 + map->units * 4;
  if (place >= map->n - texts || (map->bytes[texts + place] & 0xc0) == 0x80)
    return NULL;
  return (const char *)map->bytes + texts + place;
}

/* Finds the shortest string of the table that text begins with. Returns its
 * replacement, or NULL. */
static const char *look_up(const struct lls_charsmap *map, const char *text,
                           size_t length)
{
  size_t at = offset_of(unit_at(map, 0));
  for (size_t i = 0; i < length && text[i] != '\0'; i++) {
    at ^= (unsigned char)text[i];
    if (at >= map->units)
      return NULL;
    uint32_t unit = unit_at(map, at);
    if ((unit & (1u << 31 | 0xff)) != (unsigned char)text[i])
      return NULL;
    at ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0)
      continue;
    size_t value = at < map->units ? unit_at(map, at) & ((1u << 31) - 1) : SIZE_MAX;
    return text_at(map, value);
  }
  return NULL;
}

/* Appends the replacement of text. Returns false if the table has none. */
static bool replace(const struct lls_charsmap *map, const char *text, size_t length,
                    struct lls_bytes *out)
{
  const char *found = look_up(map, text, length);
  if (found != NULL)
    lls_bytes_append(out, found, strlen(found));
  return found != NULL;
}

void lls_charsmap_apply(const struct lls_charsmap *map, const char *text, size_t length,
                        struct lls_bytes *out)
{
  for (size_t at = 0, whole; at < length; at += whole) {
    whole = lls_unicode_grapheme(text + at, length - at);
    if (whole < SHORT && replace(map, text + at, whole, out))
      continue;
    for (size_t i = 0, one; i < whole; i += one) {
      one = lls_utf8_length(text + at + i);
      if (!replace(map, text + at + i, one, out))
        lls_bytes_append(out, text + at + i, one);
    }
  }
}
