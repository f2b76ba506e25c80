/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins of a configuration. The four chosen ones stay open with their parameters
 * bound; a section of another plugin is checked against that plugin too, so that in an
 * ini with settings for several policies all settings are valid.
 */
#include "core/config/loading.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t lls_section_kind(const char *section, const char **name)
{
  const char *dot = strchr(section, '.');
  if (dot == NULL)
    return 0;
  size_t length = (size_t)(dot - section);
  for (uint32_t kind = LLS_KIND_SCHEDULER; kind <= LLS_KIND_DRAFTER; kind++) {
    const char *kind_name = lls_plugin_kind_name(kind);
    if (strlen(kind_name) == length && strncmp(section, kind_name, length) == 0) {
      *name = dot + 1;
      return kind;
    }
  }
  return 0;
}

void lls_policy_close(struct lls_policy *policy)
{
  if (policy->params != NULL)
    lls_params_release(&policy->module->params, policy->params);
  free(policy->params);
  if (policy->module != NULL)
    lls_plugin_close(policy->module);
  *policy = (struct lls_policy){0};
}

/* Returns the digest that a plugin of this kind must have; "": any. */
static const char *pin_of(const struct lls_loading *l, uint32_t kind)
{
  const struct lls_plugins_config *p = &l->config->plugins;
  return kind == LLS_KIND_SCHEDULER ? p->scheduler_sha256
         : kind == LLS_KIND_CACHE   ? p->cache_sha256
         : kind == LLS_KIND_DRAFTER ? p->drafter_sha256
                                    : p->predictor_sha256;
}

/* Opens a plugin and binds the section [kind.id]; errors blame `line`. */
static void open_policy(struct lls_loading *l, uint32_t kind, const char *name,
                        unsigned line, struct lls_policy *out)
{
  const char *pin = pin_of(l, kind);
  struct lls_error err = {0};
  char section[128];
  *out = (struct lls_policy){0};
  int rc =
      lls_plugin_open_pinned(kind, name, l->serving ? LLS_IMAGE_TRIED : LLS_IMAGE_CHECKED,
                             pin, &out->module, &err);
  if (rc < 0) {
    lls_loading_error(l, line, "%s", err.text);
    return;
  }
  const struct lls_param_table *table = &out->module->params;
  /* + 1 because a plugin may have no parameters */
  void *params = calloc(1, table->size + 1);
  if (params == NULL || lls_params_default(table, l->folder, params, &err) < 0) {
    lls_loading_error(l, line, "plugin '%s': %s", name, lls_error_text(&err, -ENOMEM));
    free(params);
    return;
  }
  out->params = params;
  snprintf(section, sizeof section, "%s.%s", lls_plugin_kind_name(kind),
           out->module->descriptor->id);
  lls_loading_bind(l, section, table, params);
}

/* Returns false, with an error, for a plugin that a request may not name. */
static bool may_open(struct lls_loading *l, uint32_t kind, const char *name,
                     unsigned line)
{
  struct lls_error err = {0};
  if (line != LLS_INI_CHANGED || lls_changes_check_policy(kind, name, &err) == 0)
    return true;
  lls_loading_error(l, line, "[plugins] %s", err.text);
  return false;
}

/* Opens a chosen plugin. A path is relative to the ini's folder; a name is searched
 * for. */
static void open_chosen(struct lls_loading *l, uint32_t kind, const char *name,
                        struct lls_policy *out)
{
  unsigned line = lls_loading_line(l, "plugins", lls_plugin_kind_name(kind));
  if (!may_open(l, kind, name, line))
    return;
  char *path = lls_path_join(strchr(name, '/') != NULL ? l->folder : NULL, name);
  if (path != NULL)
    open_policy(l, kind, path, line, out);
  else
    lls_loading_error(l, line, "no memory");
  free(path);
}

static bool is_chosen(const struct lls_policy *policy, uint32_t kind, const char *name)
{
  const struct lls_plugin_module *module = policy->module;
  return module != NULL && module->descriptor->kind == kind &&
         strcmp(module->descriptor->id, name) == 0;
}

static void check_other_section(struct lls_loading *l, const struct lls_ini_entry *entry)
{
  const char *name;
  uint32_t kind = lls_section_kind(entry->section, &name);
  const struct lls_config *c = l->config;
  /* the section may be that plugin's, which failed to open */
  if (kind == 0 || pin_of(l, kind)[0] != '\0' ||
      LLS_OF_KIND(&c->policies, kind)->module == NULL ||
      is_chosen(LLS_OF_KIND(&c->policies, kind), kind, name) ||
      !may_open(l, kind, name, entry->line))
    return;
  struct lls_policy other;
  open_policy(l, kind, name, entry->line, &other);
  lls_policy_close(&other);
}

void lls_loading_policies(struct lls_loading *l)
{
  struct lls_config *c = l->config;
  open_chosen(l, LLS_KIND_SCHEDULER, c->plugins.scheduler, &c->policies.scheduler);
  open_chosen(l, LLS_KIND_CACHE, c->plugins.cache, &c->policies.cache);
  open_chosen(l, LLS_KIND_PREDICTOR, c->plugins.predictor, &c->policies.predictor);
  open_chosen(l, LLS_KIND_DRAFTER, c->plugins.drafter, &c->policies.drafter);
  for (size_t i = 0; i < c->ini.n; i++)
    if (c->ini.entries[i].key == NULL)
      check_other_section(l, &c->ini.entries[i]);
}
