/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values of a GGUF file's metadata; their bytes were checked at open. */
#include <endian.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/model/gguf_file.h"

static const struct lls_gguf_entry *find(const struct lls_gguf_file *file,
                                         const char *key)
{
  struct lls_gguf_entry *found;
  HASH_FIND_STR(file->entries, key, found);
  return found;
}

static uint64_t bits_at(const unsigned char *bytes, size_t n)
{
  uint64_t bits = 0;
  for (size_t i = n; i-- > 0;)
    bits = bits << 8 | bytes[i];
  return bits;
}

static float f32_at(const unsigned char *bytes)
{
  uint32_t bits = (uint32_t)bits_at(bytes, 4);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double f64_at(const unsigned char *bytes)
{
  uint64_t bits = bits_at(bytes, 8);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Returns one item as JSON and moves *at after it; NULL if JSON cannot represent it. */
static json_t *item_at(enum lls_gguf_type type, const unsigned char **at)
{
  const unsigned char *bytes = *at;
  static const unsigned char width[LLS_GGUF_TYPES] = {
      [LLS_GGUF_U8] = 1,  [LLS_GGUF_I8] = 1,     [LLS_GGUF_U16] = 2, [LLS_GGUF_I16] = 2,
      [LLS_GGUF_U32] = 4, [LLS_GGUF_I32] = 4,    [LLS_GGUF_F32] = 4, [LLS_GGUF_BOOL] = 1,
      [LLS_GGUF_U64] = 8, [LLS_GGUF_STRING] = 8, [LLS_GGUF_I64] = 8, [LLS_GGUF_F64] = 8,
  };
  *at += width[type];
  switch (type) {
  case LLS_GGUF_I8:
    return json_integer((int8_t)*bytes);
  case LLS_GGUF_I16:
    return json_integer((int16_t)bits_at(bytes, 2));
  case LLS_GGUF_I32:
    return json_integer((int32_t)bits_at(bytes, 4));
  case LLS_GGUF_BOOL:
    return json_boolean(*bytes != 0);
  case LLS_GGUF_F32:
    return json_real(f32_at(bytes));
  case LLS_GGUF_F64:
    return json_real(f64_at(bytes));
  case LLS_GGUF_STRING:
    *at += bits_at(bytes, 8);
    return json_stringn((const char *)bytes + 8, bits_at(bytes, 8));
  default:
    return json_integer((json_int_t)bits_at(bytes, width[type]));
  }
}

/* JSON has no infinity, which stands in lists of Gemma 3n for layers that cut no gate:
 * returns the largest number instead, and NULL for an item that is no infinity. */
static json_t *largest(enum lls_gguf_type type, const unsigned char *bytes)
{
  float x = type == LLS_GGUF_F32 ? f32_at(bytes) : 0;
  return isinf(x) ? json_real((double)copysignf(FLT_MAX, x)) : NULL;
}

static int bad_item(const struct lls_gguf_file *file, const struct lls_gguf_entry *e,
                    uint64_t item, struct lls_error *err)
{
  return lls_fail(err, -EINVAL, "%s: item %" PRIu64 " of %.128s is not %s", file->path,
                  item, e->key, e->type == LLS_GGUF_STRING ? "valid UTF-8" : "a number");
}

int lls_gguf_value(const struct lls_gguf_file *file, const char *key, json_t **out,
                   struct lls_error *err)
{
  const struct lls_gguf_entry *e = find(file, key);
  *out = NULL;
  if (e == NULL)
    return 0;
  const unsigned char *at = e->data;
  json_t *list = json_array();
  for (uint64_t i = 0; i < e->n; i++) {
    const unsigned char *bytes = at;
    json_t *item = item_at(e->type, &at);
    if (item == NULL && e->is_array)
      item = largest(e->type, bytes);
    if (json_array_append_new(list, item) < 0) {
      json_decref(list);
      return bad_item(file, e, i, err);
    }
  }
  if (e->is_array) {
    *out = list;
    return 0;
  }
  *out = json_incref(json_array_get(list, 0));
  json_decref(list);
  return 0;
}

int64_t lls_gguf_integer(const struct lls_gguf_file *file, const char *key,
                         int64_t fallback)
{
  const struct lls_gguf_entry *e = find(file, key);
  if (e == NULL || e->n == 0)
    return fallback;
  const unsigned char *at = e->data; /* an array is represented by its first item */
  json_t *item = item_at(e->type, &at);
  int64_t value = json_is_integer(item) ? json_integer_value(item) : fallback;
  json_decref(item);
  return value;
}

const char *lls_gguf_text(const struct lls_gguf_file *file, const char *key, char *text,
                          size_t size)
{
  const struct lls_gguf_entry *e = find(file, key);
  if (e == NULL || e->is_array || e->type != LLS_GGUF_STRING)
    return NULL;
  uint64_t length = bits_at(e->data, 8);
  if (length >= size || memchr(e->data + 8, '\0', length) != NULL)
    return NULL;
  memcpy(text, e->data + 8, length);
  text[length] = '\0';
  return text;
}
