/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration while it is being loaded; shared by the files of this folder. */
#ifndef LLS_CONFIG_LOADING_H
#define LLS_CONFIG_LOADING_H

#include <string.h>

#include "core/config/config.h"

struct lls_loading {
  struct lls_config *config;
  struct lls_config_errors *errors;
  const char *path; /* the file's path */
  /* the file as another process has read and packed it; NULL: read the file */
  struct lls_unpack *packed;
  const struct lls_config *running; /* for a reload; else NULL */
  char *folder; /* the file's folder, which its paths are relative to */
  bool failed;  /* there was an error */
  bool serving; /* the server runs: a plugin's crash would end requests */
};

/* ---- loading.c: no file of this folder is below it --------------------------------- */

/* Adds an error; line 0 = the file as a whole. */
void lls_loading_error(struct lls_loading *, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds an error whose sentence exists already. */
void lls_loading_add(struct lls_loading *, unsigned line, const struct lls_error *error);

/* Adds how many errors were left out, if any were. */
void lls_loading_end(struct lls_loading *);

/* Returns the line to blame for a key: its own, else its section's, else 0. */
unsigned lls_loading_line(const struct lls_loading *, const char *section,
                          const char *key);

/* Binds the entries of one section to a struct that has its defaults. */
void lls_loading_bind(struct lls_loading *, const char *section,
                      const struct lls_param_table *, void *values);

/* plugin_sections.c: opens the chosen plugins, binds their sections, and checks the
 * sections of other plugins. */
void lls_loading_policies(struct lls_loading *);
void lls_policy_close(struct lls_policy *);

/* Returns the kind of a plugin's section such as "scheduler.fcfs", with "fcfs" in
 * *name; 0 for any other section. */
uint32_t lls_section_kind(const char *section, const char **name);

/* tenant_sections.c: binds [tenant.NAME] by the table of [tenants], which must be bound
 * first. */
void lls_loading_tenants(struct lls_loading *, const struct lls_param_table *);
bool lls_section_is_tenant(const char *section);

/* lora_section.c: reads the adapters of [lora], whose table must be bound first; and
 * checks them, when the model's name is known. */
void lls_loading_lora(struct lls_loading *, const struct lls_param_table *table);
void lls_loading_check_lora(struct lls_loading *);
void lls_lora_section_free(struct lls_lora_section *);

/* models_section.c: turns the settings of [models] only and its model into entries of the
 * usual sections, before these are bound; and reads [models] and [model.NAME]. */
void lls_loading_one_model(struct lls_loading *);
void lls_loading_models(struct lls_loading *, const struct lls_param_table *table);
/* True for [model.NAME]. */
static inline bool lls_section_is_model(const char *section)
{
  static const char prefix[] = "model.";
  size_t length = sizeof prefix - 1;
  return strncmp(section, prefix, length) == 0 && section[length] != '\0';
}
/* True for a key SECTION.KEY in it. */
static inline bool lls_key_is_setting(const char *key)
{
  return strchr(key, '.') != NULL;
}
void lls_models_section_free(struct lls_models_section *);

/* hub_model.c: if [model] path is no path but the name of a model at a hub, sets it to
 * where the hub's cache has the model, and [server] served_model_name to the name.
 * Returns false, with the reason, if the cache does not have all of it; true in all
 * other cases. */
bool lls_loading_hub_model(struct lls_loading *, char *why, size_t size);

/* constraints.c: checks constraints on the core's own keys that a table can't express. */
void lls_loading_check(struct lls_loading *);

/* tenant_keys.c: the keys of [tenants] and [tenant.NAME] */
#define LLS_TENANTS_PARAMS 5
extern const struct lls_param lls_tenants_params[LLS_TENANTS_PARAMS];

#endif
