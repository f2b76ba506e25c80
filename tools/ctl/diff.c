/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the running configuration with a file: the values as written, with defaults
 * filled in. */
#include <stdio.h>
#include <string.h>

#include "core/config/config.h"
#include "tools/ctl/print.h"

/* Prints the keys of a section that differ; `live`: a reload can change at least one of
 * them. */
static int diff_section(const json_t *running, const struct lls_config *file,
                        const char *section, const struct lls_param_table *table,
                        bool live)
{
  const json_t *values = json_object_get(running, section);
  int n = 0;
  for (size_t i = 0; i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    const char *before = json_string_value(json_object_get(values, p->name));
    const char *after = lls_config_text(file, section, p);
    if (before != NULL && strcmp(before, after) == 0)
      continue;
    printf("[%s] %s: '%s' runs, the file says '%s'%s\n", section, p->name,
           before != NULL ? before : "(nothing)", after,
           live || (p->flags & LLS_PARAM_RELOADABLE) ? "" : ": needs a restart");
    n++;
  }
  return n;
}

static int diff_policy(const json_t *running, const struct lls_config *file,
                       const struct lls_policy *policy)
{
  char section[128];
  const struct lls_plugin *d = policy->module->descriptor;
  snprintf(section, sizeof section, "%s.%s", lls_plugin_kind_name(d->kind), d->id);
  return diff_section(running, file, section, &policy->module->params, true);
}

int ctl_diff(const json_t *running, const char *path)
{
  struct lls_config file;
  struct lls_config_errors errors = {0};
  int rc = lls_config_load(path, &file, &errors);
  for (size_t i = 0; i < errors.n; i++)
    fprintf(stderr, "%s\n", errors.list[i].error.text);
  lls_config_errors_free(&errors);
  if (rc < 0)
    return rc;
  int n = 0;
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    n += diff_section(running, &file, s->name, &s->table, false);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    n += diff_policy(running, &file, &file.policies.by_kind[i]);
  lls_config_free(&file);
  return n;
}
