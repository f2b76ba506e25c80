/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin file and its parameters, as tests and benchmarks write them. */
#ifndef LLS_T_POLICY_H
#define LLS_T_POLICY_H

#include "core/plugin/loader.h"

#include <errno.h>
#include <stdlib.h>

struct harness_policy {
  const char *name;              /* name as in llmserve.ini */
  const char *const *parameters; /* "key", "value", ..., NULL; or NULL */
};

/* The value of `parameters`: POLICY_PARAMETERS("key", "value", ...). */
#define POLICY_PARAMETERS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct harness_loaded {
  struct lls_plugin_module *module;
  void *params;
};

static inline int policy_load(uint32_t kind, const struct harness_policy *policy,
                              struct harness_loaded *out, struct lls_error *err)
{
  int rc = lls_plugin_open(kind, policy->name, &out->module, err);
  if (rc < 0)
    return rc;
  const struct lls_param_table *table = &out->module->params;
  out->params = calloc(1, table->size + 1);
  rc = out->params != NULL ? lls_params_default(table, NULL, out->params, err) : -ENOMEM;
  const char *const *p = policy->parameters;
  for (; rc == 0 && p != NULL && p[0] != NULL; p += 2) {
    const struct lls_param *param = lls_param_find(table, p[0]);
    rc = param != NULL
             ? lls_param_bind(param, p[1], NULL, out->params, err)
             : lls_fail(err, -EINVAL, "%s has no parameter %s", policy->name, p[0]);
  }
  return rc;
}

static inline void policy_unload(struct harness_loaded *l)
{
  if (l->params != NULL)
    lls_params_release(&l->module->params, l->params);
  free(l->params);
  lls_plugin_close(l->module);
}

#endif
