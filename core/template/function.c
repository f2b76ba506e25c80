/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that stand alone: name(). */
#include "core/template/function.h"

#include "core/template/state.h"

#include <string.h>
#include <time.h>

const struct lls_function *lls_function_in(const struct lls_function *table,
                                           const char *name)
{
  for (; table->name != NULL; table++)
    if (strcmp(table->name, name) == 0)
      return table;
  return NULL;
}

/* How a template rejects messages; the sentence is for the client. */
static json_t *raise_exception(struct lls_render *render, const struct lls_call *call)
{
  const char *message = json_string_value(call->arguments[0]);
  return lls_render_fail(render, NULL, "%s",
                         message != NULL ? message : "not acceptable");
}

static json_t *make_dict(struct lls_render *render, const struct lls_call *call)
{
  return lls_render_check(render, call->node, json_incref(call->keywords));
}

static json_t *make_namespace(struct lls_render *render, const struct lls_call *call)
{
  json_t *made = make_dict(render, call);
  if (made != NULL && json_array_append(render->namespaces, made) < 0)
    lls_render_made(render, NULL);
  return made;
}

static json_t *make_range(struct lls_render *render, const struct lls_call *call)
{
  json_int_t bounds[3] = {0, 0, 1};
  for (int i = 0; i < 3; i++) {
    if (call->arguments[i] != NULL && !json_is_integer(call->arguments[i]))
      return lls_render_fail(render, call->node, "range needs integers");
    if (call->arguments[i] != NULL)
      bounds[i] = json_integer_value(call->arguments[i]);
  }
  if (call->arguments[1] == NULL) {
    bounds[1] = bounds[0];
    bounds[0] = 0;
  }
  if (bounds[2] == 0)
    return lls_render_fail(render, call->node, "range with step 0 is not possible");
  json_t *list = lls_render_made(render, json_array());
  for (json_int_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (!lls_render_charge(render, call->node, 1))
      break;
    json_array_append_new(list, json_integer(i));
    if (__builtin_add_overflow(i, bounds[2], &i))
      break;
  }
  return list;
}

static json_t *strftime_now(struct lls_render *render, const struct lls_call *call)
{
  const char *format = json_string_value(call->arguments[0]);
  char text[256];
  time_t now = (time_t)render->unix_time;
  struct tm local;
  if (format == NULL || localtime_r(&now, &local) == NULL)
    return lls_render_fail(render, call->node, "strftime_now needs a format");
  return lls_render_string(render, text, strftime(text, sizeof text, format, &local));
}

static const struct lls_function functions[] = {
    {.name = "dict", .body = make_dict, .open = true},
    {.name = "namespace", .body = make_namespace, .open = true},
    {.name = "raise_exception",
     .body = raise_exception,
     .required = 1,
     .parameters = {"message"}},
    {.name = "range",
     .body = make_range,
     .required = 1,
     .parameters = {"start", "stop", "step"}},
    {.name = "strftime_now",
     .body = strftime_now,
     .required = 1,
     .parameters = {"format"}},
    {.name = NULL},
};

const struct lls_function *lls_function_find(const char *name)
{
  return lls_function_in(functions, name);
}
