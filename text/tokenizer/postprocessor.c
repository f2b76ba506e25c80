/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Post-processors. In a Sequence each one wraps the result of the previous ones, so
 * `before` grows at its front and `after` at its end.
 */
#include "text/tokenizer/postprocessor.h"

#include "text/tokenizer/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void prepend(struct lls_ids *ids, const struct lls_ids *front)
{
  size_t old = ids->count;
  if (front->count == 0)
    return;
  for (size_t i = 0; i < front->count; i++)
    lls_ids_append(ids, 0);
  if (ids->failed)
    return;
  memmove(ids->data + front->count, ids->data, old * sizeof *ids->data);
  memcpy(ids->data, front->data, front->count * sizeof *ids->data);
}

static bool is_same(const struct lls_ids *a, const struct lls_ids *b)
{
  return a->count == b->count &&
         (a->count == 0 || memcmp(a->data, b->data, a->count * sizeof *a->data) == 0);
}

static int append_special(struct lls_ids *ids, const json_t *special_tokens,
                          const char *name, struct lls_error *err)
{
  const json_t *list = json_object_get(json_object_get(special_tokens, name), "ids");
  if (!json_is_array(list))
    return lls_fail(err, -EINVAL, "special token \"%s\" has no \"ids\"", name);
  size_t i;
  json_t *id;
  json_array_foreach((json_t *)list, i, id)
  {
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value > INT32_MAX)
      return lls_fail(err, -EINVAL, "special token \"%s\" has an invalid id", name);
    lls_ids_append(ids, (int32_t)value);
  }
  return 0;
}

static int load_single(struct lls_postprocessor *post, const json_t *node,
                       struct lls_error *err)
{
  const json_t *single = json_object_get(node, "single");
  const json_t *special_tokens = json_object_get(node, "special_tokens");
  struct lls_ids front = {0};
  bool text_seen = false;
  int code =
      json_is_array(single) ? 0 : lls_fail(err, -EINVAL, "\"single\" is not a list");
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)single, i, item)
  {
    const json_t *special = json_object_get(item, "SpecialToken");
    const char *name = json_string_value(json_object_get(special, "id"));
    if (name != NULL && code == 0)
      code = append_special(text_seen ? &post->after : &front, special_tokens, name, err);
    else if (json_object_get(item, "Sequence") != NULL && !text_seen)
      text_seen = true;
    else if (code == 0)
      code = lls_fail(err, -ENOTSUP, "item %zu of \"single\" is not supported", i);
  }
  if (code == 0 && !text_seen)
    code = lls_fail(err, -EINVAL, "\"single\" has no place for the text");
  if (code == 0)
    prepend(&post->before, &front);
  post->before.failed |= front.failed;
  free(front.data);
  return code;
}

static const char *special_name(const json_t *item)
{
  return json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
}

/* Reads "pair", which is like "single" with the ids between the texts and the second
 * text in the middle. It is kept only if the ids around it equal those of a single
 * text: a tokeniser for generation may have any content here. */
static void load_template_pair(struct lls_postprocessor *post, const json_t *node)
{
  const json_t *pair = json_object_get(node, "pair");
  const json_t *special_tokens = json_object_get(node, "special_tokens");
  struct lls_ids part[3] = {0}; /* the ids before, between and after the texts */
  size_t n_texts = 0, i;
  bool known = true;
  json_t *item;
  json_array_foreach((json_t *)pair, i, item)
  {
    const json_t *text = json_object_get(item, "Sequence");
    if (text == NULL)
      known &=
          special_name(item) != NULL &&
          append_special(&part[n_texts], special_tokens, special_name(item), NULL) == 0;
    else if ((known &= n_texts < 2) && n_texts++ == 1)
      post->second_type = json_integer_value(json_object_get(text, "type_id")) == 1;
  }
  if (known && n_texts == 2 && is_same(&part[0], &post->before) &&
      is_same(&part[2], &post->after)) {
    free(post->between.data);
    post->between = part[1];
    part[1] = (struct lls_ids){0};
  }
  for (i = 0; i < 3; i++)
    free(part[i].data);
}

static int load_template(struct lls_postprocessor *post, const json_t *node,
                         struct lls_error *err)
{
  int code = load_single(post, node, err);
  if (code == 0)
    load_template_pair(post, node);
  return code;
}

/* Reads BertProcessing or RobertaProcessing: "cls": [token, id], "sep": [token, id]. */
static int load_cls_and_sep(struct lls_postprocessor *post, const json_t *node,
                            bool is_roberta, struct lls_error *err)
{
  const json_t *cls = json_array_get(json_object_get(node, "cls"), 1);
  const json_t *sep = json_array_get(json_object_get(node, "sep"), 1);
  if (!json_is_integer(cls) || !json_is_integer(sep))
    return lls_fail(err, -EINVAL, "\"cls\" or \"sep\" is not a pair of token and id");
  int32_t first = (int32_t)json_integer_value(cls);
  prepend(&post->before, &(struct lls_ids){.data = &first, .count = 1});
  lls_ids_append(&post->after, (int32_t)json_integer_value(sep));
  post->between.count = 0;
  for (int i = 0; i < (is_roberta ? 2 : 1); i++)
    lls_ids_append(&post->between, (int32_t)json_integer_value(sep));
  post->second_type = !is_roberta;
  return 0;
}

static int load_item(void *stage, const json_t *item, struct lls_error *err)
{
  return lls_postprocessor_load(stage, item, err);
}

static int load_sequence(struct lls_postprocessor *post, const json_t *node,
                         struct lls_error *err)
{
  return lls_stage_sequence(node, "processors", load_item, post, err);
}

int lls_postprocessor_load(struct lls_postprocessor *post, const json_t *node,
                           struct lls_error *err)
{
  if (node == NULL || json_is_null(node))
    return 0;
  const char *type = lls_stage_type(node, err);
  int code = 0;
  if (type == NULL)
    return -EINVAL;
  if (strcmp(type, "Sequence") == 0)
    code = load_sequence(post, node, err);
  else if (strcmp(type, "TemplateProcessing") == 0)
    code = load_template(post, node, err);
  else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
    code = load_cls_and_sep(post, node, *type == 'R', err);
  else if (strcmp(type, "ByteLevel") != 0) /* ByteLevel only corrects offsets */
    return lls_stage_unknown(type, err);
  if (code == 0 && (post->before.failed || post->after.failed || post->between.failed))
    code = lls_fail(err, -ENOMEM, "no memory for the post-processor");
  return code;
}

void lls_postprocessor_free(struct lls_postprocessor *post)
{
  free(post->before.data);
  free(post->after.data);
  free(post->between.data);
}

int lls_postprocessor_set_first(struct lls_postprocessor *post, int32_t id, bool wanted)
{
  struct lls_ids *ids = &post->before;
  bool present = ids->count > 0 && ids->data[0] == id;
  if (wanted && !present)
    prepend(ids, &(struct lls_ids){.data = &id, .count = 1});
  if (!wanted && present)
    memmove(ids->data, ids->data + 1, --ids->count * sizeof *ids->data);
  return ids->failed ? -ENOMEM : 0;
}

int lls_postprocessor_set_last(struct lls_postprocessor *post, int32_t id, bool wanted)
{
  struct lls_ids *ids = &post->after;
  bool present = ids->count > 0 && ids->data[ids->count - 1] == id;
  if (wanted && !present)
    lls_ids_append(ids, id);
  if (!wanted && present)
    ids->count--;
  return ids->failed ? -ENOMEM : 0;
}
