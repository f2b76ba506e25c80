/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenisers as lists of primitive steps; see pretokenizer.h. */
#include "text/tokenizer/pretokenizer.h"

#include "text/tokenizer/bytelevel.h"
#include "text/tokenizer/split.h"
#include "text/tokenizer/stage.h"
#include "text/base/unicode8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* GPT-2's pattern, which ByteLevel implies unless use_regex is false. */
#define GPT2_PATTERN                                                                     \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Matches words, and runs of characters that are neither word nor space; joiners belong
 * to words. */
#define WORDS "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+"

/* Punctuation of Unicode 8.0 (see unicode8.h), and all ASCII characters except letters,
 * digits, controls and space. */
#define CLASS(first, last) "\\x{" #first "}-\\x{" #last "}"
#define PUNCTUATION                                                                      \
  "[!-/:-@\\[-`{-~" LLS_PUNCTUATION_OF_8(CLASS) "]|\\p{P}(?<![" LLS_PUNCTUATION_SINCE_8( \
      CLASS) "])"

#define METASPACE "\xe2\x96\x81" /* U+2581, the usual visible space */

enum prepend {
  PREPEND_NEVER,
  PREPEND_FIRST, /* only at the beginning of the whole text */
  PREPEND_ALWAYS,
};

struct pretokenize_step {
  int (*run)(const struct pretokenize_step *step, struct lls_matcher *matcher,
             struct lls_pieces *in, struct lls_pieces *out);
  struct lls_split split;
  char *space; /* replacement of a space, for metaspace */
  enum prepend prepend;
};

static int run_split(const struct pretokenize_step *step, struct lls_matcher *matcher,
                     struct lls_pieces *in, struct lls_pieces *out)
{
  for (size_t i = 0; i < in->count; i++) {
    int code = lls_split(&step->split, matcher, in->text.data, in->spans[i], out);
    if (code < 0)
      return code;
  }
  lls_bytes_swap(&in->text, &out->text); /* the text is unchanged, only the spans are
                                          * new */
  return 0;
}

static int run_prefix(const struct pretokenize_step *step, struct lls_matcher *matcher,
                      struct lls_pieces *in, struct lls_pieces *out)
{
  (void)step;
  (void)matcher;
  for (size_t i = 0; i < in->count; i++) {
    const char *piece = in->text.data + in->spans[i].start;
    size_t start = out->text.length;
    if (*piece != ' ')
      lls_bytes_append(&out->text, " ", 1);
    lls_bytes_append(&out->text, piece, in->spans[i].length);
    lls_pieces_append(out, start, out->text.length);
  }
  return 0;
}

static int run_bytes(const struct pretokenize_step *step, struct lls_matcher *matcher,
                     struct lls_pieces *in, struct lls_pieces *out)
{
  (void)step;
  (void)matcher;
  for (size_t i = 0; i < in->count; i++) {
    size_t start = out->text.length;
    lls_bytelevel_encode(in->text.data + in->spans[i].start, in->spans[i].length,
                         &out->text);
    lls_pieces_append(out, start, out->text.length);
  }
  return 0;
}

static void write_metaspace(const char *space, const char *piece, size_t length,
                            bool prepend, struct lls_bytes *out)
{
  size_t width = strlen(space);
  bool begins = *piece == ' ' || (length >= width && memcmp(piece, space, width) == 0);
  if (prepend && !begins)
    lls_bytes_append(out, space, width);
  for (size_t at = 0; at < length;) {
    const char *blank = memchr(piece + at, ' ', length - at);
    size_t end = blank != NULL ? (size_t)(blank - piece) : length;
    lls_bytes_append(out, piece + at, end - at);
    if (blank != NULL)
      lls_bytes_append(out, space, width);
    at = end + 1;
  }
}

static int run_metaspace(const struct pretokenize_step *step, struct lls_matcher *matcher,
                         struct lls_pieces *in, struct lls_pieces *out)
{
  (void)matcher;
  for (size_t i = 0; i < in->count; i++) {
    bool first = in->at_start && in->spans[i].start == 0;
    bool prepend =
        step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && first);
    size_t start = out->text.length;
    write_metaspace(step->space, in->text.data + in->spans[i].start, in->spans[i].length,
                    prepend, &out->text);
    lls_pieces_append(out, start, out->text.length);
  }
  return 0;
}

static struct pretokenize_step *add_step(struct lls_pretokenizer *pretokenizer,
                                         struct lls_error *err)
{
  if (!lls_grow((void **)&pretokenizer->steps, &pretokenizer->capacity,
                pretokenizer->count + 1, sizeof *pretokenizer->steps)) {
    lls_fail(err, -ENOMEM, "no memory for a pre-tokenizer");
    return NULL;
  }
  struct pretokenize_step *step = &pretokenizer->steps[pretokenizer->count++];
  *step = (struct pretokenize_step){0};
  return step;
}

static int add_split(struct lls_pretokenizer *pretokenizer, const char *pattern,
                     bool literal, enum lls_behavior behavior, bool invert,
                     struct lls_error *err)
{
  struct pretokenize_step *step = add_step(pretokenizer, err);
  if (step == NULL)
    return -ENOMEM;
  step->run = run_split;
  step->split.behavior = behavior;
  step->split.invert = invert;
  return lls_pattern_compile(pattern, literal, &step->split.pattern, err);
}

static int load_split(struct lls_pretokenizer *pretokenizer, const json_t *node,
                      struct lls_error *err)
{
  struct pretokenize_step *step = add_step(pretokenizer, err);
  if (step == NULL)
    return -ENOMEM;
  step->run = run_split;
  step->split.invert = json_is_true(json_object_get(node, "invert"));
  const char *behavior = json_string_value(json_object_get(node, "behavior"));
  int code = lls_behavior_parse(behavior, &step->split.behavior, err);
  return code < 0 ? code : lls_pattern_load(node, &step->split.pattern, err);
}

static int load_bytelevel(struct lls_pretokenizer *pretokenizer, const json_t *node,
                          struct lls_error *err)
{
  struct pretokenize_step *step;
  if (json_is_true(json_object_get(node, "add_prefix_space"))) {
    if ((step = add_step(pretokenizer, err)) == NULL)
      return -ENOMEM;
    step->run = run_prefix;
  }
  if (!json_is_false(json_object_get(node, "use_regex"))) {
    int code = add_split(pretokenizer, GPT2_PATTERN, false, LLS_ISOLATED, false, err);
    if (code < 0)
      return code;
  }
  if ((step = add_step(pretokenizer, err)) == NULL)
    return -ENOMEM;
  step->run = run_bytes;
  return 0;
}

static int parse_prepend(const json_t *node, enum prepend *out, struct lls_error *err)
{
  const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
  *out = PREPEND_ALWAYS;
  if (scheme == NULL) /* files written before prepend_scheme existed */
    *out = json_is_false(json_object_get(node, "add_prefix_space")) ? PREPEND_NEVER
                                                                    : PREPEND_ALWAYS;
  else if (strcmp(scheme, "first") == 0)
    *out = PREPEND_FIRST;
  else if (strcmp(scheme, "never") == 0)
    *out = PREPEND_NEVER;
  else if (strcmp(scheme, "always") != 0)
    return lls_fail(err, -ENOTSUP, "prepend_scheme \"%s\" is not supported", scheme);
  return 0;
}

static int load_metaspace(struct lls_pretokenizer *pretokenizer, const json_t *node,
                          struct lls_error *err)
{
  struct pretokenize_step *step = add_step(pretokenizer, err);
  if (step == NULL)
    return -ENOMEM;
  const char *space = json_string_value(json_object_get(node, "replacement"));
  step->run = run_metaspace;
  step->space = strdup(space != NULL ? space : METASPACE);
  if (step->space == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a pre-tokenizer");
  int code = parse_prepend(node, &step->prepend, err);
  if (code < 0 || json_is_false(json_object_get(node, "split")))
    return code;
  return add_split(pretokenizer, space != NULL ? space : METASPACE, true, LLS_WITH_NEXT,
                   false, err);
}

static int load_digits(struct lls_pretokenizer *pretokenizer, const json_t *node,
                       struct lls_error *err)
{
  bool single = json_is_true(json_object_get(node, "individual_digits"));
  return add_split(pretokenizer, "\\p{N}", false, single ? LLS_ISOLATED : LLS_CONTIGUOUS,
                   false, err);
}

static int load_whitespace(struct lls_pretokenizer *pretokenizer, const json_t *node,
                           struct lls_error *err)
{
  (void)node;
  return add_split(pretokenizer, WORDS, false, LLS_REMOVED, true, err);
}

static int load_whitespace_split(struct lls_pretokenizer *pretokenizer,
                                 const json_t *node, struct lls_error *err)
{
  (void)node;
  return add_split(pretokenizer, "\\s", false, LLS_REMOVED, false, err);
}

static int load_punctuation(struct lls_pretokenizer *pretokenizer, const json_t *node,
                            struct lls_error *err)
{
  enum lls_behavior behavior = LLS_ISOLATED;
  const json_t *name = json_object_get(node, "behavior");
  int code = 0;
  if (name != NULL)
    code = lls_behavior_parse(json_string_value(name), &behavior, err);
  return code < 0 ? code
                  : add_split(pretokenizer, PUNCTUATION, false, behavior, false, err);
}

/* Splits words, and punctuation into single characters. */
static int load_bert(struct lls_pretokenizer *pretokenizer, const json_t *node,
                     struct lls_error *err)
{
  int code = load_whitespace_split(pretokenizer, node, err);
  return code < 0 ? code
                  : add_split(pretokenizer, PUNCTUATION, false, LLS_ISOLATED, false, err);
}

static int load_delimiter(struct lls_pretokenizer *pretokenizer, const json_t *node,
                          struct lls_error *err)
{
  const char *delimiter = json_string_value(json_object_get(node, "delimiter"));
  if (delimiter == NULL || *delimiter == '\0')
    return lls_fail(err, -EINVAL, "\"delimiter\" is not a character");
  return add_split(pretokenizer, delimiter, true, LLS_REMOVED, false, err);
}

static int load_item(void *stage, const json_t *item, struct lls_error *err)
{
  return lls_pretokenizer_load(stage, item, err);
}

static int load_sequence(struct lls_pretokenizer *pretokenizer, const json_t *node,
                         struct lls_error *err)
{
  return lls_stage_sequence(node, "pretokenizers", load_item, pretokenizer, err);
}

static const struct {
  const char *type;
  int (*load)(struct lls_pretokenizer *pretokenizer, const json_t *node,
              struct lls_error *err);
} kinds[] = {
    {"BertPreTokenizer", load_bert},
    {"ByteLevel", load_bytelevel},
    {"CharDelimiterSplit", load_delimiter},
    {"Digits", load_digits},
    {"Metaspace", load_metaspace},
    {"Punctuation", load_punctuation},
    {"Sequence", load_sequence},
    {"Split", load_split},
    {"Whitespace", load_whitespace},
    {"WhitespaceSplit", load_whitespace_split},
};

int lls_pretokenizer_load(struct lls_pretokenizer *pretokenizer, const json_t *node,
                          struct lls_error *err)
{
  if (node == NULL || json_is_null(node))
    return 0;
  const char *type = lls_stage_type(node, err);
  if (type == NULL)
    return -EINVAL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(type, kinds[i].type) == 0)
      return kinds[i].load(pretokenizer, node, err);
  return lls_stage_unknown(type, err);
}

void lls_pretokenizer_free(struct lls_pretokenizer *pretokenizer)
{
  for (size_t i = 0; i < pretokenizer->count; i++) {
    lls_pattern_free(pretokenizer->steps[i].split.pattern);
    free(pretokenizer->steps[i].space);
  }
  free(pretokenizer->steps);
}

int lls_pretokenize(const struct lls_pretokenizer *pretokenizer,
                    struct lls_matcher *matcher, struct lls_pieces *pieces,
                    struct lls_pieces *spare)
{
  for (size_t i = 0; i < pretokenizer->count; i++) {
    const struct pretokenize_step *step = &pretokenizer->steps[i];
    spare->count = 0;
    spare->text.length = 0;
    spare->at_start = pieces->at_start;
    int code = step->run(step, matcher, pieces, spare);
    if (code == 0 && (spare->failed || spare->text.failed))
      code = -ENOMEM;
    if (code < 0)
      return code;
    struct lls_pieces kept = *pieces;
    *pieces = *spare;
    *spare = kept;
  }
  return 0;
}
