/* SPDX-License-Identifier: Apache-2.0 */
/* The merge table: reading it from tokenizer.json, and searching a pair. */
#include "text/tokenizer/merges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t hash_pair(int32_t left, int32_t right)
{
  uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  return (size_t)((pair * 0x9e3779b97f4a7c15u) >> 20);
}

/* Returns the slot of the pair, or the empty slot for it. */
static struct lls_merge *slot_of(const struct lls_merges *merges, int32_t left,
                                 int32_t right)
{
  size_t slot = hash_pair(left, right) & merges->mask;
  for (;; slot = (slot + 1) & merges->mask) {
    struct lls_merge *merge = &merges->slots[slot];
    if (merge->merged < 0 || (merge->left == left && merge->right == right))
      return merge;
  }
}

const struct lls_merge *lls_merges_find(const struct lls_merges *merges, int32_t left,
                                        int32_t right)
{
  const struct lls_merge *merge = slot_of(merges, left, right);
  return merge->merged >= 0 ? merge : NULL;
}

int lls_merges_make(struct lls_merges *merges, size_t count)
{
  size_t slots = 16;
  while (slots < 2 * count)
    slots *= 2;
  merges->slots = malloc(slots * sizeof *merges->slots);
  if (merges->slots == NULL)
    return -ENOMEM;
  merges->mask = slots - 1;
  for (size_t i = 0; i < slots; i++)
    merges->slots[i].merged = -1;
  return 0;
}

void lls_merges_put(struct lls_merges *merges, struct lls_merge merge)
{
  *slot_of(merges, merge.left, merge.right) = merge;
}

/* Reads the two halves of a merge, in either form. */
static bool read_pair(const json_t *item, const char **left, size_t *left_length,
                      const char **right)
{
  if (json_is_array(item) && json_array_size(item) == 2) {
    *left = json_string_value(json_array_get(item, 0));
    *right = json_string_value(json_array_get(item, 1));
    *left_length = *left != NULL ? strlen(*left) : 0;
    return *left != NULL && *right != NULL;
  }
  *left = json_string_value(item);
  const char *blank = *left != NULL ? strchr(*left, ' ') : NULL;
  if (blank == NULL || strchr(blank + 1, ' ') != NULL)
    return false;
  *left_length = (size_t)(blank - *left);
  *right = blank + 1;
  return true;
}

static int add_merge(struct lls_merges *merges, const json_t *item, size_t rank,
                     const struct lls_vocab *vocab, struct lls_error *err)
{
  const char *left, *right;
  size_t left_length;
  if (!read_pair(item, &left, &left_length, &right))
    return lls_fail(err, -EINVAL, "merge %zu is not a pair of tokens", rank);
  size_t right_length = strlen(right);
  struct lls_bytes joined = {0};
  lls_bytes_append(&joined, left, left_length);
  lls_bytes_append(&joined, right, right_length);
  bool failed = joined.failed;
  struct lls_merge merge = {
      .left = lls_vocab_find_in_model(vocab, left, left_length),
      .right = lls_vocab_find_in_model(vocab, right, right_length),
      .merged = lls_vocab_find_in_model(vocab, joined.data, joined.length),
      .rank = (uint32_t)rank,
  };
  lls_bytes_free(&joined);
  if (failed)
    return lls_fail(err, -ENOMEM, "no memory for the merges");
  if (merge.left < 0 || merge.right < 0 || merge.merged < 0)
    return lls_fail(
        err, -EINVAL,
        "merge %zu (\"%.*s\" and \"%s\") names or makes a token that is not in "
        "the vocabulary",
        rank, (int)left_length, left, right);
  lls_merges_put(merges, merge);
  return 0;
}

int lls_merges_load(struct lls_merges *merges, const json_t *list,
                    const struct lls_vocab *vocab, struct lls_error *err)
{
  if (!json_is_array(list))
    return lls_fail(err, -EINVAL, "\"merges\" is not a list");
  if (lls_merges_make(merges, json_array_size(list)) < 0)
    return lls_fail(err, -ENOMEM, "no memory for the merges");
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)list, i, item)
  {
    int code = add_merge(merges, item, i, vocab, err);
    if (code < 0)
      return code;
  }
  return 0;
}

void lls_merges_free(struct lls_merges *merges)
{
  free(merges->slots);
}
