/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of every token, decoded once at load: a step's tokens become text by table
 * look-ups. 128,000 tokens take about 1 MB, and some 50 ms to decode.
 */
#include "text/tokenizer/tokenizer_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int decode(struct lls_tokenizer *tokenizer, struct lls_matcher *matcher, size_t id,
                  bool first, struct lls_slice *slice)
{
  struct lls_surface *surface = &tokenizer->surface;
  const struct lls_token *token = &tokenizer->vocab.tokens[id];
  slice->offset = (uint32_t)surface->text.length;
  if (!token->defined)
    return 0;
  int code = lls_decode_token(&tokenizer->decoder, matcher,
                              tokenizer->vocab.text.data + token->decoded.offset,
                              token->decoded.length, first, &surface->text);
  if (code < 0)
    return code;
  slice->length = (uint32_t)(surface->text.length - slice->offset);
  if (slice->length > surface->longest)
    surface->longest = slice->length;
  return 0;
}

/* Decodes a token as the first of a text. Most tokens have the same bytes there as
 * inside a text, and share them. */
static int decode_first(struct lls_tokenizer *tokenizer, struct lls_matcher *matcher,
                        size_t id)
{
  struct lls_surface *surface = &tokenizer->surface;
  struct lls_slice *inside = &surface->inside[id], *first = &surface->first[id];
  int code = decode(tokenizer, matcher, id, true, first);
  if (code == 0 && first->length == inside->length) {
    surface->text.length -= first->length;
    *first = *inside;
  }
  return code;
}

int lls_surface_build(struct lls_tokenizer *tokenizer, struct lls_error *err)
{
  struct lls_surface *surface = &tokenizer->surface;
  size_t size = tokenizer->vocab.size;
  struct lls_matcher *matcher = NULL;
  surface->inside = calloc(size, sizeof *surface->inside);
  surface->first = calloc(size, sizeof *surface->first);
  int code = lls_matcher_new(&matcher);
  if (surface->inside == NULL || surface->first == NULL)
    code = -ENOMEM;
  for (size_t id = 0; id < size && code == 0; id++) {
    code = decode(tokenizer, matcher, id, false, &surface->inside[id]);
    if (code == 0)
      code = decode_first(tokenizer, matcher, id);
  }
  lls_matcher_free(matcher);
  return code < 0 ? lls_fail(err, code, "decoder: cannot decode the vocabulary: %s",
                             code == -EFBIG ? "its steps make too much of a token"
                                            : strerror(-code))
                  : 0;
}

void lls_surface_free(struct lls_surface *surface)
{
  lls_bytes_free(&surface->text);
  free(surface->inside);
  free(surface->first);
}
