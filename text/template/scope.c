/* SPDX-License-Identifier: Apache-2.0 */
/* Variables. As in Jinja, a for or a macro opens a scope; an if does not. */
#include "text/template/state.h"

#include <string.h>

struct lls_value lls_scope_get(struct lls_render *render, const char *name, size_t length)
{
  const struct lls_value key = lls_view(name, length);
  for (const struct lls_scope *scope = render->scope; scope != NULL;
       scope = scope->outer) {
    const struct lls_value *value = lls_dict_find(render, &scope->variables, key);
    if (value != NULL)
      return *value;
    if (!lls_render_charge(render, NULL, 1))
      break;
  }
  return (struct lls_value){
      .kind = LLS_UNDEFINED, .length = (uint32_t)length, .text = name};
}

void lls_scope_set(struct lls_render *render, const char *name, struct lls_value value)
{
  if (render->code == 0)
    lls_dict_set(render, &render->scope->variables, lls_view(name, strlen(name)), value);
}

void lls_scope_push(struct lls_render *render, struct lls_scope *outer)
{
  struct lls_scope *scope = lls_render_alloc(render, sizeof *scope);
  if (scope == NULL)
    return;
  *scope = (struct lls_scope){.outer = outer};
  render->scope = scope;
}
