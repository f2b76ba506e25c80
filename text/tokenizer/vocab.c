/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary's two directions: an array by id, a hash table by string. */
#include "text/tokenizer/vocab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Multiplies and folds 8 bytes at a time. The strings come from the model, not from a
 * client, so the hash need not resist chosen collisions. */
static size_t hash_string(const char *string, size_t length)
{
  uint64_t hash = 0x9e3779b97f4a7c15u ^ length;
  while (length > 0) {
    uint64_t word = 0;
    size_t take = length < 8 ? length : 8;
    memcpy(&word, string, take);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    string += take;
    length -= take;
  }
  return (size_t)hash;
}

static bool is_token(const struct lls_vocab *vocab, int32_t id, const char *string,
                     size_t length)
{
  const struct lls_token *token = &vocab->tokens[id];
  return token->string.length == length &&
         memcmp(vocab->text.data + token->string.offset, string, length) == 0;
}

int32_t lls_vocab_find(const struct lls_vocab *vocab, const char *string, size_t length)
{
  if (vocab->slots == NULL || length == 0)
    return -1;
  size_t slot = hash_string(string, length) & vocab->slot_mask;
  for (; vocab->slots[slot] != 0; slot = (slot + 1) & vocab->slot_mask) {
    int32_t id = (int32_t)(vocab->slots[slot] - 1);
    if (is_token(vocab, id, string, length))
      return id;
  }
  return -1;
}

int32_t lls_vocab_find_in_model(const struct lls_vocab *vocab, const char *string,
                                size_t length)
{
  int32_t id = lls_vocab_find(vocab, string, length);
  return id >= 0 && vocab->tokens[id].in_model ? id : -1;
}

static void put(struct lls_vocab *vocab, int32_t id)
{
  const struct lls_slice *string = &vocab->tokens[id].string;
  size_t slot =
      hash_string(vocab->text.data + string->offset, string->length) & vocab->slot_mask;
  while (vocab->slots[slot] != 0)
    slot = (slot + 1) & vocab->slot_mask;
  vocab->slots[slot] = (uint32_t)id + 1;
  vocab->used++;
}

static int rehash(struct lls_vocab *vocab, size_t slots)
{
  uint32_t *fresh = calloc(slots, sizeof *fresh);
  if (fresh == NULL)
    return -ENOMEM;
  free(vocab->slots);
  vocab->slots = fresh;
  vocab->slot_mask = slots - 1;
  vocab->used = 0;
  for (size_t id = 0; id < vocab->size; id++)
    if (vocab->tokens[id].defined)
      put(vocab, (int32_t)id);
  return 0;
}

static bool reach(struct lls_vocab *vocab, int32_t id)
{
  size_t size = (size_t)id + 1;
  if (size <= vocab->size)
    return true;
  if (!lls_grow((void **)&vocab->tokens, &vocab->capacity, size, sizeof *vocab->tokens))
    return false;
  memset(vocab->tokens + vocab->size, 0, (size - vocab->size) * sizeof *vocab->tokens);
  vocab->size = size;
  return true;
}

static struct lls_slice append_text(struct lls_vocab *vocab, const char *text,
                                    size_t length)
{
  struct lls_slice slice = {(uint32_t)vocab->text.length, (uint32_t)length};
  lls_bytes_append(&vocab->text, text, length);
  lls_bytes_append(&vocab->text, "", 1);
  return slice;
}

void lls_vocab_set_decoded(struct lls_vocab *vocab, int32_t id, const char *text,
                           size_t length)
{
  vocab->tokens[id].decoded = append_text(vocab, text, length);
}

int lls_vocab_add(struct lls_vocab *vocab, int32_t id, const char *string, size_t length,
                  struct lls_error *err)
{
  int32_t present = lls_vocab_find(vocab, string, length);
  if (present == id)
    return 0;
  if (present >= 0)
    return lls_fail(err, -EINVAL, "token \"%.*s\" has two ids, %d and %d", (int)length,
                    string, present, id);
  if (!reach(vocab, id))
    return lls_fail(err, -ENOMEM, "no memory for the vocabulary");
  struct lls_token *token = &vocab->tokens[id];
  if (token->defined)
    return lls_fail(err, -EINVAL, "two tokens have id %d, \"%.*s\" and \"%.*s\"", id,
                    (int)token->string.length, lls_vocab_string(vocab, id), (int)length,
                    string);
  token->string = append_text(vocab, string, length);
  token->decoded = token->string;
  size_t slots = vocab->slots == NULL ? 1024 : vocab->slot_mask + 1;
  bool full = vocab->slots == NULL || (vocab->used + 1) * 2 > slots;
  if (vocab->text.failed || (full && rehash(vocab, slots * 2) < 0))
    return lls_fail(err, -ENOMEM, "no memory for the vocabulary");
  token->defined = true;
  if (length > 0)
    put(vocab, id);
  return 0;
}

int lls_vocab_load(struct lls_vocab *vocab, const json_t *object, struct lls_error *err)
{
  const char *string;
  json_t *value;
  json_object_foreach((json_t *)object, string, value)
  {
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= LLS_VOCAB_MAX)
      return lls_fail(err, -EINVAL,
                      "the id of token \"%s\" is not an integer from 0 to %d", string,
                      LLS_VOCAB_MAX - 1);
    int code = lls_vocab_add(vocab, (int32_t)id, string, strlen(string), err);
    if (code < 0)
      return code;
    vocab->tokens[id].in_model = true;
  }
  return 0;
}

void lls_vocab_free(struct lls_vocab *vocab)
{
  lls_bytes_free(&vocab->text);
  free(vocab->tokens);
  free(vocab->slots);
}
