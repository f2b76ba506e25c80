/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Added tokens in a byte trie: finding the longest token at a position takes one step
 * per byte, however many tokens share its beginning (Gemma has 6,000 that begin with
 * "<unused").
 */
#include "text/tokenizer/added.h"

#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE LLS_TRIE_NONE

/* Returns the index of the longest token that text begins with, or NONE. */
static int32_t longest(const struct lls_trie *trie, const char *text, size_t length,
                       size_t *size)
{
  int32_t found = NONE;
  int32_t node = (unsigned char)text[0];
  for (size_t i = 1;; i++) {
    if (trie->nodes[node].value != NONE) {
      found = trie->nodes[node].value;
      *size = i;
    }
    if (i == length || (node = lls_trie_next(trie, node, (unsigned char)text[i])) == NONE)
      return found;
  }
}

int32_t lls_added_at(const struct lls_added *added, const char *text, size_t length,
                     size_t *size)
{
  const struct lls_trie *const tries[] = {&added->raw, &added->normalized};
  int32_t id = -1;
  *size = 0;
  for (size_t i = 0; i < 2 && length > 0; i++) {
    size_t n = 0;
    int32_t index = tries[i]->count > 0 ? longest(tries[i], text, length, &n) : NONE;
    if (index == NONE || n <= *size)
      continue;
    id = added->tokens[index].id;
    *size = n;
  }
  return id;
}

static size_t spaces_before(const char *text, size_t end, size_t limit)
{
  size_t size;
  while (end > limit && lls_char_is_space(lls_utf8_last(text, end, &size)))
    end -= size;
  return end;
}

static size_t spaces_after(const char *text, size_t length, size_t start)
{
  while (start < length && lls_char_is_space(lls_utf8_char(text + start)))
    start += lls_utf8_length(text + start);
  return start;
}

static bool is_inside_word(const char *text, size_t length, size_t start, size_t end)
{
  size_t size;
  return (start > 0 && lls_char_is_word(lls_utf8_last(text, start, &size))) ||
         (end < length && lls_char_is_word(lls_utf8_char(text + end)));
}

bool lls_added_find(const struct lls_added *added, const struct lls_trie *trie,
                    const char *text, size_t length, size_t *at, size_t taken,
                    struct lls_added_match *match)
{
  if (trie->count == 0)
    return false;
  for (size_t start = *at, size = 0; start < length; start++) {
    int32_t index = longest(trie, text + start, length - start, &size);
    if (index == NONE)
      continue;
    const struct lls_added_token *token = &added->tokens[index];
    *at = start + size;
    if (token->single_word && is_inside_word(text, length, start, *at)) {
      start = *at - 1;
      continue;
    }
    match->id = token->id;
    match->start = token->lstrip ? spaces_before(text, start, taken) : start;
    match->end = token->rstrip ? spaces_after(text, length, *at) : *at;
    return true;
  }
  return false;
}

/*
 * A token that is searched in normalised text is itself normalised, and decoded from
 * that form, so that the decoder can undo the normalisation.
 */
static int insert_normalized(struct lls_added *added, int32_t index, const char *content,
                             struct lls_vocab *vocab,
                             const struct lls_normalizer *normalizer,
                             struct lls_matcher *matcher)
{
  struct lls_bytes text = {0}, spare = {0};
  lls_bytes_append(&text, content, strlen(content));
  int code = text.failed ? -ENOMEM : lls_normalize(normalizer, matcher, &text, &spare);
  if (code == 0)
    code = lls_trie_insert(&added->normalized, text.data, text.length, index);
  if (code == 0)
    lls_vocab_set_decoded(vocab, added->tokens[index].id, text.data, text.length);
  lls_bytes_free(&text);
  lls_bytes_free(&spare);
  return vocab->text.failed ? -ENOMEM : code;
}

static bool flag(const json_t *item, const char *name)
{
  return json_is_true(json_object_get(item, name));
}

static int load_token(struct lls_added *added, const json_t *item,
                      struct lls_vocab *vocab, const struct lls_normalizer *normalizer,
                      struct lls_matcher *matcher, struct lls_error *err)
{
  const char *content = json_string_value(json_object_get(item, "content"));
  const json_t *number = json_object_get(item, "id");
  json_int_t id = json_integer_value(number);
  if (content == NULL || !json_is_integer(number) || id < 0 || id >= LLS_VOCAB_MAX)
    return lls_fail(err, -EINVAL, "entry %zu has no \"content\" or no valid \"id\"",
                    added->count);
  int code = lls_vocab_add(vocab, (int32_t)id, content, strlen(content), err);
  if (code < 0)
    return code;
  vocab->tokens[id].special = flag(item, "special");
  added->tokens[added->count] =
      (struct lls_added_token){.id = (int32_t)id,
                               .single_word = flag(item, "single_word"),
                               .lstrip = flag(item, "lstrip"),
                               .rstrip = flag(item, "rstrip")};
  int32_t index = (int32_t)added->count++;
  if (flag(item, "normalized"))
    code = insert_normalized(added, index, content, vocab, normalizer, matcher);
  else
    code = lls_trie_insert(&added->raw, content, strlen(content), index);
  return code < 0 ? lls_fail(err, code, "no memory for the added tokens") : 0;
}

int lls_added_load(struct lls_added *added, const json_t *list, struct lls_vocab *vocab,
                   const struct lls_normalizer *normalizer, struct lls_error *err)
{
  if (json_array_size(list) == 0)
    return 0;
  struct lls_matcher *matcher = NULL;
  added->tokens = calloc(json_array_size(list), sizeof *added->tokens);
  if (added->tokens == NULL || lls_matcher_new(&matcher) < 0)
    return lls_fail(err, -ENOMEM, "no memory for the added tokens");
  size_t i;
  json_t *item;
  int code = 0;
  json_array_foreach((json_t *)list, i, item)
  {
    code = load_token(added, item, vocab, normalizer, matcher, err);
    if (code < 0)
      break;
  }
  lls_matcher_free(matcher);
  return code;
}

void lls_added_free(struct lls_added *added)
{
  free(added->tokens);
  lls_trie_free(&added->raw);
  lls_trie_free(&added->normalized);
}
