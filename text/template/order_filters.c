/* SPDX-License-Identifier: Apache-2.0 */
/* List filters that compare items: sorting, grouping, minimum and maximum. */
#include "text/template/attributes.h"
#include "text/template/function.h"

/* Returns the sort key of an item: itself or a member; strings lose their case unless
 * case_sensitive. */
static struct lls_value key_of(struct lls_render *render, const struct lls_call *call,
                               struct lls_value item, struct lls_value member,
                               bool with_case)
{
  if (member.kind != LLS_NONE && member.kind != LLS_UNDEFINED)
    item = lls_attribute(render, call->node, item, member);
  return lls_is_string(item) && !with_case ? lls_lower(render, item) : item;
}

/* Returns the keys of all items; several member names, separated by commas, make
 * tuples. */
static struct lls_list *keys_of(struct lls_render *render, const struct lls_call *call,
                                const struct lls_list *list, struct lls_value member,
                                bool with_case)
{
  struct lls_list *keys = lls_list_new(render, LLS_FORM_LIST);
  struct lls_list *members = NULL;
  if (lls_is_string(member) && lls_find(member, 0, lls_view(",", 1)) != SIZE_MAX)
    members = lls_split_at(render, member, lls_view(",", 1), SIZE_MAX, false);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    struct lls_value key;
    if (members == NULL) {
      key = key_of(render, call, list->items[i], member, with_case);
    } else {
      struct lls_list *several = lls_list_new(render, LLS_FORM_TUPLE);
      for (uint32_t j = 0; j < members->count && render->code == 0; j++)
        lls_list_push(render, several,
                      key_of(render, call, list->items[i], members->items[j], with_case));
      key = lls_of_list(several);
    }
    lls_list_push(render, keys, key);
  }
  return keys;
}

static struct lls_value sort(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *list = lls_list_copy(render, call->node, call->subject);
  struct lls_list *keys =
      keys_of(render, call, list, call->arguments[2], lls_truth(call->arguments[1]));
  if (render->code == 0)
    lls_sort(render, call->node, keys->items, list->items, list->count,
             lls_truth(call->arguments[0]));
  return lls_of_list(list);
}

static struct lls_value dictsort(struct lls_render *render, const struct lls_call *call)
{
  bool by_value = lls_text_is(call->arguments[1], "value");
  if (call->subject.kind != LLS_DICT ||
      (lls_given(call, 1) && !by_value && !lls_text_is(call->arguments[1], "key")))
    return lls_render_fail(render, call->node,
                           "dictsort of %s, or neither by \"key\" nor \"value\"",
                           lls_type_name(call->subject));
  const struct lls_dict *dict = call->subject.dict;
  struct lls_list *list = lls_dict_list(render, dict, LLS_FORM_ITEMS);
  struct lls_list *keys =
      keys_of(render, call, list, lls_integer(by_value), lls_truth(call->arguments[0]));
  if (render->code < 0)
    return lls_undefined();
  list->form = LLS_FORM_LIST;
  lls_sort(render, call->node, keys->items, list->items, list->count,
           lls_truth(call->arguments[2]));
  return lls_of_list(list);
}

static struct lls_value unique(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = lls_items_of(render, call->node, call->subject);
  struct lls_list *kept = lls_list_new(render, LLS_FORM_LIST);
  struct lls_dict *seen = lls_dict_new(render);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    struct lls_value key = key_of(render, call, list->items[i], call->arguments[1],
                                  lls_truth(call->arguments[0]));
    if (lls_dict_find(render, seen, key) != NULL)
      continue;
    lls_dict_set(render, seen, key, lls_none());
    lls_list_push(render, kept, list->items[i]);
  }
  return lls_generate(render, kept);
}

static struct lls_value extreme(struct lls_render *render, const struct lls_call *call,
                                int wanted)
{
  const struct lls_list *list = lls_items_of(render, call->node, call->subject);
  const struct lls_list *keys =
      keys_of(render, call, list, call->arguments[1], lls_truth(call->arguments[0]));
  uint32_t best = 0;
  if (render->code < 0 || list->count == 0)
    return lls_undefined();
  for (uint32_t i = 1; i < list->count && render->code == 0; i++)
    if (lls_order(render, call->node, keys->items[i], keys->items[best]) * wanted > 0)
      best = i;
  return list->items[best];
}

static struct lls_value least(struct lls_render *render, const struct lls_call *call)
{
  return extreme(render, call, -1);
}

static struct lls_value most(struct lls_render *render, const struct lls_call *call)
{
  return extreme(render, call, 1);
}

static struct lls_value groupby(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *list = lls_list_copy(render, call->node, call->subject);
  struct lls_list *groups = lls_list_new(render, LLS_FORM_LIST), *group = NULL;
  struct lls_list *keys =
      keys_of(render, call, list, call->arguments[0], lls_truth(call->arguments[2]));
  for (uint32_t i = 0; keys != NULL && i < keys->count && lls_given(call, 1); i++)
    if (keys->items[i].kind == LLS_UNDEFINED)
      keys->items[i] = call->arguments[1];
  if (render->code < 0)
    return lls_undefined();
  lls_sort(render, call->node, keys->items, list->items, list->count, false);
  for (uint32_t i = 0; i < list->count && render->code == 0; i++) {
    if (group == NULL || !lls_equal(render, keys->items[i], keys->items[i - 1])) {
      struct lls_value name =
          lls_attribute(render, call->node, list->items[i], call->arguments[0]);
      group = lls_list_new(render, LLS_FORM_LIST);
      lls_list_push(render, groups,
                    lls_pair(render, LLS_FORM_GROUP,
                             name.kind != LLS_UNDEFINED ? name : keys->items[i],
                             lls_of_list(group)));
    }
    lls_list_push(render, group, list->items[i]);
  }
  return lls_of_list(groups);
}

const struct lls_function lls_order_filters[] = {
    {.name = "dictsort",
     .body = dictsort,
     .parameters = {"case_sensitive", "by", "reverse"}},
    {.name = "groupby",
     .body = groupby,
     .required = 1,
     .parameters = {"attribute", "default", "case_sensitive"}},
    {.name = "max", .body = most, .parameters = {"case_sensitive", "attribute"}},
    {.name = "min", .body = least, .parameters = {"case_sensitive", "attribute"}},
    {.name = "sort",
     .body = sort,
     .parameters = {"reverse", "case_sensitive", "attribute"}},
    {.name = "unique", .body = unique, .parameters = {"case_sensitive", "attribute"}},
    {.name = NULL},
};
