/* SPDX-License-Identifier: Apache-2.0 */
/* The longest match is searched from the longest candidate down: the number of
 * characters per word is bounded, and so is the work per byte of text. */
#include "text/tokenizer/wordpiece.h"

#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* longest word in characters; longer ones are unknown, whatever the file says */
#define MAX_CHARS  1000
#define MAX_PREFIX 32

struct lls_wordpiece {
  const struct lls_vocab *vocab;
  char prefix[MAX_PREFIX]; /* (prefix_length) of pieces inside a word */
  size_t prefix_length;
  size_t max_chars; /* longer words are unknown */
  int32_t unknown;
};

static int read_members(struct lls_wordpiece *w, const json_t *node,
                        struct lls_error *err)
{
  const char *prefix =
      json_string_value(json_object_get(node, "continuing_subword_prefix"));
  const char *unknown = json_string_value(json_object_get(node, "unk_token"));
  json_int_t most = json_integer_value(json_object_get(node, "max_input_chars_per_word"));
  prefix = prefix != NULL ? prefix : "##";
  unknown = unknown != NULL ? unknown : "[UNK]";
  most = most == 0 ? 100 : most;
  if (most < 1 || most > MAX_CHARS)
    return lls_fail(err, -EINVAL, "\"max_input_chars_per_word\" is not from 1 to %d",
                    MAX_CHARS);
  if (strlen(prefix) >= sizeof w->prefix)
    return lls_fail(err, -EINVAL, "\"continuing_subword_prefix\" is too long");
  w->max_chars = (size_t)most;
  w->prefix_length = strlen(prefix);
  memcpy(w->prefix, prefix, w->prefix_length);
  w->unknown = lls_vocab_find_in_model(w->vocab, unknown, strlen(unknown));
  if (w->unknown < 0)
    return lls_fail(err, -EINVAL, "\"unk_token\" %s is not in the vocabulary", unknown);
  return 0;
}

int lls_wordpiece_load(const json_t *node, const struct lls_vocab *vocab,
                       struct lls_wordpiece **out, struct lls_error *err)
{
  struct lls_wordpiece *w = calloc(1, sizeof *w);
  if (w == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the model");
  w->vocab = vocab;
  int code = read_members(w, node, err);
  if (code < 0)
    free(w);
  else
    *out = w;
  return code;
}

void lls_wordpiece_free(struct lls_wordpiece *wordpiece)
{
  free(wordpiece);
}

/* Returns the longest piece that the rest of a word begins with, and its length; -1 if
 * none. */
static int32_t longest(const struct lls_wordpiece *w, const char *rest, size_t length,
                       bool inside, size_t *taken)
{
  char piece[MAX_PREFIX + MAX_CHARS * 4];
  size_t prefix = inside ? w->prefix_length : 0, size;
  memcpy(piece, w->prefix, prefix);
  memcpy(piece + prefix, rest, length);
  for (; length > 0; length -= size) {
    int32_t id = lls_vocab_find_in_model(w->vocab, piece, prefix + length);
    *taken = length;
    if (id >= 0)
      return id;
    lls_utf8_last(rest, length, &size);
  }
  return -1;
}

static size_t characters(const char *word, size_t length)
{
  size_t n = 0;
  for (size_t at = 0; at < length; at += lls_utf8_length(word + at))
    n++;
  return n;
}

int lls_wordpiece_encode(const struct lls_wordpiece *w, const char *word, size_t length,
                         struct lls_ids *ids)
{
  size_t before = ids->count;
  bool known = characters(word, length) <= w->max_chars;
  for (size_t at = 0, taken; known && at < length; at += taken) {
    int32_t id = longest(w, word + at, length - at, at > 0, &taken);
    known = id >= 0;
    if (known)
      lls_ids_append(ids, id);
  }
  if (!known) {
    ids->count = before;
    lls_ids_append(ids, w->unknown);
  }
  return ids->failed ? -ENOMEM : 0;
}
