/* SPDX-License-Identifier: Apache-2.0 */
/* Variables: a for opens a scope, an if does not, as in Jinja. */
#include "core/template/state.h"

json_t *lls_scope_get(const struct lls_render *render, const char *name)
{
  for (size_t i = json_array_size(render->scopes); i-- > 0;) {
    json_t *value = json_object_get(json_array_get(render->scopes, i), name);
    if (value != NULL)
      return value == render->undefined ? NULL : value;
  }
  return NULL;
}

void lls_scope_set(struct lls_render *render, const char *name, json_t *value)
{
  json_t *scope = json_array_get(render->scopes, json_array_size(render->scopes) - 1);
  if (json_object_set(scope, name, value != NULL ? value : render->undefined) < 0)
    lls_render_made(render, NULL);
}

void lls_scope_push(struct lls_render *render)
{
  if (json_array_append_new(render->scopes, json_object()) < 0)
    lls_render_made(render, NULL);
}

void lls_scope_pop(struct lls_render *render)
{
  json_array_remove(render->scopes, json_array_size(render->scopes) - 1);
}
