/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisers; each kind has a loader and a function from text to text. */
#include "text/tokenizer/normalizer.h"

#include "text/tokenizer/bytelevel.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/stage.h"
#include "text/base/unicode.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef int (*normalize_function)(const struct normalize_step *step,
                                  struct lls_matcher *matcher,
                                  const struct lls_bytes *text, struct lls_bytes *out);

typedef void (*plain_function)(const char *text, size_t length, struct lls_bytes *out);

struct normalize_step {
  normalize_function run;
  plain_function plain; /* for run_plain */
  enum lls_unicode_form form;
  char *content;
  struct lls_pattern *pattern;
  struct lls_charsmap *charsmap;
  bool left;
  bool right;
};

static int run_form(const struct normalize_step *step, struct lls_matcher *matcher,
                    const struct lls_bytes *text, struct lls_bytes *out)
{
  (void)matcher;
  if (lls_utf8_is_ascii(text->data, text->length)) {
    lls_bytes_append(out, text->data, text->length);
    return 0;
  }
  return lls_unicode_normalize(step->form, text->data, text->length, out);
}

/* Runs a step that needs no parameters. */
static int run_plain(const struct normalize_step *step, struct lls_matcher *matcher,
                     const struct lls_bytes *text, struct lls_bytes *out)
{
  (void)matcher;
  step->plain(text->data, text->length, out);
  return 0;
}

static int run_prepend(const struct normalize_step *step, struct lls_matcher *matcher,
                       const struct lls_bytes *text, struct lls_bytes *out)
{
  (void)matcher;
  if (text->length > 0)
    lls_bytes_append(out, step->content, strlen(step->content));
  lls_bytes_append(out, text->data, text->length);
  return 0;
}

static int run_replace(const struct normalize_step *step, struct lls_matcher *matcher,
                       const struct lls_bytes *text, struct lls_bytes *out)
{
  return lls_pattern_replace(step->pattern, matcher, text->data, text->length,
                             step->content, out);
}

static int run_strip(const struct normalize_step *step, struct lls_matcher *matcher,
                     const struct lls_bytes *text, struct lls_bytes *out)
{
  (void)matcher;
  size_t start = 0, end = text->length, size;
  while (step->left && start < end &&
         lls_char_is_space(lls_utf8_char(text->data + start)))
    start += lls_utf8_length(text->data + start);
  while (step->right && end > start &&
         lls_char_is_space(lls_utf8_last(text->data + start, end - start, &size)))
    end -= size;
  lls_bytes_append(out, text->data + start, end - start);
  return 0;
}

static int run_precompiled(const struct normalize_step *step, struct lls_matcher *matcher,
                           const struct lls_bytes *text, struct lls_bytes *out)
{
  (void)matcher;
  lls_charsmap_apply(step->charsmap, text->data, text->length, out);
  return 0;
}

/* Appends a zeroed step; returns NULL if out of memory. */
static struct normalize_step *add_step(struct lls_normalizer *normalizer)
{
  if (!lls_grow((void **)&normalizer->steps, &normalizer->capacity, normalizer->count + 1,
                sizeof *normalizer->steps))
    return NULL;
  struct normalize_step *step = &normalizer->steps[normalizer->count++];
  *step = (struct normalize_step){0};
  return step;
}

static int load_content(struct normalize_step *step, const json_t *node,
                        const char *member, struct lls_error *err)
{
  const char *content = json_string_value(json_object_get(node, member));
  if (content == NULL)
    return lls_fail(err, -EINVAL, "\"%s\" is not a string", member);
  step->content = strdup(content);
  return step->content != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for a normalizer");
}

static int load_prepend(struct normalize_step *step, const json_t *node,
                        struct lls_error *err)
{
  return load_content(step, node, "prepend", err);
}

static int load_replace(struct normalize_step *step, const json_t *node,
                        struct lls_error *err)
{
  int code = load_content(step, node, "content", err);
  return code < 0 ? code : lls_pattern_load(node, &step->pattern, err);
}

static int load_strip(struct normalize_step *step, const json_t *node,
                      struct lls_error *err)
{
  (void)err;
  step->left = json_is_true(json_object_get(node, "strip_left"));
  step->right = json_is_true(json_object_get(node, "strip_right"));
  return 0;
}

static int load_precompiled(struct normalize_step *step, const json_t *node,
                            struct lls_error *err)
{
  return lls_charsmap_load(json_object_get(node, "precompiled_charsmap"), &step->charsmap,
                           err);
}

static const struct {
  const char *type;
  normalize_function run;
  int (*load)(struct normalize_step *step, const json_t *node, struct lls_error *err);
  enum lls_unicode_form form;
  plain_function plain;
} kinds[] = {
    {"ByteLevel", run_plain, NULL, 0, lls_bytelevel_encode},
    {"Lowercase", run_plain, NULL, 0, lls_unicode_lowercase},
    {"NFC", run_form, NULL, LLS_NFC, NULL},
    {"NFD", run_form, NULL, LLS_NFD, NULL},
    {"NFKC", run_form, NULL, LLS_NFKC, NULL},
    {"NFKD", run_form, NULL, LLS_NFKD, NULL},
    {"Precompiled", run_precompiled, load_precompiled, 0, NULL},
    {"Prepend", run_prepend, load_prepend, 0, NULL},
    {"Replace", run_replace, load_replace, 0, NULL},
    {"Strip", run_strip, load_strip, 0, NULL},
    {"StripAccents", run_plain, NULL, 0, lls_unicode_strip_accents},
};

static int load_step(struct normalize_step *step, const char *type, const json_t *node,
                     struct lls_error *err)
{
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(type, kinds[i].type) != 0)
      continue;
    step->run = kinds[i].run;
    step->form = kinds[i].form;
    step->plain = kinds[i].plain;
    return kinds[i].load != NULL ? kinds[i].load(step, node, err) : 0;
  }
  return lls_stage_unknown(type, err);
}

static int add_plain(struct lls_normalizer *normalizer, normalize_function run,
                     plain_function plain, struct lls_error *err)
{
  struct normalize_step *step = add_step(normalizer);
  if (step == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a normalizer");
  step->run = run;
  step->plain = plain;
  step->form = LLS_NFD;
  return 0;
}

/* Four switches configure it. Accents are stripped if text is lowered, unless
 * strip_accents is set. */
static int load_bert(struct lls_normalizer *normalizer, const json_t *node,
                     struct lls_error *err)
{
  bool lower = !json_is_false(json_object_get(node, "lowercase"));
  const json_t *accents = json_object_get(node, "strip_accents");
  bool strip = json_is_boolean(accents) ? json_is_true(accents) : lower;
  const struct {
    bool wanted;
    normalize_function run;
    plain_function plain;
  } steps[] = {
      {!json_is_false(json_object_get(node, "clean_text")), run_plain, lls_unicode_clean},
      {!json_is_false(json_object_get(node, "handle_chinese_chars")), run_plain,
       lls_unicode_space_chinese},
      {strip, run_form, NULL},
      {strip, run_plain, lls_unicode_strip_nonspacing},
      {lower, run_plain, lls_unicode_lowercase},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    int code =
        steps[i].wanted ? add_plain(normalizer, steps[i].run, steps[i].plain, err) : 0;
    if (code < 0)
      return code;
  }
  return 0;
}

static int load_item(void *stage, const json_t *item, struct lls_error *err)
{
  return lls_normalizer_load(stage, item, err);
}

static int load_sequence(struct lls_normalizer *normalizer, const json_t *node,
                         struct lls_error *err)
{
  return lls_stage_sequence(node, "normalizers", load_item, normalizer, err);
}

int lls_normalizer_load(struct lls_normalizer *normalizer, const json_t *node,
                        struct lls_error *err)
{
  if (node == NULL || json_is_null(node))
    return 0;
  const char *type = lls_stage_type(node, err);
  if (type == NULL)
    return -EINVAL;
  if (strcmp(type, "Sequence") == 0)
    return load_sequence(normalizer, node, err);
  if (strcmp(type, "BertNormalizer") == 0)
    return load_bert(normalizer, node, err);
  struct normalize_step *step = add_step(normalizer);
  if (step == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a normalizer");
  return load_step(step, type, node, err);
}

void lls_normalizer_free(struct lls_normalizer *normalizer)
{
  for (size_t i = 0; i < normalizer->count; i++) {
    free(normalizer->steps[i].content);
    lls_pattern_free(normalizer->steps[i].pattern);
    lls_charsmap_free(normalizer->steps[i].charsmap);
  }
  free(normalizer->steps);
}

static int run_steps(const struct lls_normalizer *normalizer, struct lls_matcher *matcher,
                     struct lls_bytes *text, struct lls_bytes *spare)
{
  size_t work = LLS_STAGE_MOST_WORK(text->length);
  for (size_t i = 0; i < normalizer->count; i++) {
    const struct normalize_step *step = &normalizer->steps[i];
    spare->length = 0;
    int code = step->run(step, matcher, text, spare);
    if (code < 0)
      return code;
    if (spare->failed || spare->length > work)
      return -EFBIG;
    work -= spare->length;
    lls_bytes_swap(text, spare);
  }
  return 0;
}

int lls_normalize(const struct lls_normalizer *normalizer, struct lls_matcher *matcher,
                  struct lls_bytes *text, struct lls_bytes *spare)
{
  text->most = spare->most = LLS_STAGE_MOST_BYTES(text->length);
  int code = run_steps(normalizer, matcher, text, spare);
  text->most = spare->most = 0;
  return code;
}
