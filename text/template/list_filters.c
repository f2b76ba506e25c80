/* SPDX-License-Identifier: Apache-2.0 */
/* List filters that preserve the order of items: selecting, mapping, cutting, joining. */
#include "text/template/attributes.h"
#include "text/template/function.h"

static struct lls_list *items_of(struct lls_render *render, const struct lls_call *call)
{
  return lls_items_of(render, call->node, call->subject);
}

static struct lls_value to_list(struct lls_render *render, const struct lls_call *call)
{
  return lls_of_list(lls_list_copy(render, call->node, call->subject));
}

static struct lls_value first(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value value = call->subject;
  if (value.kind == LLS_GENERATOR) {
    struct lls_generator *generator = value.generator;
    return generator->next < generator->list->count
               ? generator->list->items[generator->next++]
               : lls_undefined();
  }
  if (lls_is_string(value))
    return value.length > 0 ? lls_index(render, call->node, value, lls_integer(0))
                            : lls_undefined();
  const struct lls_list *list = items_of(render, call);
  return list != NULL && list->count > 0 ? list->items[0] : lls_undefined();
}

static struct lls_value last(struct lls_render *render, const struct lls_call *call)
{
  if (lls_is_string(call->subject) && call->subject.length > 0)
    return lls_index(render, call->node, call->subject, lls_integer(-1));
  const struct lls_list *list = items_of(render, call);
  return list != NULL && list->count > 0 ? list->items[list->count - 1] : lls_undefined();
}

static struct lls_value reverse(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = items_of(render, call);
  struct lls_list *reversed = lls_list_new(render, LLS_FORM_LIST);
  struct lls_builder text = {.render = render};
  bool string = lls_is_string(call->subject);
  for (uint32_t i = list != NULL ? list->count : 0; i-- > 0 && render->code == 0;) {
    if (string)
      lls_builder_put_value(&text, list->items[i]);
    else
      lls_list_push(render, reversed, list->items[i]);
  }
  return string ? lls_builder_end(&text) : lls_generate(render, reversed);
}

static struct lls_value join(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = items_of(render, call);
  struct lls_value separator = lls_to_text(render, call->node, call->arguments[0]);
  struct lls_builder out = {.render = render};
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    struct lls_value item = list->items[i];
    if (lls_given(call, 1))
      item = lls_attribute(render, call->node, item, call->arguments[1]);
    if (i > 0)
      lls_builder_put_value(&out, separator);
    lls_builder_put_value(&out, lls_to_text(render, call->node, item));
    lls_render_charge(render, call->node, 1);
  }
  return lls_builder_end(&out);
}

static struct lls_value items(struct lls_render *render, const struct lls_call *call)
{
  struct lls_list *list = NULL;
  if (call->subject.kind == LLS_UNDEFINED)
    list = lls_list_new(render, LLS_FORM_LIST);
  else if (call->subject.kind == LLS_DICT)
    list = lls_dict_list(render, call->subject.dict, LLS_FORM_ITEMS);
  else
    lls_render_fail(render, call->node, "cannot take the items of %s",
                    lls_type_name(call->subject));
  return lls_generate(render, list);
}

/* ---- selecting and mapping --------------------------------------------------------- */

/* Returns the arguments from index `from` on. */
static struct lls_list *arguments_from(struct lls_render *render,
                                       const struct lls_call *call, uint32_t from)
{
  struct lls_list *rest = lls_list_new(render, LLS_FORM_TUPLE);
  for (uint32_t i = from; call->positional != NULL && i < call->positional->count; i++)
    lls_list_push(render, rest, call->positional->items[i]);
  return rest;
}

static struct lls_value argument(const struct lls_call *call, uint32_t number)
{
  return call->positional != NULL && number < call->positional->count
             ? call->positional->items[number]
             : lls_undefined();
}

/* Returns the filter or test of that name, or fails. */
static const struct lls_function *named(struct lls_render *render,
                                        const struct lls_call *call,
                                        struct lls_value name, bool test)
{
  const struct lls_function *found = NULL;
  if (lls_is_string(name))
    found = test ? lls_test_find(name.text, name.length)
                 : lls_filter_find(name.text, name.length);
  if (found == NULL) {
    char text[64] = "?";
    if (lls_is_string(name))
      lls_text_copy(name, text, sizeof text);
    lls_render_unknown(render, call->node, test ? "test" : "filter", text);
  }
  return found;
}

/* Implements select and reject, and by_member selectattr and rejectattr. */
static struct lls_value choose(struct lls_render *render, const struct lls_call *call,
                               bool by_member, bool wanted)
{
  struct lls_value test_name = argument(call, by_member);
  const struct lls_function *test = NULL;
  if (by_member && argument(call, 0).kind == LLS_UNDEFINED)
    return lls_render_fail(render, call->node, "\"%s\" needs the name of a member",
                           call->function->name);
  bool tested = test_name.kind != LLS_UNDEFINED;
  if (tested && (test = named(render, call, test_name, true)) == NULL)
    return lls_undefined();
  const struct lls_list *list = lls_truth(call->subject) ? items_of(render, call) : NULL;
  const struct lls_list *rest = arguments_from(render, call, by_member + 1u);
  struct lls_list *chosen = lls_list_new(render, LLS_FORM_LIST);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    struct lls_value value = list->items[i];
    if (by_member)
      value = lls_attribute(render, call->node, value, argument(call, 0));
    if (tested)
      value = lls_function_call(render, call->node, test, value, rest, call->keywords);
    if (lls_render_charge(render, call->node, 1) && lls_truth(value) == wanted)
      lls_list_push(render, chosen, list->items[i]);
  }
  return lls_generate(render, chosen);
}

static struct lls_value select_items(struct lls_render *render,
                                     const struct lls_call *call)
{
  return choose(render, call, false, true);
}

static struct lls_value reject_items(struct lls_render *render,
                                     const struct lls_call *call)
{
  return choose(render, call, false, false);
}

static struct lls_value select_by_member(struct lls_render *render,
                                         const struct lls_call *call)
{
  return choose(render, call, true, true);
}

static struct lls_value reject_by_member(struct lls_render *render,
                                         const struct lls_call *call)
{
  return choose(render, call, true, false);
}

static struct lls_value keyword(struct lls_render *render, const struct lls_call *call,
                                const char *name, size_t length)
{
  const struct lls_value *found =
      call->keywords != NULL
          ? lls_dict_find(render, call->keywords, lls_view(name, length))
          : NULL;
  return found != NULL ? *found : lls_undefined();
}

/* map("filter", ...) or map(attribute="name", default=...). */
static struct lls_value map_items(struct lls_render *render, const struct lls_call *call)
{
  struct lls_value member = keyword(render, call, "attribute", 9);
  struct lls_value otherwise = keyword(render, call, "default", 7);
  const struct lls_function *filter = NULL;
  if (member.kind == LLS_UNDEFINED &&
      (filter = named(render, call, argument(call, 0), false)) == NULL)
    return lls_undefined();
  const struct lls_list *list = lls_truth(call->subject) ? items_of(render, call) : NULL;
  const struct lls_list *rest = arguments_from(render, call, 1);
  struct lls_list *mapped = lls_list_new(render, LLS_FORM_LIST);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    struct lls_value value = list->items[i];
    if (filter != NULL) {
      value = lls_function_call(render, call->node, filter, value, rest, call->keywords);
    } else {
      value = lls_attribute(render, call->node, value, member);
      value = value.kind == LLS_UNDEFINED ? otherwise : value;
    }
    lls_list_push(render, mapped, value);
  }
  return lls_generate(render, mapped);
}

/* ---- cutting ----------------------------------------------------------------------- */

/* Cuts the items into lists of n, the last of which may be padded. */
static struct lls_value batch(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = items_of(render, call);
  struct lls_list *batches = lls_list_new(render, LLS_FORM_LIST), *one = NULL;
  int64_t size = lls_integer_argument(render, call, 0, 1);
  if (size < 1)
    return lls_render_fail(render, call->node, "batches of %lld items", (long long)size);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    if (i % size == 0) {
      one = lls_list_new(render, LLS_FORM_LIST);
      lls_list_push(render, batches, lls_of_list(one));
    }
    lls_list_push(render, one, list->items[i]);
  }
  bool fill = lls_given(call, 1) && call->arguments[1].kind != LLS_NONE;
  while (fill && one != NULL && one->count < size && render->code == 0)
    lls_list_push(render, one, call->arguments[1]);
  return lls_generate(render, batches);
}

/* Cuts the items into n lists; the first ones have an item more if n does not divide
 * their number. */
static struct lls_value slice(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = items_of(render, call);
  struct lls_list *slices = lls_list_new(render, LLS_FORM_LIST);
  int64_t count = lls_integer_argument(render, call, 0, 1), at = 0;
  if (count < 1 || list == NULL)
    return lls_render_fail(render, call->node, "%lld slices", (long long)count);
  bool fill = lls_given(call, 1) && call->arguments[1].kind != LLS_NONE;
  for (int64_t i = 0; i < count && render->code == 0; i++) {
    struct lls_list *one = lls_list_new(render, LLS_FORM_LIST);
    int64_t size = list->count / count + (i < list->count % count);
    for (int64_t j = 0; j < size; j++)
      lls_list_push(render, one, list->items[at++]);
    if (fill && i >= list->count % count)
      lls_list_push(render, one, call->arguments[1]);
    lls_list_push(render, slices, lls_of_list(one));
  }
  return lls_generate(render, slices);
}

static struct lls_value sum(struct lls_render *render, const struct lls_call *call)
{
  const struct lls_list *list = items_of(render, call);
  const struct lls_node add = {.offset = call->node->offset, .operation = LLS_OP_ADD};
  struct lls_value total = lls_given(call, 1) ? call->arguments[1] : lls_integer(0);
  bool by_member = lls_given(call, 0) && call->arguments[0].kind != LLS_NONE;
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    struct lls_value value = list->items[i];
    if (by_member)
      value = lls_attribute(render, call->node, value, call->arguments[0]);
    lls_render_charge(render, call->node, 1);
    total = lls_binary(render, &add, total, value);
  }
  return total;
}

const struct lls_function lls_list_filters[] = {
    {.name = "batch",
     .body = batch,
     .required = 1,
     .parameters = {"linecount", "fill_with"}},
    {.name = "first", .body = first},
    {.name = "items", .body = items},
    {.name = "join", .body = join, .parameters = {"d", "attribute"}},
    {.name = "last", .body = last},
    {.name = "list", .body = to_list},
    {.name = "map", .body = map_items, .open = true},
    {.name = "reject", .body = reject_items, .open = true},
    {.name = "rejectattr", .body = reject_by_member, .open = true},
    {.name = "reverse", .body = reverse},
    {.name = "select", .body = select_items, .open = true},
    {.name = "selectattr", .body = select_by_member, .open = true},
    {.name = "slice",
     .body = slice,
     .required = 1,
     .parameters = {"slices", "fill_with"}},
    {.name = "sum", .body = sum, .parameters = {"attribute", "start"}},
    {.name = NULL},
};
