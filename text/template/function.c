/* SPDX-License-Identifier: Apache-2.0 */
/* Finds callables, and binds arguments to their parameters; see function.h. */
#include "text/template/function.h"

#include <string.h>

const struct lls_function *lls_function_in(const struct lls_function *table,
                                           const char *name, size_t length)
{
  for (; table->name != NULL; table++)
    if (strlen(table->name) == length && memcmp(table->name, name, length) == 0)
      return table;
  return NULL;
}

const struct lls_function *lls_filter_find(const char *name, size_t length)
{
  const struct lls_function *const tables[] = {lls_text_filters, lls_list_filters,
                                               lls_order_filters, lls_value_filters};
  const struct lls_function *found = NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables && found == NULL; i++)
    found = lls_function_in(tables[i], name, length);
  return found;
}

const struct lls_function *lls_method_find(struct lls_value object, const char *name,
                                           size_t length)
{
  const struct lls_function *table = NULL;
  if (object.kind == LLS_STRING)
    table = lls_string_methods;
  else if (object.kind == LLS_DICT)
    table = lls_dict_methods;
  else if (object.kind == LLS_LOOP)
    table = lls_loop_methods;
  else if (lls_is_sequence(object))
    table = object.list->form == LLS_FORM_LIST ? lls_list_methods : lls_tuple_methods;
  return table != NULL ? lls_function_in(table, name, length) : NULL;
}

static bool bind_positional(struct lls_render *render, struct lls_call *call)
{
  const struct lls_function *function = call->function;
  uint32_t count = call->positional != NULL ? call->positional->count : 0;
  for (uint32_t i = 0; i < count; i++) {
    if (i >= LLS_PARAMETERS || function->parameters[i] == NULL) {
      lls_render_fail(render, call->node, "\"%s\" was given too many arguments",
                      function->name);
      return false;
    }
    call->arguments[i] = call->positional->items[i];
    call->given |= 1u << i;
  }
  return true;
}

static bool bind_keyword(struct lls_render *render, struct lls_call *call,
                         const struct lls_entry *entry)
{
  const struct lls_function *function = call->function;
  for (size_t i = 0; i < LLS_PARAMETERS && function->parameters[i] != NULL; i++) {
    if (!lls_text_is(entry->key, function->parameters[i]))
      continue;
    if (lls_given(call, i))
      lls_render_fail(render, call->node, "\"%s\" was given \"%s\" twice", function->name,
                      function->parameters[i]);
    call->arguments[i] = entry->value;
    call->given |= 1u << i;
    return render->code == 0;
  }
  lls_render_fail(render, call->node, "\"%s\" does not take the argument \"%.*s\"",
                  function->name, lls_is_string(entry->key) ? (int)entry->key.length : 1,
                  lls_is_string(entry->key) ? entry->key.text : "?");
  return false;
}

static bool bind(struct lls_render *render, struct lls_call *call)
{
  const struct lls_function *function = call->function;
  const struct lls_entry *entry;
  uint32_t at = 0;
  if (function->open)
    return true;
  if (!bind_positional(render, call))
    return false;
  while (call->keywords != NULL && (entry = lls_dict_next(call->keywords, &at)) != NULL)
    if (!bind_keyword(render, call, entry))
      return false;
  for (size_t i = 0; i < function->required; i++)
    if (!lls_given(call, i))
      lls_render_fail(render, call->node, "\"%s\" needs the argument \"%s\"",
                      function->name, function->parameters[i]);
  return render->code == 0;
}

struct lls_value lls_function_call(struct lls_render *render, const struct lls_node *node,
                                   const struct lls_function *function,
                                   struct lls_value subject,
                                   const struct lls_list *positional,
                                   const struct lls_dict *keywords)
{
  struct lls_call call = {.node = node,
                          .function = function,
                          .subject = subject,
                          .positional = positional,
                          .keywords = keywords};
  return bind(render, &call) ? function->body(render, &call) : lls_undefined();
}

int64_t lls_integer_argument(struct lls_render *render, const struct lls_call *call,
                             size_t number, int64_t otherwise)
{
  struct lls_value value = call->arguments[number];
  if (!lls_given(call, number))
    return otherwise;
  if (lls_is_integral(value))
    return lls_integer_of(value);
  lls_render_fail(render, call->node, "\"%s\" needs an integer for \"%s\", not %s",
                  call->function->name, call->function->parameters[number],
                  lls_type_name(value));
  return otherwise;
}

bool lls_string_argument(struct lls_render *render, const struct lls_call *call,
                         size_t number)
{
  if (lls_is_string(call->arguments[number]))
    return true;
  lls_render_fail(render, call->node, "\"%s\" needs a string for \"%s\", not %s",
                  call->function->name, call->function->parameters[number],
                  lls_type_name(call->arguments[number]));
  return false;
}
