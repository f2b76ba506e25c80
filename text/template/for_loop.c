/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the for statement, and its variable "loop". */
#include "text/template/function.h"
#include "text/template/state.h"

static void open_scope(struct lls_render *render, struct lls_scope *outer,
                       struct lls_scope **used)
{
  if (*used != NULL && !(*used)->kept) {
    lls_dict_clear(&(*used)->variables);
    render->scope = *used;
  } else {
    lls_scope_push(render, outer);
    *used = render->scope;
  }
}

/* Returns the items for which the condition of the for is true. */
static struct lls_list *filter_items(struct lls_render *render,
                                     const struct lls_node *node, struct lls_list *list)
{
  struct lls_scope *outer = render->scope, *used = NULL;
  struct lls_list *kept = lls_list_new(render, LLS_FORM_LIST);
  for (uint32_t i = 0; list != NULL && i < list->count && render->code == 0; i++) {
    open_scope(render, outer, &used);
    lls_assign(render, node->names, list->items[i]);
    if (lls_truth(lls_evaluate(render, node->right)))
      lls_list_push(render, kept, list->items[i]);
    render->scope = outer;
  }
  return kept;
}

/* Advances to the next iteration. Returns false after the last one. */
static bool turn(struct lls_render *render, struct lls_for_loop *loop)
{
  const struct lls_node *node = loop->node;
  lls_scope_set(render, "loop", (struct lls_value){.kind = LLS_LOOP, .loop = loop});
  lls_assign(render, node->names, loop->list->items[loop->index]);
  lls_execute(render, node->body);
  bool stop = render->jump == LLS_JUMP_BREAK;
  render->jump = LLS_JUMP_NONE;
  return !stop;
}

void lls_execute_for(struct lls_render *render, const struct lls_node *node,
                     struct lls_value iterable, unsigned depth)
{
  struct lls_scope *outer = render->scope, *used = NULL;
  struct lls_list *list = lls_items_of(render, node, iterable);
  if (list != NULL && node->right != NULL)
    list = filter_items(render, node, list);
  struct lls_for_loop *loop = lls_render_alloc(render, sizeof *loop);
  if (list == NULL || loop == NULL)
    return;
  *loop =
      (struct lls_for_loop){.node = node, .scope = outer, .list = list, .depth = depth};
  for (; loop->index < list->count; loop->index++) {
    if (!lls_render_charge(render, node, LLS_WORK_OF_LOOP))
      break;
    open_scope(render, outer, &used);
    bool goes_on = turn(render, loop);
    render->scope = outer;
    if (!goes_on)
      break;
  }
  if (list->count == 0 && node->otherwise != NULL) {
    lls_scope_push(render, outer);
    lls_execute(render, node->otherwise);
    render->scope = outer;
  }
}

struct lls_value lls_loop_call(struct lls_render *render, const struct lls_node *node,
                               const struct lls_for_loop *loop, struct lls_value iterable)
{
  struct lls_scope *scope = render->scope;
  size_t start = render->out.length;
  struct lls_value text = lls_view(NULL, 0);
  if (!loop->node->flag)
    return lls_render_fail(render, node, "this loop is not recursive");
  if (!lls_render_enter(render, node))
    return text;
  render->scope = loop->scope;
  lls_execute_for(render, loop->node, iterable, loop->depth + 1);
  render->scope = scope;
  lls_render_leave(render);
  if (render->code == 0 && render->out.length > start)
    text =
        lls_render_string(render, render->out.data + start, render->out.length - start);
  render->out.length = start;
  return text;
}

/* loop.cycle(a, b): returns its arguments in turn. */
static struct lls_value cycle(struct lls_render *render, const struct lls_call *call)
{
  if (call->positional == NULL || call->positional->count == 0)
    return lls_render_fail(render, call->node, "loop.cycle() needs arguments");
  return call->positional->items[call->subject.loop->index % call->positional->count];
}

/* loop.changed(a): returns whether the arguments differ from those of the previous
 * call. */
static struct lls_value changed(struct lls_render *render, const struct lls_call *call)
{
  struct lls_for_loop *loop = call->subject.loop;
  struct lls_list *values = lls_list_new(render, LLS_FORM_TUPLE);
  for (uint32_t i = 0; call->positional != NULL && i < call->positional->count; i++)
    lls_list_push(render, values, call->positional->items[i]);
  if (values == NULL)
    return lls_undefined();
  bool same = loop->changed != NULL &&
              lls_equal(render, lls_of_list(loop->changed), lls_of_list(values));
  loop->changed = values;
  return lls_boolean(!same);
}

const struct lls_function lls_loop_methods[] = {
    {.name = "changed", .body = changed, .open = true},
    {.name = "cycle", .body = cycle, .open = true},
    {.name = NULL},
};
