/* SPDX-License-Identifier: Apache-2.0 */
/* Statements, and the bookkeeping of a rendering. */
#include "core/template/state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *lls_render_fail(struct lls_render *render, const struct lls_node *node,
                      const char *format, ...)
{
  if (render->code < 0)
    return NULL;
  char place[48] = "", what[LLS_ERROR_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (node != NULL)
    lls_place(render->tree->source, node->offset, place);
  render->code = lls_fail(render->err, -EINVAL, "chat template%s%s: %s",
                          node != NULL ? ", " : "", place, what);
  return NULL;
}

bool lls_render_charge(struct lls_render *render, const struct lls_node *node,
                       size_t work)
{
  render->work += work;
  if (render->work > LLS_WORK_MAX)
    lls_render_fail(render, node, "it does not come to an end within %d steps",
                    LLS_WORK_MAX);
  return render->code == 0;
}

json_t *lls_render_made(struct lls_render *render, json_t *value)
{
  if (value == NULL && render->code == 0)
    render->code = lls_fail(render->err, -ENOMEM, "chat template: no memory");
  return value;
}

json_t *lls_render_string(struct lls_render *render, const char *text, size_t length)
{
  if (length > LLS_OUTPUT_MAX)
    return lls_render_fail(render, NULL, "it makes a text longer than %d bytes",
                           LLS_OUTPUT_MAX);
  if (!lls_render_charge(render, NULL, LLS_WORK_OF_TEXT(length)))
    return NULL;
  return lls_render_made(render, json_stringn_nocheck(text != NULL ? text : "", length));
}

static bool is_namespace(const struct lls_render *render, const json_t *value)
{
  for (size_t i = 0; i < json_array_size(render->namespaces); i++)
    if (json_array_get(render->namespaces, i) == value)
      return true;
  return false;
}

static void check_inside(struct lls_render *render, const struct lls_node *node,
                         const json_t *value, unsigned depth)
{
  size_t i;
  const char *key;
  json_t *item;
  if (!lls_render_charge(render, node, 1))
    return;
  if (depth > LLS_VALUE_DEPTH || (depth > 0 && is_namespace(render, value)))
    lls_render_fail(render, node, "a value is nested too deeply, or holds a namespace");
  if (json_is_array(value))
    json_array_foreach((json_t *)value, i, item)
        check_inside(render, node, item, render->code == 0 ? depth + 1 : depth);
  else if (json_is_object(value))
    json_object_foreach((json_t *)value, key, item)
        check_inside(render, node, item, depth + 1);
}

bool lls_render_charge_value(struct lls_render *render, const struct lls_node *node,
                             const json_t *value)
{
  size_t i;
  const char *key;
  json_t *item;
  size_t work = 1 + LLS_WORK_OF_TEXT(json_string_length(value));
  if (!lls_render_charge(render, node, work))
    return false;
  if (json_is_array(value)) {
    json_array_foreach(
        (json_t *)value, i,
        item) if (!lls_render_charge_value(render, node, item)) return false;
  } else if (json_is_object(value)) {
    json_object_foreach(
        (json_t *)value, key,
        item) if (!lls_render_charge_value(render, node, item)) return false;
  }
  return true;
}

json_t *lls_render_check(struct lls_render *render, const struct lls_node *node,
                         json_t *value)
{
  if (value != NULL)
    check_inside(render, node, value, 0);
  return value;
}

static void print(struct lls_render *render, const struct lls_node *node, json_t *value)
{
  json_t *text = lls_to_string(render, node, value);
  size_t length = json_string_length(text);
  if (render->out.length + length > LLS_OUTPUT_MAX)
    lls_render_fail(render, node, "it makes a text longer than %d bytes", LLS_OUTPUT_MAX);
  else if (lls_render_charge(render, node, LLS_WORK_OF_TEXT(length)))
    lls_bytes_append(&render->out, json_string_value(text), length);
  if (render->out.failed)
    lls_render_made(render, NULL);
  json_decref(text);
}

/* Gives the names of a for their value: the item, or its parts if there are several. */
static void assign_names(struct lls_render *render, const struct lls_node *node,
                         json_t *item)
{
  const struct lls_node *name = node->names;
  size_t i = 0;
  if (name->next == NULL) {
    lls_scope_set(render, name->name, item);
    return;
  }
  for (; name != NULL; name = name->next, i++)
    lls_scope_set(render, name->name, json_array_get(item, i));
  if (json_array_size(item) != i)
    lls_render_fail(render, node, "cannot take %s apart into %zu names",
                    lls_type_name(item), i);
}

/* The items for which the condition of the for holds; takes list over. */
static json_t *filter_items(struct lls_render *render, const struct lls_node *node,
                            json_t *list)
{
  if (node->right == NULL || list == NULL)
    return list;
  json_t *kept = lls_render_made(render, json_array());
  for (size_t i = 0; i < json_array_size(list) && render->code == 0; i++) {
    json_t *item = json_array_get(list, i);
    lls_scope_push(render);
    assign_names(render, node, item);
    json_t *condition = lls_evaluate(render, node->right);
    lls_scope_pop(render);
    if (lls_truth(condition))
      json_array_append(kept, item);
    json_decref(condition);
  }
  json_decref(list);
  return kept;
}

/* The variable "loop". Where there is no item before or after, it has no such member. */
static json_t *make_loop(const json_t *list, size_t i)
{
  json_int_t index = (json_int_t)i, size = (json_int_t)json_array_size(list);
  json_t *loop =
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "index", index + 1, "index0",
                index, "revindex", size - index, "revindex0", size - index - 1, "length",
                size, "first", i == 0, "last", index + 1 == size);
  if (i > 0)
    json_object_set(loop, "previtem", json_array_get(list, i - 1));
  if (index + 1 < size)
    json_object_set(loop, "nextitem", json_array_get(list, i + 1));
  return loop;
}

static void execute_for(struct lls_render *render, const struct lls_node *node)
{
  json_t *value = lls_evaluate(render, node->left);
  json_t *list = render->code == 0 ? lls_to_list(render, node, value) : NULL;
  list = filter_items(render, node, list);
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (!lls_render_charge(render, node, LLS_WORK_OF_LOOP))
      break;
    json_t *loop = lls_render_made(render, make_loop(list, i));
    lls_scope_push(render);
    lls_scope_set(render, "loop", loop);
    assign_names(render, node, json_array_get(list, i));
    lls_execute(render, node->body);
    lls_scope_pop(render);
    json_decref(loop);
    bool stop = render->jump == LLS_JUMP_BREAK;
    render->jump = LLS_JUMP_NONE;
    if (stop)
      break;
  }
  if (json_array_size(list) == 0)
    lls_execute(render, node->otherwise);
  json_decref(list);
  json_decref(value);
}

static void set_member(struct lls_render *render, const struct lls_node *node,
                       json_t *value)
{
  json_t *object = lls_scope_get(render, node->name);
  if (!is_namespace(render, object))
    lls_render_fail(render, node, "\"%s\" is not a namespace, so \"%s.%s\" cannot be set",
                    node->name, node->name, node->member);
  else if (value == NULL)
    json_object_del(object, node->member);
  else if (is_namespace(render, value))
    lls_render_fail(render, node, "a namespace inside another is not supported");
  else if (lls_render_check(render, node, value) != NULL && render->code == 0)
    json_object_set(object, node->member, value);
}

static void execute_set(struct lls_render *render, const struct lls_node *node)
{
  json_t *value = lls_evaluate(render, node->left);
  if (render->code == 0 && node->member != NULL)
    set_member(render, node, value);
  else if (render->code == 0)
    lls_scope_set(render, node->name, value);
  json_decref(value);
}

/* The text that the statements print becomes the value. */
static void execute_set_block(struct lls_render *render, const struct lls_node *node)
{
  size_t start = render->out.length;
  lls_execute(render, node->body);
  json_t *value = render->code == 0 ? lls_render_string(render, render->out.data + start,
                                                        render->out.length - start)
                                    : NULL;
  render->out.length = start;
  if (render->code == 0)
    lls_scope_set(render, node->name, value);
  json_decref(value);
}

static void execute_if(struct lls_render *render, const struct lls_node *node)
{
  json_t *condition = lls_evaluate(render, node->left);
  bool truth = lls_truth(condition);
  json_decref(condition);
  if (render->code == 0)
    lls_execute(render, truth ? node->body : node->otherwise);
}

static void execute_print(struct lls_render *render, const struct lls_node *node)
{
  json_t *value = lls_evaluate(render, node->left);
  if (render->code == 0)
    print(render, node, value);
  json_decref(value);
}

static void execute_one(struct lls_render *render, const struct lls_node *node)
{
  switch (node->kind) {
  case LLS_NODE_TEXT:
    print(render, node, node->value);
    break;
  case LLS_NODE_PRINT:
    execute_print(render, node);
    break;
  case LLS_NODE_IF:
    execute_if(render, node);
    break;
  case LLS_NODE_FOR:
    execute_for(render, node);
    break;
  case LLS_NODE_SET:
    execute_set(render, node);
    break;
  case LLS_NODE_SET_BLOCK:
    execute_set_block(render, node);
    break;
  case LLS_NODE_GROUP:
    lls_execute(render, node->body);
    break;
  default:
    render->jump = node->kind == LLS_NODE_BREAK ? LLS_JUMP_BREAK : LLS_JUMP_CONTINUE;
  }
}

void lls_execute(struct lls_render *render, const struct lls_node *statements)
{
  for (; statements != NULL && render->code == 0 && render->jump == LLS_JUMP_NONE;
       statements = statements->next)
    if (lls_render_charge(render, statements, 1))
      execute_one(render, statements);
}
