/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming detokenisation: table look-ups, and the held-back beginning of a character,
 * at most three bytes.
 *
 * Each maximal invalid subpart becomes one U+FFFD. The reference turns a whole run of
 * byte-fallback tokens into U+FFFD if any of it is invalid; a stream has sent the valid
 * characters before the invalid byte arrives, so here they remain.
 */
#include "text/tokenizer/tokenizer_internal.h"
#include "text/base/utf8.h"

#include <string.h>

void lls_detokenizer_init(struct lls_detokenizer *detokenizer,
                          const struct lls_tokenizer *tokenizer, bool skip_special,
                          bool continues)
{
  *detokenizer = (struct lls_detokenizer){
      .tokenizer = tokenizer,
      .skip_special = skip_special,
      .begun = continues,
      .strip_count = continues ? 0 : tokenizer->decoder.strip_count,
  };
}

size_t lls_detokenizer_room(const struct lls_tokenizer *tokenizer)
{
  /* Every byte, held back or new, may be an invalid sequence of its own. */
  return (tokenizer->surface.longest + sizeof((struct lls_detokenizer){0}.held)) *
         (sizeof LLS_REPLACEMENT - 1);
}

/* Writes one character, unless it has to be dropped at the beginning. */
static size_t write_char(struct lls_detokenizer *detokenizer, const char *text,
                         size_t size, char *out)
{
  if (detokenizer->strip_count > 0) {
    if (lls_utf8_char(text) == detokenizer->tokenizer->decoder.strip) {
      detokenizer->strip_count--;
      return 0;
    }
    detokenizer->strip_count = 0;
  }
  memcpy(out, text, size);
  return size;
}

static size_t write_replacement(struct lls_detokenizer *detokenizer, char *out)
{
  return write_char(detokenizer, LLS_REPLACEMENT, sizeof LLS_REPLACEMENT - 1, out);
}

/* Completes the held-back character with the first bytes of text. Returns the number of
 * bytes used. */
static size_t complete_held(struct lls_detokenizer *detokenizer, const char *text,
                            size_t length, char *out, size_t *written)
{
  size_t used = 0, taken;
  while (detokenizer->held_count > 0 && used < length) {
    detokenizer->held[detokenizer->held_count++] = text[used++];
    enum lls_utf8 kind =
        lls_utf8_first(detokenizer->held, detokenizer->held_count, &taken);
    if (kind == LLS_UTF8_CUT_SHORT)
      continue;
    if (kind == LLS_UTF8_COMPLETE) {
      *written += write_char(detokenizer, detokenizer->held, taken, out + *written);
    } else {
      *written += write_replacement(detokenizer, out + *written);
      used--; /* the byte that made it invalid may begin the next character */
    }
    detokenizer->held_count = 0;
  }
  return used;
}

static size_t write_text(struct lls_detokenizer *detokenizer, const char *text,
                         size_t length, char *out)
{
  size_t written = 0, taken;
  size_t at = complete_held(detokenizer, text, length, out, &written);
  for (; at < length; at += taken) {
    enum lls_utf8 kind = lls_utf8_first(text + at, length - at, &taken);
    if (kind == LLS_UTF8_CUT_SHORT) {
      detokenizer->held_count = (unsigned)taken;
      memcpy(detokenizer->held, text + at, taken);
    } else if (kind == LLS_UTF8_COMPLETE) {
      written += write_char(detokenizer, text + at, taken, out + written);
    } else {
      written += write_replacement(detokenizer, out + written);
    }
  }
  return written;
}

size_t lls_detokenizer_push(struct lls_detokenizer *detokenizer, int32_t id, char *out)
{
  const struct lls_tokenizer *tokenizer = detokenizer->tokenizer;
  if (id < 0 || (size_t)id >= tokenizer->vocab.size ||
      (detokenizer->skip_special && tokenizer->vocab.tokens[id].special))
    return 0;
  const struct lls_surface *surface = &tokenizer->surface;
  struct lls_slice slice = detokenizer->begun ? surface->inside[id] : surface->first[id];
  detokenizer->begun = true;
  if (slice.length == 0)
    return 0;
  return write_text(detokenizer, surface->text.data + slice.offset, slice.length, out);
}

size_t lls_detokenizer_flush(struct lls_detokenizer *detokenizer, char *out)
{
  if (detokenizer->held_count == 0)
    return 0;
  detokenizer->held_count = 0;
  return write_replacement(detokenizer, out);
}
