/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /admin/policies: the running policies with every parameter of their tables, and the
 * names of the policies that could replace them. The latter are not opened for the list,
 * because opening a plugin runs its code in a server at work.
 */
#include <string.h>

#include "core/api/api_internal.h"

static const char *type_name(uint32_t type)
{
  static const char *const names[] = {
      [LLS_TYPE_BOOL] = "bool",     [LLS_TYPE_INT] = "int",
      [LLS_TYPE_FLOAT] = "float",   [LLS_TYPE_STRING] = "string",
      [LLS_TYPE_PATH] = "path",     [LLS_TYPE_CHOICE] = "choice",
      [LLS_TYPE_DURATION] = "time", [LLS_TYPE_BYTES] = "bytes",
  };
  return type < sizeof names / sizeof names[0] && names[type] != NULL ? names[type]
                                                                      : "unknown";
}

static const char *source_of(const struct lls_ini_entry *entry)
{
  if (entry == NULL)
    return "default";
  if (entry->line == LLS_INI_CHANGED)
    return "request";
  return entry->line == LLS_INI_SET ? "command line" : "file";
}

/* `live`: a running policy accepts a new value of a reloadable parameter; otherwise the
 * policy is created again for it. */
static json_t *param_json(const struct lls_config *c, const char *section,
                          const struct lls_param *p, bool live)
{
  char expected[256];
  return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:s?, s:s, s:s?, s:b, s:b, s:b}",
                   "name", p->name, "type", type_name(p->type), "value",
                   lls_config_text(c, section, p), "default", p->default_value,
                   "expected", lls_param_expected(p, expected, sizeof expected),
                   "sentence", p->sentence, "unit", p->unit, "set_by",
                   source_of(lls_ini_find(&c->ini, section, p->name)), "choices",
                   p->type == LLS_TYPE_CHOICE ? p->choices : NULL, "live",
                   live && (p->flags & LLS_PARAM_RELOADABLE) != 0, "auto",
                   (p->flags & LLS_PARAM_AUTO) != 0, "experimental",
                   (p->flags & LLS_PARAM_EXPERIMENTAL) != 0);
}

static json_t *params_json(const struct lls_config *c, const char *section,
                           const struct lls_param_table *table, bool live)
{
  json_t *list = json_array();
  for (size_t i = 0; i < table->n; i++)
    json_array_append_new(list, param_json(c, section, &table->params[i], live));
  return list;
}

static int add_name(void *context, const char *name, const char *path)
{
  (void)path;
  json_array_append_new(context, json_string(name));
  return 0;
}

static json_t *found_json(uint32_t kind)
{
  json_t *names = json_array();
  lls_plugin_each(kind, add_name, names);
  return names;
}

static json_t *kind_json(const struct lls_config *c, uint32_t kind)
{
  const struct lls_plugin_module *m = LLS_OF_KIND(&c->policies, kind)->module;
  const struct lls_plugin *d = m->descriptor;
  bool live = lls_plugin_common(m).reconfigure != NULL;
  char section[2 * LLS_PLUGIN_ID_MAX];
  snprintf(section, sizeof section, "%s.%s", lls_plugin_kind_name(kind), d->id);
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", d->id, "version",
                   d->version, "description", d->description, "licence", d->licence,
                   "path", m->path, "section", section, "parameters",
                   params_json(c, section, &m->params, live), "found", found_json(kind));
}

/* Lists the parameters of [plugins], which has more than the names of the policies. */
static json_t *plugins_json(const struct lls_config *c)
{
  const struct lls_section *s = lls_sections;
  while (strcmp(s->name, "plugins") != 0)
    s++;
  return params_json(c, s->name, &s->table, true);
}

static json_t *changes_json(const struct lls_changes *changes)
{
  json_t *list = json_array();
  for (size_t i = 0; i < changes->n; i++)
    json_array_append_new(list, json_string(changes->list[i]));
  return list;
}

void lls_handle_admin_policies(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  const struct lls_admin_state *s = api->config.admin.state;
  struct lls_api_error error;
  if (s == NULL) {
    lls_api_fail(&error, 404, "not_found", NULL, "there is no daemon to ask");
    lls_api_error_reply(exchange, &error);
    return;
  }
  const struct lls_config *c = s->config;
  lls_api_reply_json(
      exchange, 200,
      json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "generation",
                (json_int_t)s->generation, "config", c->ini.path, "changes",
                changes_json(&c->changes), "plugins", plugins_json(c), "scheduler",
                kind_json(c, LLS_KIND_SCHEDULER), "cache", kind_json(c, LLS_KIND_CACHE),
                "predictor", kind_json(c, LLS_KIND_PREDICTOR), "drafter",
                kind_json(c, LLS_KIND_DRAFTER)));
}
