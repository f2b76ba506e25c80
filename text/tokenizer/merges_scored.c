/* SPDX-License-Identifier: Apache-2.0 */
/* Merges from a vocabulary with scores. Two halves determine their concatenation, so
 * the table has each pair once. */
#include "text/tokenizer/merges.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>

struct scored {
  double score;
  size_t id;
};

static int higher_first(const void *a, const void *b)
{
  double x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;
  return (x < y) - (x > y);
}

/* Returns the ranks (size) by id: 0 for the highest score; equal scores have equal
 * ranks. */
static uint32_t *rank_tokens(const json_t *scores, size_t size)
{
  struct scored *order = calloc(size, sizeof *order);
  uint32_t *ranks = calloc(size, sizeof *ranks), rank = 0;
  for (size_t id = 0; order != NULL && id < size; id++)
    order[id] = (struct scored){json_number_value(json_array_get(scores, id)), id};
  if (order != NULL)
    qsort(order, size, sizeof *order, higher_first);
  for (size_t i = 0; order != NULL && ranks != NULL && i < size; i++) {
    rank += i > 0 && order[i].score < order[i - 1].score;
    ranks[order[i].id] = rank;
  }
  free(order);
  return ranks;
}

/* Adds all merges that make a token, or only counts them if merges is NULL. */
static size_t split_token(const struct lls_vocab *vocab, size_t id, uint32_t rank,
                          struct lls_merges *merges)
{
  const struct lls_token *token = &vocab->tokens[id];
  const char *text = vocab->text.data + token->string.offset;
  size_t length = token->string.length, count = 0;
  if (!token->in_model)
    return 0;
  for (size_t at = 0; at < length;) {
    at += lls_utf8_length(text + at);
    if (at >= length)
      break;
    int32_t left = lls_vocab_find_in_model(vocab, text, at);
    int32_t right = lls_vocab_find_in_model(vocab, text + at, length - at);
    if (left < 0 || right < 0)
      continue;
    count++;
    if (merges != NULL)
      lls_merges_put(merges, (struct lls_merge){left, right, (int32_t)id, rank});
  }
  return count;
}

int lls_merges_load_scored(struct lls_merges *merges, const json_t *scores,
                           const struct lls_vocab *vocab, struct lls_error *err)
{
  if (!json_is_array(scores))
    return lls_fail(err, -EINVAL, "\"scores\" is not a list");
  size_t count = 0;
  for (size_t id = 0; id < vocab->size; id++)
    count += split_token(vocab, id, 0, NULL);
  uint32_t *ranks = rank_tokens(scores, vocab->size);
  if (ranks == NULL || lls_merges_make(merges, count) < 0) {
    free(ranks);
    return lls_fail(err, -ENOMEM, "no memory for the merges");
  }
  for (size_t id = 0; id < vocab->size; id++)
    split_token(vocab, id, ranks[id], merges);
  free(ranks);
  return 0;
}
