/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the running configuration with a file: the values as written, with defaults
 * filled in. */
#include <stdio.h>
#include <string.h>

#include "core/config/config.h"
#include "tools/ctl/print.h"

/* Appends the keys of a section that differ; `live`: a reload can change at least one of
 * them. */
static void diff_section(const json_t *running, const struct lls_config *file,
                         const char *section, const struct lls_param_table *table,
                         bool live, json_t *list)
{
  const json_t *values = json_object_get(running, section);
  for (size_t i = 0; i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    const char *before = json_string_value(json_object_get(values, p->name));
    const char *after = lls_config_text(file, section, p);
    if (before != NULL && strcmp(before, after) == 0)
      continue;
    bool restart = !live && !(p->flags & LLS_PARAM_RELOADABLE);
    json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s, s:b}", "section",
                                          section, "key", p->name, "running", before,
                                          "file", after, "needs_restart", restart));
  }
}

static void diff_policy(const json_t *running, const struct lls_config *file,
                        const struct lls_policy *policy, json_t *list)
{
  char section[128];
  const struct lls_plugin *d = policy->module->descriptor;
  snprintf(section, sizeof section, "%s.%s", lls_plugin_kind_name(d->kind), d->id);
  diff_section(running, file, section, &policy->module->params, true, list);
}

int ctl_diff(const json_t *running, const char *path, json_t *list)
{
  struct lls_config file;
  struct lls_config_errors errors = {0};
  int rc = lls_config_load(path, &file, &errors);
  for (size_t i = 0; i < errors.n; i++)
    fprintf(stderr, "%s\n", errors.list[i].error.text);
  lls_config_errors_free(&errors);
  if (rc < 0)
    return rc;
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    diff_section(running, &file, s->name, &s->table, false, list);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    diff_policy(running, &file, &file.policies.by_kind[i], list);
  lls_config_free(&file);
  return (int)json_array_size(list);
}

void ctl_print_diff(const json_t *list)
{
  size_t i;
  const json_t *item;
  if (json_array_size(list) == 0)
    puts("no differences");
  json_array_foreach(list, i, item)
  {
    const char *before = json_string_value(json_object_get(item, "running"));
    printf("[%s] %s: '%s' runs, the file says '%s'%s\n",
           json_string_value(json_object_get(item, "section")),
           json_string_value(json_object_get(item, "key")),
           before != NULL ? before : "(nothing)",
           json_string_value(json_object_get(item, "file")),
           json_is_true(json_object_get(item, "needs_restart")) ? ": needs a restart"
                                                                : "");
  }
}
