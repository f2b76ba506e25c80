/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a configuration: lines, then the core's sections, then the plugins'. Errors are
 * collected to the end, so that one run shows all of them.
 */
#include "core/config/config.h"

#include "core/config/loading.h"
#include "core/params/nearest.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ------------------------------------------------------------------------- */

static void complain_of_line(void *context, unsigned line, const char *sentence)
{
  lls_loading_error(context, line, "%s", sentence);
}

static const struct lls_section *find_section(const char *name)
{
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    if (strcmp(s->name, name) == 0)
      return s;
  return NULL;
}

static void check_section(struct lls_loading *l, const struct lls_ini_entry *entry)
{
  const char *name;
  const struct lls_ini_entry *first = lls_ini_find(&l->config->ini, entry->section, NULL);
  if (first != entry)
    lls_loading_error(l, entry->line,
                      "[%s] began in line %u already: write its keys there",
                      entry->section, first->line);
  if (find_section(entry->section) != NULL ||
      lls_section_kind(entry->section, &name) != 0 ||
      lls_section_is_tenant(entry->section) || lls_section_is_model(entry->section))
    return;
  struct lls_nearest nearest = {.word = entry->section};
  char clause[LLS_NEAREST_CLAUSE];
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    lls_nearest_offer(&nearest, s->name);
  lls_loading_error(
      l, entry->line,
      "unknown section [%s]: expected [server], [tls], [model], [engine], [cluster], "
      "[cache], [plugins], [lora], [models], a model's, like [model.NAME], [tenants], a "
      "tenant's, "
      "like [tenant.NAME], or a plugin's, like [scheduler.NAME]%s",
      entry->section, lls_nearest_clause(&nearest, "[]", clause));
}

/* Makes the checks that need no table: every section is known, no key is set twice. */
static void check_entries(struct lls_loading *l)
{
  const struct lls_ini *ini = &l->config->ini;
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *entry = &ini->entries[i];
    if (entry->key == NULL) {
      check_section(l, entry);
      continue;
    }
    if (entry->section[0] == '\0')
      lls_loading_error(l, entry->line,
                        "'%s' stands before the first section: expected a line like "
                        "[server] above it",
                        entry->key);
    const struct lls_ini_entry *first = lls_ini_find(ini, entry->section, entry->key);
    if (first != entry)
      lls_loading_error(l, entry->line, "'%s' is set in line %u already", entry->key,
                        first->line);
  }
}

/* ---- binding ----------------------------------------------------------------------- */

static void *section_values(struct lls_config *config, const struct lls_section *s)
{
  return (char *)config + s->offset;
}

static int bind_sections(struct lls_loading *l)
{
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++) {
    struct lls_error err = {0};
    void *values = section_values(l->config, s);
    int rc = lls_params_default(&s->table, l->folder, values, &err);
    if (rc < 0) {
      lls_loading_error(l, 0, "[%s] %s", s->name, err.text);
      return rc;
    }
    lls_loading_bind(l, s->name, &s->table, values);
  }
  lls_loading_tenants(l, &find_section("tenants")->table);
  lls_loading_lora(l, &find_section("lora")->table);
  lls_loading_models(l, &find_section("models")->table);
  return 0;
}

/* ---- loading ----------------------------------------------------------------------- */

static char *folder_of(const char *path)
{
  char *copy = strdup(path);
  char *folder = copy != NULL ? strdup(dirname(copy)) : NULL;
  free(copy);
  return folder;
}

/* Applies a setting such as "scheduler.sarathi.chunk=256": the section ends at the last
 * dot before the '='. */
static void apply_setting(struct lls_loading *l, unsigned line, const char *setting)
{
  size_t name = strcspn(setting, "="), dot = name;
  while (dot > 0 && setting[dot] != '.')
    dot--;
  if (setting[name] == '\0' || dot == 0 || dot + 1 == name) {
    lls_loading_error(l, line, "%s'%s': expected SECTION.KEY=VALUE",
                      line == LLS_INI_SET ? "--set " : "", setting);
    return;
  }
  char *section = strndup(setting, dot);
  char *key = strndup(setting + dot + 1, name - dot - 1);
  if (section == NULL || key == NULL ||
      lls_ini_set(&l->config->ini, line, section, key, setting + name + 1) < 0)
    lls_loading_error(l, 0, "no memory");
  free(section);
  free(key);
}

static int read_lines(struct lls_loading *l, struct lls_error *err)
{
  struct lls_ini *ini = &l->config->ini;
  if (l->packed != NULL) {
    int rc = lls_ini_unpack(l->packed, ini);
    l->path = ini->path;
    return rc < 0 ? lls_fail(err, rc, "the configuration that came: %s", strerror(-rc))
                  : 0;
  }
  if (l->path != NULL)
    return lls_ini_read(l->path, complain_of_line, l, ini, err);
  l->path = "command line";
  ini->path = strdup(l->path);
  return ini->path != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory");
}

/* True if requests may set this key, which belongs to a policy's section or names a
 * policy. */
static bool may_change(const char *change)
{
  static const char plugins[] = "plugins.";
  const char *name;
  return strncmp(change, plugins, sizeof plugins - 1) == 0 ||
         lls_section_kind(change, &name) != 0;
}

static void apply_changes(struct lls_loading *l, const struct lls_changes *changes)
{
  if (lls_changes_add(&l->config->changes, changes) < 0)
    lls_loading_error(l, 0, "no memory");
  for (size_t i = 0; i < changes->n; i++)
    if (may_change(changes->list[i]))
      apply_setting(l, LLS_INI_CHANGED, changes->list[i]);
    else
      lls_loading_error(l, LLS_INI_CHANGED,
                        "'%s': a request may set [plugins] and the sections of plugins; "
                        "set other keys in the file",
                        changes->list[i]);
}

/* Appends the addresses of later lines to the first one's value, before settings of the
 * command line replace it. */
static void join_listen(struct lls_loading *l)
{
  struct lls_ini *ini = &l->config->ini;
  struct lls_ini_entry *first =
      (struct lls_ini_entry *)lls_ini_find(ini, "server", "listen");
  char *joined;
  for (size_t i = 0; first != NULL && i < ini->n; i++) {
    struct lls_ini_entry *entry = &ini->entries[i];
    if (entry <= first || entry->key == NULL || strcmp(entry->section, "server") != 0 ||
        strcmp(entry->key, "listen") != 0)
      continue;
    if (asprintf(&joined, "%s, %s", first->value, entry->value) < 0) {
      lls_loading_error(l, 0, "no memory");
      return;
    }
    free(first->value);
    first->value = joined;
    lls_ini_remove(ini, i--);
  }
}

/* If the file is a copy, takes the path of the original for it. */
static void find_original(struct lls_loading *l)
{
  struct lls_ini *ini = &l->config->ini;
  const struct lls_ini_entry *entry = lls_ini_find(ini, "models", "copy_of");
  char *path = entry != NULL && entry->value[0] != '\0' ? strdup(entry->value) : NULL;
  if (path == NULL)
    return;
  l->config->copy = ini->path;
  l->path = ini->path = path;
}

static int load(struct lls_loading *l, const char *const *settings, size_t n,
                const struct lls_changes *changes)
{
  struct lls_error err = {0};
  *l->config = (struct lls_config){
      .settings = settings, .n_settings = n, .has_file = l->path != NULL};
  int rc = read_lines(l, &err);
  if (rc < 0) {
    lls_loading_add(l, 0, &err);
    return rc;
  }
  join_listen(l);
  for (size_t i = 0; i < n; i++)
    apply_setting(l, LLS_INI_SET, settings[i]);
  find_original(l);
  l->folder = folder_of(l->path);
  if (l->folder == NULL)
    lls_loading_error(l, 0, "no memory");
  apply_changes(l, changes);
  lls_loading_one_model(l);
  check_entries(l);
  if (bind_sections(l) == 0) {
    lls_loading_check(l);
    lls_loading_policies(l);
  }
  free(l->folder);
  if (!l->failed)
    return 0;
  lls_loading_end(l);
  lls_config_free(l->config);
  return -EINVAL;
}

int lls_config_load_with(const char *path, const char *const *settings, size_t n,
                         struct lls_config *config, struct lls_config_errors *errors)
{
  struct lls_loading l = {.config = config, .errors = errors, .path = path};
  return load(&l, settings, n, &(struct lls_changes){0});
}

int lls_config_load(const char *path, struct lls_config *config,
                    struct lls_config_errors *errors)
{
  return lls_config_load_with(path, NULL, 0, config, errors);
}

/* Returns the file that the configuration was read from, or NULL. */
static const char *path_of(const struct lls_config *running)
{
  return running->copy != NULL ? running->copy
         : running->has_file   ? running->ini.path
                               : NULL;
}

int lls_config_reload(const struct lls_config *running, const struct lls_changes *changes,
                      struct lls_config *config, struct lls_config_errors *errors)
{
  struct lls_loading l = {.config = config,
                          .errors = errors,
                          .path = path_of(running),
                          .running = running,
                          .serving = true};
  return load(&l, running->settings, running->n_settings, changes);
}

int lls_config_unpack(const struct lls_config *running, struct lls_unpack *packed,
                      struct lls_config *config, struct lls_config_errors *errors)
{
  struct lls_loading l = {.config = config,
                          .errors = errors,
                          .packed = packed,
                          .running = running,
                          .serving = true};
  const struct lls_changes none = {0};
  int rc = load(&l, NULL, 0, &none);
  if (rc == 0) { /* for a later reload in this process */
    config->settings = running->settings;
    config->n_settings = running->n_settings;
    config->has_file = running->has_file;
  }
  return rc;
}

bool lls_config_lacks_predictions(const struct lls_config *c)
{
  return c->policies.scheduler.module->scheduler.on_prediction != NULL &&
         strcmp(c->policies.predictor.module->descriptor->id, "none") == 0;
}

void lls_config_free(struct lls_config *config)
{
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    lls_policy_close(&config->policies.by_kind[i]);
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    lls_params_release(&s->table, section_values(config, s));
  free(config->overrides);
  lls_lora_section_free(&config->lora);
  lls_models_section_free(&config->models);
  lls_ini_free(&config->ini);
  free(config->copy);
  lls_changes_free(&config->changes);
}
