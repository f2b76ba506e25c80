/* SPDX-License-Identifier: Apache-2.0 */
/* A list that grows; see pieces.h. */
#include "core/tokenizer/pieces.h"

#include <stdlib.h>

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
