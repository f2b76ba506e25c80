/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes text through the stages. Working memory is allocated for each call and freed
 * at its end; encoding is not on the step path.
 */
#include "text/tokenizer/tokenizer_internal.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct encoder {
  const struct lls_tokenizer *tokenizer;
  struct lls_matcher *matcher;
  struct lls_bytes repaired;
  struct lls_bytes normalized;
  struct lls_bytes spare;
  struct lls_pieces pieces;
  struct lls_pieces spare_pieces;
  struct lls_bpe_work work;
  struct lls_unigram_work unigram_work;
  struct lls_ids ids;
};

static int encode_word(struct encoder *encoder, const char *word, size_t length)
{
  const struct lls_tokenizer *tokenizer = encoder->tokenizer;
  if (tokenizer->wordpiece != NULL)
    return lls_wordpiece_encode(tokenizer->wordpiece, word, length, &encoder->ids);
  if (tokenizer->unigram != NULL)
    return lls_unigram_encode(tokenizer->unigram, &encoder->unigram_work, word, length,
                              &encoder->ids);
  return lls_bpe_encode(tokenizer->bpe, &encoder->work, word, length, &encoder->ids);
}

/* Encodes normalised text that contains no added token. */
static int encode_plain(struct encoder *encoder, const char *text, size_t length,
                        bool at_start)
{
  const struct lls_tokenizer *tokenizer = encoder->tokenizer;
  struct lls_pieces *pieces = &encoder->pieces;
  pieces->text.length = 0;
  pieces->count = 0;
  pieces->at_start = at_start;
  lls_bytes_append(&pieces->text, text, length);
  lls_pieces_append(pieces, 0, pieces->text.length);
  if (pieces->text.failed || pieces->failed)
    return -ENOMEM;
  int code = lls_pretokenize(&tokenizer->pretokenizer, encoder->matcher, pieces,
                             &encoder->spare_pieces);
  for (size_t i = 0; i < pieces->count && code == 0; i++)
    code = encode_word(encoder, pieces->text.data + pieces->spans[i].start,
                       pieces->spans[i].length);
  return code;
}

typedef int (*encode_function)(struct encoder *encoder, const char *text, size_t length,
                               bool at_start);

/* Finds the added tokens of a trie, and encodes the text between them. */
static int encode_between(struct encoder *encoder, const struct lls_trie *trie,
                          const char *text, size_t length, bool at_start,
                          encode_function encode)
{
  size_t at = 0, done = 0;
  struct lls_added_match match;
  while (
      lls_added_find(&encoder->tokenizer->added, trie, text, length, &at, done, &match)) {
    if (match.start > done) {
      int code = encode(encoder, text + done, match.start - done, at_start && done == 0);
      if (code < 0)
        return code;
    }
    lls_ids_append(&encoder->ids, match.id);
    done = match.end;
  }
  if (done == length)
    return 0;
  return encode(encoder, text + done, length - done, at_start && done == 0);
}

static int encode_segment(struct encoder *encoder, const char *text, size_t length,
                          bool at_start)
{
  const struct lls_tokenizer *tokenizer = encoder->tokenizer;
  if (tokenizer->normalizer.count > 0) {
    encoder->normalized.length = 0;
    lls_bytes_append(&encoder->normalized, text, length);
    int code = encoder->normalized.failed
                   ? -ENOMEM
                   : lls_normalize(&tokenizer->normalizer, encoder->matcher,
                                   &encoder->normalized, &encoder->spare);
    if (code < 0)
      return code;
    text = encoder->normalized.data;
    length = encoder->normalized.length;
  }
  return encode_between(encoder, &tokenizer->added.normalized, text, length, at_start,
                        encode_plain);
}

static int encode_all(struct encoder *encoder, const char *text, size_t length,
                      bool add_special)
{
  const struct lls_postprocessor *post = &encoder->tokenizer->post;
  if (!lls_utf8_is_valid(text, length)) {
    lls_utf8_repair(text, length, &encoder->repaired);
    if (encoder->repaired.failed)
      return -ENOMEM;
    text = encoder->repaired.data;
    length = encoder->repaired.length;
  }
  for (size_t i = 0; add_special && i < post->before.count; i++)
    lls_ids_append(&encoder->ids, post->before.data[i]);
  int code = encode_between(encoder, &encoder->tokenizer->added.raw, text, length, true,
                            encode_segment);
  for (size_t i = 0; add_special && i < post->after.count; i++)
    lls_ids_append(&encoder->ids, post->after.data[i]);
  return code == 0 && encoder->ids.failed ? -ENOMEM : code;
}

static void release(struct encoder *encoder)
{
  lls_matcher_free(encoder->matcher);
  lls_bytes_free(&encoder->repaired);
  lls_bytes_free(&encoder->normalized);
  lls_bytes_free(&encoder->spare);
  lls_pieces_free(&encoder->pieces);
  lls_pieces_free(&encoder->spare_pieces);
  lls_bpe_work_free(&encoder->work);
  lls_unigram_work_free(&encoder->unigram_work);
}

int lls_tokenizer_encode(const struct lls_tokenizer *tokenizer, const char *text,
                         size_t length, bool add_special, int32_t **ids, size_t *count,
                         struct lls_error *err)
{
  if (length > LLS_TEXT_MAX)
    return lls_fail(err, -E2BIG,
                    "a text of %zu bytes is too long to encode, the most is %d", length,
                    LLS_TEXT_MAX);
  struct encoder encoder = {.tokenizer = tokenizer};
  int code = lls_matcher_new(&encoder.matcher);
  if (code == 0)
    code = encode_all(&encoder, text, length, add_special);
  release(&encoder);
  if (code < 0) {
    free(encoder.ids.data);
    return lls_fail(
        err, code,
        code == -E2BIG   ? "the tokenizer's regular expression gave up on this text"
        : code == -EFBIG ? "the model's normalizers make too much of this text"
                         : "no memory to encode a text");
  }
  *ids = encoder.ids.data;
  *count = encoder.ids.count;
  return 0;
}
