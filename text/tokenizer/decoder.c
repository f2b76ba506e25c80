/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders as steps on one token. A step that yields bytes instead of text (ByteLevel,
 * or a byte of ByteFallback) is the last one for the token: later steps work on
 * characters, which a single byte need not be.
 */
#include "text/tokenizer/decoder.h"

#include "text/tokenizer/bytelevel.h"
#include "text/tokenizer/stage.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A token while it passes through the steps. */
struct passage {
  struct lls_matcher *matcher;
  struct lls_bytes text;
  bool first;
  bool is_bytes; /* no further step applies */
};

struct decode_step {
  int (*run)(const struct decode_step *step, struct passage *token,
             struct lls_bytes *out);
  struct lls_pattern *pattern;
  char *content;
  int32_t character;
  size_t start; /* numbers of characters at the start and the end */
  size_t stop;
  bool drop_first;
  bool clean_up; /* WordPiece's option of this name */
};

static int run_bytelevel(const struct decode_step *step, struct passage *token,
                         struct lls_bytes *out)
{
  (void)step;
  lls_bytelevel_decode(token->text.data, token->text.length, out);
  token->is_bytes = true;
  return 0;
}

static int hex_digit(char digit)
{
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  if (digit >= 'a' && digit <= 'f')
    return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* Converts "<0x41>" to the byte 0x41. */
static int run_byte_fallback(const struct decode_step *step, struct passage *token,
                             struct lls_bytes *out)
{
  (void)step;
  const char *text = token->text.data;
  if (token->text.length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>') {
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    if (high >= 0 && low >= 0) {
      lls_bytes_append(out, &(char){(char)(high << 4 | low)}, 1);
      token->is_bytes = true;
      return 0;
    }
  }
  lls_bytes_append(out, text, token->text.length);
  return 0;
}

static int run_replace(const struct decode_step *step, struct passage *token,
                       struct lls_bytes *out)
{
  return lls_pattern_replace(step->pattern, token->matcher, token->text.data,
                             token->text.length, step->content, out);
}

static int run_strip(const struct decode_step *step, struct passage *token,
                     struct lls_bytes *out)
{
  const char *text = token->text.data;
  size_t begin = 0, end = token->text.length, size;
  for (size_t i = 0; i < step->start && begin < end; i++) {
    if (lls_utf8_char(text + begin) != step->character)
      break;
    begin += lls_utf8_length(text + begin);
  }
  for (size_t i = 0; i < step->stop && end > begin; i++) {
    if (lls_utf8_last(text + begin, end - begin, &size) != step->character)
      break;
    end -= size;
  }
  lls_bytes_append(out, text + begin, end - begin);
  return 0;
}

static int run_metaspace(const struct decode_step *step, struct passage *token,
                         struct lls_bytes *out)
{
  const char *text = token->text.data;
  for (size_t at = 0, size; at < token->text.length; at += size) {
    size = lls_utf8_length(text + at);
    if (lls_utf8_char(text + at) != step->character)
      lls_bytes_append(out, text + at, size);
    else if (!(token->first && step->drop_first))
      lls_bytes_append(out, " ", 1);
  }
  return 0;
}

/* Removes the space before punctuation and contractions, with the reference's list. */
static int clean_up(const struct passage *token, struct lls_bytes *out)
{
  static const char *const pairs[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  struct lls_bytes from = {0};
  if (token->text.length == 0) /* nothing remains after the prefix */
    return 0;
  lls_bytes_append(&from, token->text.data, token->text.length);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    size_t width = strlen(pairs[i][0]), at = 0;
    out->length = 0;
    for (const char *hit;
         (hit = memmem(from.data + at, from.length - at, pairs[i][0], width)) != NULL;) {
      lls_bytes_append(out, from.data + at, (size_t)(hit - from.data) - at);
      lls_bytes_append(out, pairs[i][1], strlen(pairs[i][1]));
      at = (size_t)(hit - from.data) + width;
    }
    lls_bytes_append(out, from.data + at, from.length - at);
    lls_bytes_swap(&from, out);
  }
  lls_bytes_swap(&from, out);
  int code = from.failed ? -ENOMEM : 0;
  lls_bytes_free(&from);
  return code;
}

/* A piece with the prefix continues a word; any other piece except the first begins
 * one. */
static int run_wordpiece(const struct decode_step *step, struct passage *token,
                         struct lls_bytes *out)
{
  if (token->text.length == 0) { /* an empty piece has no data to point to */
    if (!token->first && step->content[0] != '\0')
      lls_bytes_append(out, " ", 1);
    return 0;
  }
  size_t width = strlen(step->content);
  bool inside =
      token->text.length >= width && memcmp(token->text.data, step->content, width) == 0;
  size_t skip = !token->first && inside ? width : 0;
  if (!token->first && !inside)
    lls_bytes_append(out, " ", 1);
  lls_bytes_append(out, token->text.data + skip, token->text.length - skip);
  if (!step->clean_up)
    return 0;
  lls_bytes_swap(&token->text, out);
  out->length = 0;
  return token->text.failed ? -ENOMEM : clean_up(token, out);
}

static int load_wordpiece(struct decode_step *step, const json_t *node,
                          struct lls_error *err)
{
  const char *prefix = json_string_value(json_object_get(node, "prefix"));
  step->run = run_wordpiece;
  step->clean_up = !json_is_false(json_object_get(node, "cleanup"));
  step->content = strdup(prefix != NULL ? prefix : "##");
  return step->content != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the decoder");
}

/* Reads a member that must be one character. */
static int load_character(const json_t *node, const char *member, int32_t *out,
                          struct lls_error *err)
{
  const char *text = json_string_value(json_object_get(node, member));
  if (text == NULL || *text == '\0' || text[lls_utf8_length(text)] != '\0')
    return lls_fail(err, -EINVAL, "\"%s\" is not one character", member);
  *out = lls_utf8_char(text);
  return 0;
}

static int load_replace(struct decode_step *step, const json_t *node,
                        struct lls_error *err)
{
  const char *content = json_string_value(json_object_get(node, "content"));
  if (content == NULL)
    return lls_fail(err, -EINVAL, "\"content\" is not a string");
  step->run = run_replace;
  step->content = strdup(content);
  if (step->content == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the decoder");
  return lls_pattern_load(node, &step->pattern, err);
}

static int load_strip(struct decode_step *step, const json_t *node, struct lls_error *err)
{
  json_int_t start = json_integer_value(json_object_get(node, "start"));
  json_int_t stop = json_integer_value(json_object_get(node, "stop"));
  if (start < 0 || stop < 0 || start > 1000 || stop > 1000)
    return lls_fail(err, -EINVAL, "\"start\" and \"stop\" are not from 0 to 1000");
  step->run = run_strip;
  step->start = (size_t)start;
  step->stop = (size_t)stop;
  return load_character(node, "content", &step->character, err);
}

static int load_metaspace(struct decode_step *step, const json_t *node,
                          struct lls_error *err)
{
  const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
  step->run = run_metaspace;
  step->drop_first = scheme != NULL
                         ? strcmp(scheme, "never") != 0
                         : !json_is_false(json_object_get(node, "add_prefix_space"));
  return load_character(node, "replacement", &step->character, err);
}

/* After the tokens are joined, only steps that change the beginning of the text are
 * supported. */
static int load_fused(struct lls_decoder *decoder, const char *type, const json_t *node,
                      struct lls_error *err)
{
  struct decode_step strip;
  if (strcmp(type, "Fuse") == 0)
    return 0;
  if (strcmp(type, "Strip") != 0)
    return lls_fail(err, -ENOTSUP, "type \"%s\" after tokens are joined is not supported",
                    type);
  int code = load_strip(&strip, node, err);
  if (code < 0)
    return code;
  if (strip.stop > 0 || decoder->strip_count > 0)
    return lls_fail(err, -ENOTSUP,
                    "a Strip at the end of the text, or a second one, is not supported");
  decoder->strip = strip.character;
  decoder->strip_count = (unsigned)strip.start;
  return 0;
}

static int load_step(struct lls_decoder *decoder, const char *type, const json_t *node,
                     struct lls_error *err)
{
  if (!lls_grow((void **)&decoder->steps, &decoder->capacity, decoder->count + 1,
                sizeof *decoder->steps))
    return lls_fail(err, -ENOMEM, "no memory for the decoder");
  struct decode_step *step = &decoder->steps[decoder->count++];
  *step = (struct decode_step){0};
  if (strcmp(type, "Replace") == 0)
    return load_replace(step, node, err);
  if (strcmp(type, "Strip") == 0)
    return load_strip(step, node, err);
  if (strcmp(type, "Metaspace") == 0)
    return load_metaspace(step, node, err);
  if (strcmp(type, "WordPiece") == 0)
    return load_wordpiece(step, node, err);
  if (strcmp(type, "ByteFallback") == 0) {
    step->run = run_byte_fallback;
    return 0;
  }
  if (strcmp(type, "ByteLevel") == 0) {
    step->run = run_bytelevel;
    decoder->fused = true;
    return 0;
  }
  return lls_stage_unknown(type, err);
}

static int load_item(void *stage, const json_t *item, struct lls_error *err)
{
  return lls_decoder_load(stage, item, err);
}

static int load_sequence(struct lls_decoder *decoder, const json_t *node,
                         struct lls_error *err)
{
  return lls_stage_sequence(node, "decoders", load_item, decoder, err);
}

int lls_decoder_load(struct lls_decoder *decoder, const json_t *node,
                     struct lls_error *err)
{
  if (node == NULL || json_is_null(node))
    return lls_fail(err, -ENOTSUP,
                    "it is missing, so tokens cannot be converted to text");
  const char *type = lls_stage_type(node, err);
  if (type == NULL)
    return -EINVAL;
  if (strcmp(type, "Sequence") == 0)
    return load_sequence(decoder, node, err);
  if (decoder->fused)
    return load_fused(decoder, type, node, err);
  if (strcmp(type, "Fuse") == 0) {
    decoder->fused = true;
    return 0;
  }
  return load_step(decoder, type, node, err);
}

void lls_decoder_free(struct lls_decoder *decoder)
{
  for (size_t i = 0; i < decoder->count; i++) {
    lls_pattern_free(decoder->steps[i].pattern);
    free(decoder->steps[i].content);
  }
  free(decoder->steps);
}

static int run_steps(const struct lls_decoder *decoder, struct passage *passage,
                     struct lls_bytes *next, size_t work)
{
  for (size_t i = 0; i < decoder->count && !passage->is_bytes; i++) {
    next->length = 0;
    int code = decoder->steps[i].run(&decoder->steps[i], passage, next);
    if (code < 0)
      return code;
    if (next->failed || next->length > work)
      return -EFBIG;
    work -= next->length;
    lls_bytes_swap(&passage->text, next);
  }
  return passage->text.failed ? -ENOMEM : 0;
}

/* Allocates memory at once, since steps take pointers into empty texts, too. */
static void open_text(struct lls_bytes *text, size_t most)
{
  text->most = most;
  text->failed = !lls_grow((void **)&text->data, &text->capacity, 1, 1);
}

int lls_decode_token(const struct lls_decoder *decoder, struct lls_matcher *matcher,
                     const char *token, size_t length, bool first, struct lls_bytes *out)
{
  struct passage passage = {.matcher = matcher, .first = first};
  struct lls_bytes next = {0};
  open_text(&passage.text, LLS_STAGE_MOST_BYTES(length));
  open_text(&next, LLS_STAGE_MOST_BYTES(length));
  lls_bytes_append(&passage.text, token, length);
  int code = passage.text.failed || next.failed
                 ? -ENOMEM
                 : run_steps(decoder, &passage, &next, LLS_STAGE_MOST_WORK(length));
  lls_bytes_append(out, passage.text.data, passage.text.length);
  if (code == 0 && out->failed)
    code = -ENOMEM;
  lls_bytes_free(&passage.text);
  lls_bytes_free(&next);
  return code;
}
