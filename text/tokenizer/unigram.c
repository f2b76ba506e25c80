/* SPDX-License-Identifier: Apache-2.0 */
/* The best split up to each position extends the best split up to an earlier one
 * (Viterbi). Of two equally good splits the first one found is kept, as in tokenizers. */
#include "text/tokenizer/unigram.h"

#include "text/tokenizer/trie.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0

struct lls_unigram {
  struct lls_trie pieces; /* values are ids */
  double *scores;         /* (n) by id */
  size_t n;
  double unknown_score;
  int32_t unknown;
  bool by_bytes;      /* an unknown character becomes its bytes' tokens */
  int32_t bytes[256]; /* tokens of the 256 bytes */
};

/* The best split up to a position of the text; its last token has `length` bytes. */
struct lls_cut {
  double score;
  int32_t id;
  uint32_t length; /* 0: no split was found yet */
};

/* ---- loading ---------------------------------------------------------------------- */

static int add_piece(struct lls_unigram *u, struct lls_vocab *vocab, int32_t id,
                     const json_t *pair, struct lls_error *err)
{
  const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
  const char *piece = json_string_value(text);
  if (piece == NULL || (!json_is_number(score) && !json_is_null(score)))
    return lls_fail(err, -EINVAL, "item %d of \"vocab\" is not a text and its score", id);
  size_t length = json_string_length(text);
  int code = lls_vocab_add(vocab, id, piece, length, err);
  if (code < 0)
    return code;
  vocab->tokens[id].in_model = true;
  if (json_is_null(score))
    return 0;
  u->scores[id] = json_number_value(score);
  u->unknown_score = fmin(u->unknown_score, u->scores[id]);
  code = lls_trie_insert(&u->pieces, piece, length, id);
  return code < 0 ? lls_fail(err, code, "no memory for the vocabulary") : 0;
}

/* Returns true if each byte has a token. */
static bool find_bytes(struct lls_unigram *u, const struct lls_vocab *vocab)
{
  char name[8];
  for (unsigned byte = 0; byte < 256; byte++) {
    snprintf(name, sizeof name, "<0x%02X>", byte);
    u->bytes[byte] = lls_vocab_find_in_model(vocab, name, strlen(name));
    if (u->bytes[byte] < 0)
      return false;
  }
  return true;
}

static int read_members(struct lls_unigram *u, const json_t *node,
                        struct lls_vocab *vocab, struct lls_error *err)
{
  const json_t *pieces = json_object_get(node, "vocab");
  const json_t *unknown = json_object_get(node, "unk_id");
  size_t i;
  json_t *pair;
  u->n = json_array_size(pieces);
  if (u->n == 0 || u->n > LLS_VOCAB_MAX)
    return lls_fail(err, -EINVAL, "\"vocab\" is not a list of 1 to %d pieces",
                    LLS_VOCAB_MAX);
  json_int_t id = json_integer_value(unknown);
  if (!json_is_integer(unknown) || id < 0 || (size_t)id >= u->n)
    return lls_fail(err, -EINVAL, "\"unk_id\" is not an id of \"vocab\"");
  u->unknown = (int32_t)id;
  u->scores = calloc(u->n, sizeof *u->scores);
  if (u->scores == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the model");
  json_array_foreach((json_t *)pieces, i, pair)
  {
    int code = add_piece(u, vocab, (int32_t)i, pair, err);
    if (code < 0)
      return code;
  }
  u->unknown_score -= UNKNOWN_PENALTY;
  u->by_bytes =
      json_is_true(json_object_get(node, "byte_fallback")) && find_bytes(u, vocab);
  return 0;
}

int lls_unigram_load(const json_t *node, struct lls_vocab *vocab,
                     struct lls_unigram **out, struct lls_error *err)
{
  struct lls_unigram *u = calloc(1, sizeof *u);
  if (u == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the model");
  u->unknown_score = INFINITY;
  int code = read_members(u, node, vocab, err);
  if (code < 0)
    lls_unigram_free(u);
  else
    *out = u;
  return code;
}

void lls_unigram_free(struct lls_unigram *u)
{
  if (u == NULL)
    return;
  lls_trie_free(&u->pieces);
  free(u->scores);
  free(u);
}

/* ---- encoding --------------------------------------------------------------------- */

static void offer(struct lls_cut *cut, double score, int32_t id, size_t length)
{
  if (cut->length == 0 || score > cut->score)
    *cut = (struct lls_cut){score, id, (uint32_t)length};
}

/* Extends the split at a position by every piece that the rest of the text begins
 * with. */
static void go_on(const struct lls_unigram *u, const char *rest, size_t length,
                  size_t character, struct lls_cut *cuts)
{
  bool known = false;
  int32_t node = u->pieces.count > 0 ? (unsigned char)rest[0] : LLS_TRIE_NONE;
  for (size_t n = 1; node != LLS_TRIE_NONE; n++) {
    int32_t id = u->pieces.nodes[node].value;
    if (id != LLS_TRIE_NONE) {
      offer(&cuts[n], cuts->score + u->scores[id], id, n);
      known |= n == character;
    }
    if (n == length)
      break;
    node = lls_trie_next(&u->pieces, node, (unsigned char)rest[n]);
  }
  if (!known)
    offer(&cuts[character], cuts->score + u->unknown_score, u->unknown, character);
}

/* Appends the tokens of the best split, last token first. */
static void append_backwards(const struct lls_unigram *u, const struct lls_cut *cuts,
                             const char *word, size_t length, struct lls_ids *ids)
{
  bool behind_unknown = false;
  for (size_t end = length; end > 0; end -= cuts[end].length) {
    bool unknown = cuts[end].id == u->unknown;
    for (size_t i = 0; unknown && u->by_bytes && i < cuts[end].length; i++)
      lls_ids_append(ids, u->bytes[(unsigned char)word[end - 1 - i]]);
    if (!unknown || (!u->by_bytes && !behind_unknown))
      lls_ids_append(ids, cuts[end].id);
    behind_unknown = unknown;
  }
}

static void reverse(int32_t *ids, size_t n)
{
  for (size_t i = 0; i < n / 2; i++) {
    int32_t kept = ids[i];
    ids[i] = ids[n - 1 - i];
    ids[n - 1 - i] = kept;
  }
}

int lls_unigram_encode(const struct lls_unigram *u, struct lls_unigram_work *work,
                       const char *word, size_t length, struct lls_ids *ids)
{
  size_t before = ids->count;
  if (!lls_grow((void **)&work->cuts, &work->capacity, length + 1, sizeof *work->cuts))
    return -ENOMEM;
  memset(work->cuts, 0, (length + 1) * sizeof *work->cuts);
  for (size_t at = 0, character; at < length; at += character) {
    character = lls_utf8_length(word + at);
    go_on(u, word + at, length - at, character, work->cuts + at);
  }
  append_backwards(u, work->cuts, word, length, ids);
  if (ids->failed)
    return -ENOMEM;
  reverse(ids->data + before, ids->count - before);
  return 0;
}

void lls_unigram_work_free(struct lls_unigram_work *work)
{
  free(work->cuts);
}
