/* SPDX-License-Identifier: Apache-2.0 */
/* Executes statements; see state.h. */
#include "text/template/state.h"

#include <errno.h>

static void print(struct lls_render *render, const struct lls_node *node,
                  struct lls_value value)
{
  struct lls_value text = lls_to_text(render, node, value);
  if (render->code < 0)
    return;
  if (render->out.length + text.length > LLS_OUTPUT_MAX)
    lls_render_fail(render, node, "it makes a text longer than %d bytes", LLS_OUTPUT_MAX);
  else if (lls_render_charge(render, node, LLS_WORK_OF_TEXT(text.length)))
    lls_bytes_append(&render->out, text.text, text.length);
  if (render->out.failed && render->code == 0)
    render->code = lls_fail(render->err, -ENOMEM, "chat template: no memory");
}

struct lls_value lls_execute_to_text(struct lls_render *render,
                                     const struct lls_node *statements)
{
  size_t start = render->out.length;
  lls_execute(render, statements);
  struct lls_value text = lls_view(NULL, 0);
  if (render->code == 0 && render->out.length > start)
    text =
        lls_render_string(render, render->out.data + start, render->out.length - start);
  render->out.length = start;
  return text;
}

/* ns.name = value */
static void assign_member(struct lls_render *render, const struct lls_node *target,
                          struct lls_value value)
{
  struct lls_value name = target->left->value;
  struct lls_value object = lls_scope_get(render, name.text, name.length);
  if (object.kind == LLS_NAMESPACE)
    lls_dict_set(render, object.dict, target->value, value);
  else
    lls_render_fail(render, target,
                    "\"%s\" is not a namespace, so \"%s.%s\" cannot be set", name.text,
                    name.text, target->value.text);
}

static void assign_items(struct lls_render *render, const struct lls_node *target,
                         struct lls_value value)
{
  const struct lls_list *items = lls_items_of(render, target, value);
  uint32_t count = 0;
  for (const struct lls_node *item = target->body; item != NULL; item = item->next)
    count++;
  if (items == NULL)
    return;
  if (items->count != count) {
    lls_render_fail(render, target, "cannot take %s of %u apart into %u names",
                    lls_type_name(value), items->count, count);
    return;
  }
  count = 0;
  for (const struct lls_node *item = target->body; item != NULL; item = item->next)
    lls_assign(render, item->left, items->items[count++]);
}

void lls_assign(struct lls_render *render, const struct lls_node *target,
                struct lls_value value)
{
  if (render->code < 0)
    return;
  if (target->kind == LLS_NODE_NAME)
    lls_scope_set(render, target->value.text, value);
  else if (target->kind == LLS_NODE_MEMBER)
    assign_member(render, target, value);
  else if (target->kind == LLS_NODE_LIST)
    assign_items(render, target, value);
  else
    lls_render_fail(render, target, "this cannot be set");
}

/* Returns the text printed by the statements, passed through the filters. */
static struct lls_value filtered_text(struct lls_render *render,
                                      const struct lls_node *node)
{
  struct lls_scope *outer = render->scope;
  lls_scope_push(render, outer);
  struct lls_value text = lls_execute_to_text(render, node->body);
  render->scope = outer;
  return node->left != NULL ? lls_evaluate_filters(render, node->left, text) : text;
}

static void execute_if(struct lls_render *render, const struct lls_node *branch)
{
  for (; branch != NULL && render->code == 0; branch = branch->third) {
    if (branch->left != NULL && !lls_truth(lls_evaluate(render, branch->left)))
      continue;
    if (render->code == 0)
      lls_execute(render, branch->body);
    return;
  }
}

static void execute_scope(struct lls_render *render, const struct lls_node *node)
{
  struct lls_scope *outer = render->scope, *base = outer;
  while (node->flag && base->outer != NULL)
    base = base->outer;
  lls_scope_push(render, base);
  struct lls_scope *inner = render->scope;
  for (const struct lls_node *set = node->names; set != NULL; set = set->next) {
    render->scope = outer; /* a value cannot use the other new variables */
    struct lls_value value = lls_evaluate(render, set->left);
    render->scope = inner;
    lls_assign(render, set->names, value);
  }
  lls_execute(render, node->body);
  render->scope = outer;
}

static void execute_call_block(struct lls_render *render, const struct lls_node *node)
{
  struct lls_value caller = lls_macro_new(render, node->right);
  struct lls_value text = lls_evaluate_call(render, node->left, caller);
  if (render->code == 0)
    print(render, node, text);
}

static void execute_one(struct lls_render *render, const struct lls_node *node)
{
  switch (node->kind) {
  case LLS_NODE_TEXT:
    print(render, node, node->value);
    break;
  case LLS_NODE_PRINT:
    print(render, node, lls_evaluate(render, node->left));
    break;
  case LLS_NODE_IF:
    execute_if(render, node);
    break;
  case LLS_NODE_FOR:
    lls_execute_for(render, node, lls_evaluate(render, node->left), 0);
    break;
  case LLS_NODE_SET:
    lls_assign(render, node->names, lls_evaluate(render, node->left));
    break;
  case LLS_NODE_SET_BLOCK:
    lls_assign(render, node->names, filtered_text(render, node));
    break;
  case LLS_NODE_FILTERED:
    print(render, node, filtered_text(render, node));
    break;
  case LLS_NODE_SCOPE:
    execute_scope(render, node);
    break;
  case LLS_NODE_MACRO:
    lls_scope_set(render, node->value.text, lls_macro_new(render, node));
    break;
  case LLS_NODE_CALL_BLOCK:
    execute_call_block(render, node);
    break;
  case LLS_NODE_DO:
    lls_evaluate(render, node->left);
    break;
  case LLS_NODE_UNKNOWN:
    lls_render_unknown(render, node, "statement", node->value.text);
    break;
  default:
    render->jump = node->kind == LLS_NODE_BREAK ? LLS_JUMP_BREAK : LLS_JUMP_CONTINUE;
  }
}

void lls_execute(struct lls_render *render, const struct lls_node *statements)
{
  if (!lls_render_enter(render, statements))
    return;
  for (; statements != NULL && render->code == 0 && render->jump == LLS_JUMP_NONE;
       statements = statements->next)
    if (lls_render_charge(render, statements, 1))
      execute_one(render, statements);
  lls_render_leave(render);
}
