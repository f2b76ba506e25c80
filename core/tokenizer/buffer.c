/* SPDX-License-Identifier: Apache-2.0 */
/* Growable arrays; see buffer.h. Capacity doubles, so appending is amortised constant. */
#include "core/tokenizer/buffer.h"

#include <stdlib.h>

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
  lls_text_free(&pieces->text);
  free(pieces->spans);
}
