/* SPDX-License-Identifier: Apache-2.0 */
/* Records the inputs of a simulated run; see made_by.h. */
#include "tools/sim/made_by.h"

#include "core/model/gguf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cost/find.h"
#include "tools/sim/machine.h"
#include "tools/sweep/made_by.h"

static int add_file(json_t *object, const char *key, const char *path,
                    struct lls_error *err)
{
  json_t *file = lls_made_by_file(path, err);
  return file != NULL ? json_object_set_new(object, key, file) : -EIO;
}

static int add_profile(json_t *files, const char *key, const char *name,
                       struct lls_error *err)
{
  char *path = NULL;
  int rc = lls_find_profile(name, &path, err);
  if (rc == 0)
    rc = add_file(files, key, path, err);
  free(path);
  return rc;
}

/* Adds the files that a policy's parameters name, such as the lengths of predictor
 * `fixed`. A missing file is left to the policy to report. */
static int add_parameters(json_t *files, const struct lls_policy *policy,
                          struct lls_error *err)
{
  const struct lls_param_table *table = &policy->module->params;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    if (p->type != LLS_TYPE_PATH)
      continue;
    const char *path = *(const char *const *)((const char *)policy->params + p->offset);
    char key[128];
    snprintf(key, sizeof key, "%s.%s", policy->module->descriptor->id, p->name);
    if (path != NULL && path[0] != '\0' && access(path, R_OK) == 0)
      rc = add_file(files, key, path, err);
  }
  return rc;
}

static int add_policies(const struct lls_machine *m, json_t *made_by,
                        struct lls_error *err)
{
  json_t *plugins = json_object(), *files = json_object_get(made_by, "files");
  int rc = json_object_set_new(made_by, "plugins", plugins);
  for (uint32_t i = 0; rc == 0 && i < LLS_KINDS; i++) {
    const struct lls_policy *policy = &m->config.policies.by_kind[i];
    const struct lls_plugin_module *module = policy->module;
    rc = add_file(plugins, lls_plugin_kind_name(module->descriptor->kind), module->path,
                  err);
    if (rc == 0)
      rc = add_parameters(files, policy, err);
  }
  return rc;
}

int lls_sim_made_by(const struct lls_sim_tool_options *o, json_t *made_by,
                    struct lls_error *err)
{
  struct lls_machine m;
  char model[4096 + 16];
  json_t *files = json_object_get(made_by, "files");
  int rc = lls_machine_configure(&m, o, NULL, 1, err);
  if (rc < 0)
    return rc;
  rc = add_policies(&m, made_by, err);
  const char *path = m.config.model.path;
  snprintf(model, sizeof model, "%s%s", path, lls_is_gguf(path) ? "" : "/config.json");
  if (rc == 0)
    rc = add_file(files, "model", model, err);
  bool simulated = o->device == LLS_SIM_DEVICE_SIM;
  if (rc == 0 && simulated)
    rc = add_profile(files, "profile", o->profile, err);
  if (rc == 0 && simulated && strcmp(o->estimate, "same") != 0 &&
      strcmp(o->estimate, "none") != 0)
    rc = add_profile(files, "estimate", o->estimate, err);
  lls_machine_close(&m);
  return rc;
}
