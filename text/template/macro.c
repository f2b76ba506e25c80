/* SPDX-License-Identifier: Apache-2.0 */
/* Calls macros: the arguments become variables of the body. */
#include "text/template/state.h"

struct lls_value lls_macro_new(struct lls_render *render, const struct lls_node *node)
{
  struct lls_macro *macro = lls_render_alloc(render, sizeof *macro);
  if (macro == NULL)
    return lls_undefined();
  for (struct lls_scope *scope = render->scope; scope != NULL && !scope->kept;
       scope = scope->outer)
    scope->kept = true;
  *macro = (struct lls_macro){.node = node, .scope = render->scope};
  return (struct lls_value){.kind = LLS_MACRO, .macro = macro};
}

/* Sets variables from positional arguments; surplus ones become varargs. */
static void bind_positional(struct lls_render *render, const struct lls_node *node,
                            const struct lls_node *macro, const struct lls_list *given)
{
  const struct lls_node *name = macro->names;
  struct lls_list *rest = lls_list_new(render, LLS_FORM_TUPLE);
  for (uint32_t i = 0; given != NULL && i < given->count; i++) {
    if (name == NULL) {
      lls_list_push(render, rest, given->items[i]);
      continue;
    }
    lls_assign(render, name, given->items[i]);
    name = name->next;
  }
  if ((macro->specials & LLS_VARARGS) != 0)
    lls_scope_set(render, "varargs", lls_of_list(rest));
  else if (rest != NULL && rest->count > 0)
    lls_render_fail(render, node, "the macro \"%s\" was given too many arguments",
                    macro->value.text);
}

static const struct lls_node *parameter(const struct lls_node *macro,
                                        struct lls_value key)
{
  const struct lls_node *name = macro->names;
  while (name != NULL && !lls_text_is(key, name->value.text))
    name = name->next;
  return name;
}

/* Sets variables from keyword arguments; surplus ones become kwargs. */
static void bind_keywords(struct lls_render *render, const struct lls_node *node,
                          const struct lls_node *macro, const struct lls_dict *given)
{
  struct lls_dict *rest = lls_dict_new(render);
  const struct lls_entry *entry;
  uint32_t at = 0;
  while (given != NULL && (entry = lls_dict_next(given, &at)) != NULL) {
    const struct lls_node *name = parameter(macro, entry->key);
    bool caller =
        lls_text_is(entry->key, "caller") && (macro->specials & LLS_CALLER) != 0;
    if (name != NULL &&
        lls_dict_find(render, &render->scope->variables, entry->key) != NULL)
      lls_render_fail(render, node, "\"%s\" was given twice", name->value.text);
    else if (name != NULL)
      lls_assign(render, name, entry->value);
    else if (caller)
      lls_scope_set(render, "caller", entry->value);
    else
      lls_dict_set(render, rest, entry->key, entry->value);
  }
  if ((macro->specials & LLS_KWARGS) != 0)
    lls_scope_set(render, "kwargs", lls_of_dict(rest));
  else if (rest != NULL && rest->count > 0)
    lls_render_fail(render, node, "the macro \"%s\" was given a name it does not take",
                    macro->value.text);
}

/* Sets default values, which may use earlier parameters. */
static void bind_defaults(struct lls_render *render, const struct lls_node *macro)
{
  for (const struct lls_node *name = macro->names; name != NULL; name = name->next) {
    if (lls_dict_find(render, &render->scope->variables, name->value) != NULL)
      continue;
    struct lls_value value = {
        .kind = LLS_UNDEFINED, .length = name->value.length, .text = name->value.text};
    if (name->left != NULL)
      value = lls_evaluate(render, name->left);
    lls_assign(render, name, value);
  }
}

struct lls_value lls_macro_call(struct lls_render *render, const struct lls_node *node,
                                const struct lls_macro *macro,
                                const struct lls_list *positional,
                                const struct lls_dict *keywords)
{
  struct lls_scope *scope = render->scope;
  struct lls_value text = lls_undefined();
  if (!lls_render_charge(render, node, LLS_WORK_OF_LOOP))
    return text;
  lls_scope_push(render, macro->scope);
  if (render->code == 0) {
    bind_positional(render, node, macro->node, positional);
    bind_keywords(render, node, macro->node, keywords);
    bind_defaults(render, macro->node);
    text = lls_execute_to_text(render, macro->node->body);
  }
  render->scope = scope;
  return text;
}
