/* SPDX-License-Identifier: Apache-2.0 */
/* Growable arrays; see buffer.h. Capacity doubles, so appending is amortised constant. */
#include "text/base/buffer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool lls_grow(void **data, size_t *capacity, size_t needed, size_t size)
{
  if (needed <= *capacity)
    return true;
  size_t wanted = *capacity < 16 ? 16 : *capacity;
  while (wanted < needed)
    wanted *= 2;
  void *grown = realloc(*data, wanted * size);
  if (grown == NULL)
    return false;
  *data = grown;
  *capacity = wanted;
  return true;
}

void lls_bytes_append(struct lls_bytes *bytes, const char *data, size_t length)
{
  if (length == 0)
    return;
  bool fits = bytes->most == 0 ||
              (bytes->length <= bytes->most && length <= bytes->most - bytes->length);
  if (!fits ||
      !lls_grow((void **)&bytes->data, &bytes->capacity, bytes->length + length, 1)) {
    bytes->failed = true;
    return;
  }
  memcpy(bytes->data + bytes->length, data, length);
  bytes->length += length;
}

void lls_bytes_append_char(struct lls_bytes *bytes, int32_t codepoint)
{
  utf8proc_uint8_t encoded[4];
  utf8proc_ssize_t length = utf8proc_encode_char(codepoint, encoded);
  lls_bytes_append(bytes, (const char *)encoded, (size_t)length);
}

void lls_bytes_swap(struct lls_bytes *a, struct lls_bytes *b)
{
  struct lls_bytes kept = *a;
  *a = *b;
  *b = kept;
}

void lls_bytes_free(struct lls_bytes *bytes)
{
  free(bytes->data);
  *bytes = (struct lls_bytes){0};
}

void lls_ids_append(struct lls_ids *ids, int32_t id)
{
  if (!lls_grow((void **)&ids->data, &ids->capacity, ids->count + 1, sizeof *ids->data)) {
    ids->failed = true;
    return;
  }
  ids->data[ids->count++] = id;
}

void lls_pieces_append(struct lls_pieces *pieces, size_t start, size_t end)
{
  if (start == end)
    return;
  if (!lls_grow((void **)&pieces->spans, &pieces->capacity, pieces->count + 1,
                sizeof *pieces->spans)) {
    pieces->failed = true;
    return;
  }
  pieces->spans[pieces->count++] = (struct lls_span){start, end - start};
}

void lls_pieces_free(struct lls_pieces *pieces)
{
  lls_bytes_free(&pieces->text);
  free(pieces->spans);
}
