/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: one function per kind of node that is more than a line. */
#include "core/template/function.h"
#include "core/template/state.h"

#include <string.h>

/* The name of a function is defined, so that a template can ask for it. */
static json_t *evaluate_name(struct lls_render *render, const struct lls_node *node)
{
  json_t *value = lls_scope_get(render, node->name);
  if (value == NULL && lls_function_find(node->name) != NULL)
    return json_true();
  return json_incref(value);
}

static json_t *evaluate_list(struct lls_render *render, const struct lls_node *node)
{
  json_t *list = lls_render_made(render, json_array());
  for (const struct lls_node *item = node->body; item != NULL && render->code == 0;
       item = item->next) {
    json_t *value = lls_evaluate(render, item->left);
    json_array_append_new(list, value != NULL ? value : json_null());
  }
  return lls_render_check(render, node, list);
}

static json_t *evaluate_dict(struct lls_render *render, const struct lls_node *node)
{
  json_t *dict = lls_render_made(render, json_object());
  for (const struct lls_node *item = node->body; item != NULL && render->code == 0;
       item = item->next) {
    json_t *key = lls_evaluate(render, item->left);
    json_t *value = lls_evaluate(render, item->right);
    if (json_is_string(key))
      json_object_set(dict, json_string_value(key), value);
    else
      lls_render_fail(render, item, "a key must be a string, not %s", lls_type_name(key));
    json_decref(key);
    json_decref(value);
  }
  return lls_render_check(render, node, dict);
}

static json_t *evaluate_member(struct lls_render *render, const struct lls_node *node)
{
  json_t *object = lls_evaluate(render, node->left), *value = NULL;
  if (object == NULL)
    lls_render_fail(render, node, "\"%s\" of undefined is asked for", node->name);
  else
    value = json_incref(json_object_get(object, node->name));
  json_decref(object);
  return value;
}

static json_t *evaluate_index(struct lls_render *render, const struct lls_node *node)
{
  json_t *object = lls_evaluate(render, node->left);
  json_t *index = lls_evaluate(render, node->right), *value = NULL;
  if (render->code == 0)
    value = lls_index(render, node, object, index);
  json_decref(object);
  json_decref(index);
  return value;
}

static json_t *evaluate_slice(struct lls_render *render, const struct lls_node *node)
{
  json_t *object = lls_evaluate(render, node->left), *value = NULL;
  json_t *bounds[3] = {NULL};
  size_t count = 0;
  for (const struct lls_node *bound = node->body; bound != NULL; bound = bound->next)
    bounds[count++] = bound->left != NULL ? lls_evaluate(render, bound->left) : NULL;
  if (render->code == 0)
    value = lls_slice(render, node, object, (const json_t *const *)bounds);
  for (size_t i = 0; i < count; i++)
    json_decref(bounds[i]);
  json_decref(object);
  return value;
}

/* Truth of an expression whose value is of no further use. */
static bool holds(struct lls_render *render, const struct lls_node *node)
{
  json_t *value = lls_evaluate(render, node);
  bool truth = lls_truth(value);
  json_decref(value);
  return truth;
}

static json_t *evaluate_choice(struct lls_render *render, const struct lls_node *node)
{
  if (holds(render, node->left))
    return lls_evaluate(render, node->right);
  return node->third != NULL ? lls_evaluate(render, node->third) : NULL;
}

/* "a and b" is a where a is false, else b; "a or b" the other way round. */
static json_t *evaluate_logic(struct lls_render *render, const struct lls_node *node)
{
  json_t *left = lls_evaluate(render, node->left);
  if (render->code < 0 || lls_truth(left) == (node->kind == LLS_NODE_OR))
    return left;
  json_decref(left);
  return lls_evaluate(render, node->right);
}

static json_t *evaluate_negate(struct lls_render *render, const struct lls_node *node)
{
  json_t *value = lls_evaluate(render, node->left), *result = NULL;
  json_int_t negated;
  if (json_is_integer(value) &&
      !__builtin_sub_overflow(0, json_integer_value(value), &negated))
    result = lls_render_made(render, json_integer(negated));
  else if (json_is_real(value))
    result = lls_render_made(render, json_real(-json_real_value(value)));
  else
    lls_render_fail(render, node, "cannot negate %s", lls_type_name(value));
  json_decref(value);
  return result;
}

/* a < b < c: each pair must hold, and nothing is evaluated twice. */
static json_t *evaluate_compare(struct lls_render *render, const struct lls_node *node)
{
  json_t *left = lls_evaluate(render, node->left);
  bool truth = true;
  for (const struct lls_node *term = node->body; term != NULL && truth;
       term = term->next) {
    json_t *right = lls_evaluate(render, term->left);
    truth = render->code == 0 && lls_compare(render, term, term->operation, left, right);
    json_decref(left);
    left = right;
  }
  json_decref(left);
  return json_boolean(truth);
}

static json_t *evaluate_binary(struct lls_render *render, const struct lls_node *node)
{
  json_t *left = lls_evaluate(render, node->left);
  json_t *right = lls_evaluate(render, node->right), *value = NULL;
  if (render->code == 0)
    value = lls_binary(render, node, left, right);
  json_decref(left);
  json_decref(right);
  return value;
}

/* Filters, tests, methods and functions. */
static json_t *evaluate_call(struct lls_render *render, const struct lls_node *node)
{
  struct lls_call call = {.node = node};
  json_t *value = NULL;
  if (node->left != NULL)
    call.subject = lls_evaluate(render, node->left);
  if (node->function->open)
    call.keywords = lls_render_made(render, json_object());
  for (const struct lls_node *argument = node->body;
       argument != NULL && render->code == 0; argument = argument->next) {
    json_t *given = lls_evaluate(render, argument->left);
    if (argument->name == NULL) {
      call.arguments[argument->position] = given;
      continue;
    }
    json_object_set(call.keywords, argument->name, given);
    json_decref(given);
  }
  if (render->code == 0 && node->kind == LLS_NODE_METHOD && call.subject == NULL)
    lls_render_fail(render, node, "\"%s\" of undefined is called", node->name);
  lls_render_charge(render, node, LLS_WORK_OF_TEXT(json_string_length(call.subject)));
  if (render->code == 0)
    value = node->function->body(render, &call);
  for (size_t i = 0; i < LLS_PARAMETERS; i++)
    json_decref(call.arguments[i]);
  json_decref(call.keywords);
  json_decref(call.subject);
  return value;
}

static json_t *evaluate(struct lls_render *render, const struct lls_node *node)
{
  switch (node->kind) {
  case LLS_NODE_LITERAL:
    return json_incref(node->value);
  case LLS_NODE_NAME:
    return evaluate_name(render, node);
  case LLS_NODE_LIST:
    return evaluate_list(render, node);
  case LLS_NODE_DICT:
    return evaluate_dict(render, node);
  case LLS_NODE_MEMBER:
    return evaluate_member(render, node);
  case LLS_NODE_INDEX:
    return evaluate_index(render, node);
  case LLS_NODE_SLICE:
    return evaluate_slice(render, node);
  case LLS_NODE_CHOICE:
    return evaluate_choice(render, node);
  case LLS_NODE_AND:
  case LLS_NODE_OR:
    return evaluate_logic(render, node);
  case LLS_NODE_NOT:
    return json_boolean(!holds(render, node->left));
  case LLS_NODE_NEGATE:
    return evaluate_negate(render, node);
  case LLS_NODE_COMPARE:
    return evaluate_compare(render, node);
  case LLS_NODE_BINARY:
    return evaluate_binary(render, node);
  default:
    return evaluate_call(render, node);
  }
}

json_t *lls_evaluate(struct lls_render *render, const struct lls_node *node)
{
  if (render->code < 0 || !lls_render_charge(render, node, 1))
    return NULL;
  if (render->depth >= LLS_EVALUATE_DEPTH)
    return lls_render_fail(render, node, "the expression is nested too deeply");
  render->depth++;
  json_t *value = evaluate(render, node);
  render->depth--;
  return value;
}
