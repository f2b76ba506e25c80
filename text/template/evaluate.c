/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates expressions, with one function per node kind that needs more than a line. */
#include "text/template/function.h"
#include "text/template/state.h"

static struct lls_value evaluate_name(struct lls_render *render,
                                      const struct lls_node *node)
{
  struct lls_value name = node->value;
  struct lls_value value = lls_scope_get(render, name.text, name.length);
  if (value.kind != LLS_UNDEFINED)
    return value;
  const struct lls_function *function = lls_global_find(name.text, name.length);
  return function != NULL ? (struct lls_value){.kind = LLS_FUNCTION, .function = function}
                          : value;
}

static struct lls_value evaluate_list(struct lls_render *render,
                                      const struct lls_node *node)
{
  struct lls_list *list =
      lls_list_new(render, node->flag ? LLS_FORM_TUPLE : LLS_FORM_LIST);
  for (const struct lls_node *item = node->body; item != NULL && render->code == 0;
       item = item->next)
    lls_list_push(render, list, lls_evaluate(render, item->left));
  return lls_of_list(list);
}

static struct lls_value evaluate_dict(struct lls_render *render,
                                      const struct lls_node *node)
{
  struct lls_dict *dict = lls_dict_new(render);
  for (const struct lls_node *item = node->body; item != NULL && render->code == 0;
       item = item->next) {
    struct lls_value key = lls_evaluate(render, item->left);
    lls_dict_set(render, dict, key, lls_evaluate(render, item->right));
  }
  return lls_of_dict(dict);
}

static struct lls_value evaluate_slice(struct lls_render *render,
                                       const struct lls_node *node)
{
  struct lls_value object = lls_evaluate(render, node->left);
  struct lls_value bounds[3] = {lls_none(), lls_none(), lls_none()};
  size_t count = 0;
  for (const struct lls_node *bound = node->body; bound != NULL; bound = bound->next) {
    if (bound->left != NULL)
      bounds[count] = lls_evaluate(render, bound->left);
    count++;
  }
  return lls_slice(render, node, object, bounds);
}

static struct lls_value evaluate_choice(struct lls_render *render,
                                        const struct lls_node *node)
{
  bool chosen = lls_truth(lls_evaluate(render, node->left));
  if (render->code < 0 || (!chosen && node->third == NULL))
    return lls_undefined();
  return lls_evaluate(render, chosen ? node->right : node->third);
}

/* "a and b" is a if a is false, else b; "a or b" is a if a is true, else b. */
static struct lls_value evaluate_logic(struct lls_render *render,
                                       const struct lls_node *node)
{
  struct lls_value left = lls_evaluate(render, node->left);
  if (render->code < 0 || lls_truth(left) == (node->kind == LLS_NODE_OR))
    return left;
  return lls_evaluate(render, node->right);
}

static struct lls_value evaluate_sign(struct lls_render *render,
                                      const struct lls_node *node)
{
  struct lls_value value = lls_evaluate(render, node->left);
  bool negate = node->kind == LLS_NODE_NEGATE;
  if (value.kind == LLS_REAL)
    return lls_real(negate ? -value.real : value.real);
  if (lls_is_integral(value) && lls_integer_of(value) != INT64_MIN)
    return lls_integer(negate ? -lls_integer_of(value) : lls_integer_of(value));
  return lls_render_fail(render, node, "%s has no sign", lls_type_name(value));
}

/* a < b < c: every comparison must be true. */
static struct lls_value evaluate_compare(struct lls_render *render,
                                         const struct lls_node *node)
{
  struct lls_value left = lls_evaluate(render, node->left);
  for (const struct lls_node *term = node->body; term != NULL; term = term->next) {
    struct lls_value right = lls_evaluate(render, term->left);
    if (render->code < 0 ||
        !lls_compare_values(render, term, term->operation, left, right))
      return lls_boolean(false);
    left = right;
  }
  return lls_boolean(true);
}

static struct lls_value evaluate_binary(struct lls_render *render,
                                        const struct lls_node *node)
{
  struct lls_value left = lls_evaluate(render, node->left);
  struct lls_value right = lls_evaluate(render, node->right);
  return render->code == 0 ? lls_binary(render, node, left, right) : lls_undefined();
}

/* ---- calls ------------------------------------------------------------------------- */

struct arguments {
  struct lls_list *positional; /* NULL if there are none */
  struct lls_dict *keywords;   /* NULL if there are none */
};

static void add_positional(struct lls_render *render, struct arguments *out,
                           struct lls_value value)
{
  if (out->positional == NULL)
    out->positional = lls_list_new(render, LLS_FORM_TUPLE);
  lls_list_push(render, out->positional, value);
}

static void add_keyword(struct lls_render *render, struct arguments *out,
                        struct lls_value name, struct lls_value value)
{
  if (out->keywords == NULL)
    out->keywords = lls_dict_new(render);
  lls_dict_set(render, out->keywords, name, value);
}

/* Adds the arguments of *list and **mapping. */
static void add_starred(struct lls_render *render, struct arguments *out,
                        const struct lls_node *argument, struct lls_value value)
{
  const struct lls_entry *entry;
  uint32_t at = 0;
  if (argument->stars == 1) {
    const struct lls_list *list = lls_items_of(render, argument, value);
    for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++)
      add_positional(render, out, list->items[i]);
  } else if (value.kind != LLS_DICT) {
    lls_render_fail(render, argument, "%s cannot be given as names",
                    lls_type_name(value));
  } else {
    while ((entry = lls_dict_next(value.dict, &at)) != NULL && render->code == 0)
      add_keyword(render, out, entry->key, entry->value);
  }
}

static struct arguments evaluate_arguments(struct lls_render *render,
                                           const struct lls_node *argument)
{
  struct arguments out = {NULL, NULL};
  for (; argument != NULL && render->code == 0; argument = argument->next) {
    struct lls_value value = lls_evaluate(render, argument->left);
    if (argument->stars > 0)
      add_starred(render, &out, argument, value);
    else if (lls_is_string(argument->value))
      add_keyword(render, &out, argument->value, value);
    else
      add_positional(render, &out, value);
  }
  return out;
}

static struct lls_value call(struct lls_render *render, const struct lls_node *node,
                             struct lls_value callee, struct arguments arguments)
{
  switch (callee.kind) {
  case LLS_MACRO:
    return lls_macro_call(render, node, callee.macro, arguments.positional,
                          arguments.keywords);
  case LLS_FUNCTION:
    return lls_function_call(render, node, callee.function, lls_undefined(),
                             arguments.positional, arguments.keywords);
  case LLS_METHOD:
    return lls_function_call(render, node, callee.bound->function, callee.bound->subject,
                             arguments.positional, arguments.keywords);
  case LLS_LOOP:
    if (arguments.positional != NULL && arguments.positional->count == 1)
      return lls_loop_call(render, node, callee.loop, arguments.positional->items[0]);
    return lls_render_fail(render, node, "loop() needs an iterable");
  default:
    return lls_render_fail(render, node, "%s cannot be called", lls_type_name(callee));
  }
}

/* Fails with a message that names the unknown function. */
static struct lls_value unknown_callee(struct lls_render *render,
                                       const struct lls_node *callee)
{
  if (callee->kind == LLS_NODE_MEMBER)
    return lls_render_unknown(render, callee, "method", callee->value.text);
  if (callee->kind == LLS_NODE_NAME)
    return lls_render_unknown(render, callee, "function", callee->value.text);
  return lls_render_fail(render, callee, "undefined cannot be called");
}

struct lls_value lls_evaluate_call(struct lls_render *render, const struct lls_node *node,
                                   struct lls_value caller)
{
  struct lls_value callee = lls_evaluate(render, node->left);
  if (render->code < 0)
    return lls_undefined();
  if (callee.kind == LLS_UNDEFINED)
    return unknown_callee(render, node->left);
  struct arguments arguments = evaluate_arguments(render, node->body);
  if (caller.kind == LLS_MACRO)
    add_keyword(render, &arguments, lls_view("caller", 6), caller);
  return render->code == 0 ? call(render, node, callee, arguments) : lls_undefined();
}

static struct lls_value apply_filter(struct lls_render *render,
                                     const struct lls_node *node,
                                     struct lls_value subject)
{
  if (render->code == 0 && node->function == NULL)
    return lls_render_unknown(
        render, node, node->kind == LLS_NODE_TEST ? "test" : "filter", node->value.text);
  struct arguments arguments = evaluate_arguments(render, node->body);
  if (render->code < 0)
    return lls_undefined();
  return lls_function_call(render, node, node->function, subject, arguments.positional,
                           arguments.keywords);
}

struct lls_value lls_evaluate_filters(struct lls_render *render,
                                      const struct lls_node *node,
                                      struct lls_value subject)
{
  if (node->kind == LLS_NODE_SUBJECT || !lls_render_enter(render, node))
    return subject;
  subject = lls_evaluate_filters(render, node->left, subject);
  subject = apply_filter(render, node, subject);
  lls_render_leave(render);
  return subject;
}

static struct lls_value evaluate(struct lls_render *render, const struct lls_node *node)
{
  switch (node->kind) {
  case LLS_NODE_LITERAL:
    return node->value;
  case LLS_NODE_NAME:
    return evaluate_name(render, node);
  case LLS_NODE_LIST:
    return evaluate_list(render, node);
  case LLS_NODE_DICT:
    return evaluate_dict(render, node);
  case LLS_NODE_MEMBER:
    return lls_member(render, node, lls_evaluate(render, node->left), node->value);
  case LLS_NODE_INDEX: {
    struct lls_value object = lls_evaluate(render, node->left);
    return lls_index(render, node, object, lls_evaluate(render, node->right));
  }
  case LLS_NODE_SLICE:
    return evaluate_slice(render, node);
  case LLS_NODE_CHOICE:
    return evaluate_choice(render, node);
  case LLS_NODE_AND:
  case LLS_NODE_OR:
    return evaluate_logic(render, node);
  case LLS_NODE_NOT:
    return lls_boolean(!lls_truth(lls_evaluate(render, node->left)));
  case LLS_NODE_NEGATE:
  case LLS_NODE_PLUS:
    return evaluate_sign(render, node);
  case LLS_NODE_COMPARE:
    return evaluate_compare(render, node);
  case LLS_NODE_BINARY:
    return evaluate_binary(render, node);
  case LLS_NODE_FILTER:
  case LLS_NODE_TEST:
    return apply_filter(render, node, lls_evaluate(render, node->left));
  case LLS_NODE_CALL:
    return lls_evaluate_call(render, node, lls_undefined());
  default:
    return lls_undefined();
  }
}

struct lls_value lls_evaluate(struct lls_render *render, const struct lls_node *node)
{
  struct lls_value value = lls_undefined();
  if (render->code < 0 || !lls_render_charge(render, node, 1) ||
      !lls_render_enter(render, node))
    return value;
  value = evaluate(render, node);
  lls_render_leave(render);
  return render->code == 0 ? value : lls_undefined();
}
