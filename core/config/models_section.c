/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section [models]: besides the keys of its table, each key is the name of a model
 * and its value the model's path. A section [model.NAME] has settings of one model: the
 * keys of its own table, and SECTION.KEY for any other setting that this model has in
 * place of the file's.
 *
 * A server with [models] serves none itself: each model has a process of its own, which
 * reads the same file with the setting models.only=NAME (core/routing). There the model's
 * path and settings become entries of the usual sections, with their lines, so that the
 * rest of the loading knows nothing of [models].
 */
#include "core/config/loading.h"

#include "core/base/file.h"
#include "core/config/endpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char section[] = "models";
static const char prefix[] = "model.";

typedef struct lls_own_settings own;
static const struct lls_param own_params[] = {
    LLS_PARAM_STRING(own, path, "",
                     "the model's path, as of [model] path, unless [models] has it"),
    LLS_PARAM_BOOL(own, pinned, "false", "loaded at the start, and never unloaded"),
    LLS_PARAM_DURATION(own, unload_after, "auto", 0, 86400e9 * 365,
                       "as of [models], for this model", .flags = LLS_PARAM_AUTO),
    LLS_PARAM_BYTES(own, memory, "auto", 1, 1ll << 50,
                    "memory that the model takes; auto is the size of its files, and "
                    "once it was loaded what it took",
                    .flags = LLS_PARAM_AUTO),
};
const struct lls_param_table lls_own_table = {.params = own_params,
                                              .n = sizeof own_params / sizeof *own_params,
                                              .size = sizeof(struct lls_own_settings)};

/* ---- names and paths --------------------------------------------------------------- */

static bool is_named(const struct lls_ini_entry *entry,
                     const struct lls_param_table *table)
{
  return entry->key != NULL && strcmp(entry->section, section) == 0 &&
         lls_param_find(table, entry->key) == NULL;
}

/* Writes the section of a model's own settings. */
static void own_section(const char *name, char out[LLS_MODEL_NAME_MAX + sizeof prefix])
{
  snprintf(out, LLS_MODEL_NAME_MAX + sizeof prefix, "%s%s", prefix, name);
}

/* Returns the part of a file's name that is its model's name, 0 if it is no model: a
 * folder with config.json, or a .gguf file, of a split set the first. */
static size_t name_length(const char *folder, const char *file)
{
  static const char gguf[] = ".gguf";
  size_t length = strlen(file), end = sizeof gguf - 1;
  char *path = lls_path_join(folder, file);
  char *config = path != NULL ? lls_path_join(path, "config.json") : NULL;
  bool is_folder = config != NULL && access(config, R_OK) == 0;
  free(config);
  free(path);
  if (file[0] == '.' || length > LLS_MODEL_NAME_MAX)
    return 0;
  if (is_folder)
    return length;
  if (length <= end || strcmp(file + length - end, gguf) != 0 ||
      strncmp(file, "mmproj", strlen("mmproj")) == 0)
    return 0;
  length -= end;
  unsigned part, parts;
  const char *of = length > strlen("-00001-of-00002")
                       ? file + length - strlen("-00001-of-00002")
                       : NULL;
  if (of == NULL || sscanf(of, "-%5u-of-%5u.gguf", &part, &parts) != 2)
    return length;
  return part == 1 ? (size_t)(of - file) : 0;
}

/* Returns the path of a model of this name in [models] folder, malloc'ed, or NULL. */
static char *find_in_folder(const char *folder, const char *name)
{
  DIR *dir = opendir(folder);
  char *found = NULL;
  for (const struct dirent *file;
       dir != NULL && found == NULL && (file = readdir(dir)) != NULL;) {
    size_t length = name_length(folder, file->d_name);
    if (length == strlen(name) && strncmp(file->d_name, name, length) == 0)
      found = lls_path_join(folder, file->d_name);
  }
  if (dir != NULL)
    closedir(dir);
  return found;
}

char *lls_models_path(const struct lls_ini *ini, const char *folder, const char *name,
                      unsigned *line)
{
  char of_model[LLS_MODEL_NAME_MAX + sizeof prefix];
  const struct lls_ini_entry *entry = lls_ini_find(ini, section, name);
  own_section(name, of_model);
  if (entry == NULL)
    entry = lls_ini_find(ini, of_model, "path");
  if (entry != NULL) {
    *line = entry->line;
    return strdup(entry->value);
  }
  entry = lls_ini_find(ini, section, "folder");
  char *all = entry != NULL ? lls_path_join(folder, entry->value) : NULL;
  char *path = all != NULL ? find_in_folder(all, name) : NULL;
  *line = entry != NULL ? entry->line : 0;
  free(all);
  return path;
}

static const struct lls_section *find_section(const char *name)
{
  const struct lls_section *s = lls_sections;
  while (s->name != NULL && strcmp(s->name, name) != 0)
    s++;
  return s;
}

const char *lls_config_adapter_of(const struct lls_ini_entry *entry)
{
  static const char lora[] = "lora.";
  if (entry->key == NULL || !lls_section_is_model(entry->section) ||
      strncmp(entry->key, lora, sizeof lora - 1) != 0)
    return NULL;
  const char *name = entry->key + sizeof lora - 1;
  return lls_param_find(&find_section("lora")->table, name) == NULL ? name : NULL;
}

/* ---- the process of one model ------------------------------------------------------ */

static void set(struct lls_loading *l, unsigned line, const char *in, const char *key,
                const char *value)
{
  const struct lls_ini_entry *now = lls_ini_find(&l->config->ini, in, key);
  bool stronger = now != NULL && now->line >= LLS_INI_CHANGED;
  if (!stronger && lls_ini_set(&l->config->ini, line, in, key, value) < 0)
    lls_loading_error(l, 0, "no memory");
}

/* Divides SECTION.KEY at its last dot; the caller frees *in. Returns the key. */
static const char *divide(const char *setting, char **in)
{
  const char *dot = strrchr(setting, '.');
  *in = strndup(setting, (size_t)(dot - setting));
  return dot + 1;
}

static void set_own(struct lls_loading *l, const char *name)
{
  struct lls_ini *ini = &l->config->ini;
  char of_model[LLS_MODEL_NAME_MAX + sizeof prefix];
  own_section(name, of_model);
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry entry = ini->entries[i]; /* `set` may move the list */
    if (entry.key == NULL || strcmp(entry.section, of_model) != 0 ||
        !lls_key_is_setting(entry.key))
      continue;
    char *in;
    const char *key = divide(entry.key, &in);
    if (in != NULL)
      set(l, entry.line, in, key, entry.value);
    free(in);
  }
}

void lls_loading_one_model(struct lls_loading *l)
{
  struct lls_ini *ini = &l->config->ini;
  const struct lls_ini_entry *only = lls_ini_find(ini, section, "only");
  unsigned line;
  if (only == NULL || only->value[0] == '\0' || strlen(only->value) > LLS_MODEL_NAME_MAX)
    return;
  char *name = strdup(only->value);
  char *path = name != NULL ? lls_models_path(ini, l->folder, name, &line) : NULL;
  if (path != NULL) {
    set(l, line, "model", "path", path);
    set(l, line, "server", "served_model_name", name);
    set_own(l, name);
  } else {
    lls_loading_error(l, only->line, "[models] only: there is no model '%s'",
                      only->value);
  }
  free(path);
  free(name);
}

/* ---- the list ---------------------------------------------------------------------- */

static struct lls_served_model *find(struct lls_models_section *models, const char *name)
{
  for (size_t i = 0; i < models->n; i++)
    if (strcmp(models->list[i].name, name) == 0)
      return &models->list[i];
  return NULL;
}

/* Adds a model unless the list has its name; the path is copied. */
static void add(struct lls_loading *l, unsigned line, const char *name, size_t length,
                const char *path)
{
  struct lls_models_section *models = &l->config->models;
  char *copy = strndup(name, length);
  struct lls_served_model *list =
      realloc(models->list, (models->n + 1) * sizeof *models->list);
  models->list = list != NULL ? list : models->list;
  if (copy == NULL || list == NULL) {
    lls_loading_error(l, 0, "no memory");
    free(copy);
    return;
  }
  if (length == 0 || length > LLS_MODEL_NAME_MAX)
    lls_loading_error(l, line, "[models]: a name has 1 to %d characters; found '%.40s'",
                      LLS_MODEL_NAME_MAX, copy);
  if (find(models, copy) != NULL) {
    free(copy);
    return;
  }
  models->list[models->n++] =
      (struct lls_served_model){.name = copy, .path = strdup(path), .line = line};
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
  return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_folder(struct lls_loading *l)
{
  const char *folder = l->config->models.folder;
  unsigned line = lls_loading_line(l, section, "folder");
  struct dirent **files;
  if (folder[0] == '\0')
    return;
  int n = scandir(folder, &files, NULL, by_name);
  if (n < 0) {
    lls_loading_error(l, line, "[models] folder: cannot read '%s': %s", folder,
                      strerror(errno));
    return;
  }
  for (int i = 0; i < n; i++) {
    size_t length = name_length(folder, files[i]->d_name);
    char *path = length > 0 ? lls_path_join(folder, files[i]->d_name) : NULL;
    if (path != NULL)
      add(l, line, files[i]->d_name, length, path);
    free(path);
    free(files[i]);
  }
  free(files);
}

/* Adds the models of [models], then those that only have a section, then the folder's. */
static void add_all(struct lls_loading *l, const struct lls_param_table *table)
{
  const struct lls_ini *ini = &l->config->ini;
  for (size_t i = 0; i < ini->n; i++)
    if (is_named(&ini->entries[i], table))
      add(l, ini->entries[i].line, ini->entries[i].key, strlen(ini->entries[i].key),
          ini->entries[i].value);
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *entry = &ini->entries[i];
    if (entry->key != NULL && lls_section_is_model(entry->section) &&
        strcmp(entry->key, "path") == 0) {
      const char *name = entry->section + sizeof prefix - 1;
      add(l, entry->line, name, strlen(name), entry->value);
    }
  }
  add_folder(l);
}

/* ---- settings of one model --------------------------------------------------------- */

/* Keys that the server has for all of its models, or sets for each by itself. */
static bool is_shared(const char *in, const char *key)
{
  static const char *const keys[] = {
      "listen",        "api_keys",          "admin_keys",  "admin_socket",
      "state",         "state_database",    "state_files", "replica",
      "allowed_hosts", "served_model_name", "any_model",   "allowed_origins"};
  if (strcmp(in, "tls") == 0 || strcmp(in, section) == 0 || lls_section_is_model(in))
    return true;
  if (strcmp(in, "model") == 0)
    return strcmp(key, "path") == 0;
  for (size_t i = 0; strcmp(in, "server") == 0 && i < sizeof keys / sizeof *keys; i++)
    if (strcmp(key, keys[i]) == 0)
      return true;
  return false;
}

/* Checks a value by the table of its section. */
static void check_value(struct lls_loading *l, const struct lls_ini_entry *entry,
                        const struct lls_section *s, const char *key)
{
  const struct lls_param *p = lls_param_find(&s->table, key);
  struct lls_error err = {0};
  void *scratch = p != NULL ? calloc(1, s->table.size) : NULL;
  if (p == NULL && strcmp(s->name, "lora") != 0)
    lls_loading_error(l, entry->line, "[%s] %s: there is no key '%s' in [%s]",
                      entry->section, entry->key, key, s->name);
  if (scratch != NULL && lls_params_default(&s->table, l->folder, scratch, &err) == 0) {
    if (lls_param_bind(p, entry->value, l->folder, scratch, &err) < 0)
      lls_loading_error(l, entry->line, "[%s] %s: %s", entry->section, entry->key,
                        err.text);
    lls_params_release(&s->table, scratch);
  }
  free(scratch);
}

static void check_setting(struct lls_loading *l, const struct lls_ini_entry *entry)
{
  const char *name;
  char *in;
  const char *key = divide(entry->key, &in);
  if (in == NULL) {
    lls_loading_error(l, 0, "no memory");
    return;
  }
  const struct lls_section *s = find_section(in);
  if (is_shared(in, key))
    lls_loading_error(l, entry->line,
                      "[%s] %s: a model has no such setting of its own: write it in [%s]",
                      entry->section, entry->key, in);
  else if (s->name != NULL)
    check_value(l, entry, s, key);
  else if (lls_section_kind(in, &name) == 0)
    lls_loading_error(l, entry->line, "[%s] %s: there is no section [%s]", entry->section,
                      entry->key, in);
  free(in);
}

static void read_own(struct lls_loading *l, const struct lls_ini_entry *head)
{
  const char *name = head->section + sizeof prefix - 1;
  const struct lls_ini *ini = &l->config->ini;
  struct lls_served_model *model = find(&l->config->models, name);
  struct lls_own_settings unused = {0};
  struct lls_error err;
  if (model == NULL)
    lls_loading_error(l, head->line,
                      "[%s]: [models] has no model '%s'; give its path there, or here",
                      head->section, name);
  else if (lls_params_default(&lls_own_table, l->folder, &unused, &err) < 0)
    lls_loading_error(l, head->line, "[%s] %s", head->section, err.text);
  else {
    lls_loading_bind(l, head->section, &lls_own_table, &unused);
    free((char *)unused.path); /* the list has it */
    unused.path = NULL;
    model->own = unused;
  }
  for (size_t i = 0; i < ini->n; i++)
    if (ini->entries[i].key != NULL && lls_key_is_setting(ini->entries[i].key) &&
        strcmp(ini->entries[i].section, head->section) == 0)
      check_setting(l, &ini->entries[i]);
}

/* ---- sockets ----------------------------------------------------------------------- */

/* Returns a model's own entry of [server], or the file's; NULL: neither has one. */
static const struct lls_ini_entry *server_entry(const struct lls_ini *ini,
                                                const char *name, const char *key)
{
  char of_model[LLS_MODEL_NAME_MAX + sizeof prefix], setting[64];
  own_section(name, of_model);
  snprintf(setting, sizeof setting, "server.%s", key);
  const struct lls_ini_entry *entry = lls_ini_find(ini, of_model, setting);
  return entry != NULL ? entry : lls_ini_find(ini, "server", key);
}

static const char *const endpoint_keys[] = {"kv_events", "kv_events_replay"};
#define ENDPOINT_KEYS 2

/* Returns a model's entry of an endpoint; NULL: it has none. */
static const struct lls_ini_entry *endpoint_of(const struct lls_loading *l, size_t number)
{
  const char *name = l->config->models.list[number / ENDPOINT_KEYS].name;
  const struct lls_ini_entry *entry =
      server_entry(&l->config->ini, name, endpoint_keys[number % ENDPOINT_KEYS]);
  return entry != NULL && strstr(entry->value, "://") != NULL ? entry : NULL;
}

/* Says that an endpoint cannot be bound beside one that comes before it. */
static void refuse_endpoint(struct lls_loading *l, size_t number, size_t before)
{
  const struct lls_served_model *list = l->config->models.list;
  const struct lls_ini_entry *entry = endpoint_of(l, number);
  const char *other = endpoint_of(l, before)->value;
  const char *key = endpoint_keys[number % ENDPOINT_KEYS];
  const char *name = list[number / ENDPOINT_KEYS].name;
  bool alike = strcmp(other, entry->value) == 0;
  if (number / ENDPOINT_KEYS == before / ENDPOINT_KEYS)
    lls_loading_error(l, entry->line,
                      "[server] %s: the model '%s' cannot have %s beside its %s, %s", key,
                      name, entry->value, endpoint_keys[before % ENDPOINT_KEYS], other);
  else
    lls_loading_error(l, entry->line,
                      "[server] %s: the models '%s' and '%s' cannot both have %s%s%s: "
                      "write server.%s in [model.%s], or an empty one for none",
                      key, list[before / ENDPOINT_KEYS].name, name, entry->value,
                      alike ? "" : ", which is ", alike ? "" : other, key, name);
}

/* The process of each model binds its own endpoints: the second process of an endpoint
 * could not, and would end. */
static void check_endpoint(struct lls_loading *l, size_t number)
{
  const struct lls_ini_entry *entry = endpoint_of(l, number), *other;
  for (size_t i = 0; entry != NULL && i < number; i++) {
    other = endpoint_of(l, i);
    if (other != NULL && lls_endpoints_clash(other->value, entry->value)) {
      refuse_endpoint(l, number, i);
      return;
    }
  }
}

static void check_endpoints(struct lls_loading *l)
{
  for (size_t i = 0; i < l->config->models.n * ENDPOINT_KEYS; i++)
    check_endpoint(l, i);
}

/* ---- the whole --------------------------------------------------------------------- */

static void set_defaults(struct lls_models_section *models)
{
  for (size_t i = 0; i < models->n; i++)
    models->list[i].own =
        (struct lls_own_settings){.unload_after = LLS_NEVER, .memory = LLS_NEVER};
}

static void check_fallback(struct lls_loading *l)
{
  const struct lls_models_section *models = &l->config->models;
  if (models->fallback[0] != '\0' && find(&l->config->models, models->fallback) == NULL)
    lls_loading_error(l, lls_loading_line(l, section, "fallback"),
                      "[models] fallback: there is no model '%s'", models->fallback);
}

void lls_loading_models(struct lls_loading *l, const struct lls_param_table *table)
{
  const struct lls_ini *ini = &l->config->ini;
  struct lls_models_section *models = &l->config->models;
  if (models->only[0] != '\0')
    return;
  add_all(l, table);
  set_defaults(models);
  for (size_t i = 0; i < ini->n; i++)
    if (ini->entries[i].key == NULL && lls_section_is_model(ini->entries[i].section))
      read_own(l, &ini->entries[i]);
  for (size_t i = 0; i < models->n; i++)
    if (models->list[i].own.unload_after == LLS_NEVER)
      models->list[i].own.unload_after = models->unload_after;
  if (models->n == 0 && lls_ini_find(ini, section, NULL) != NULL &&
      l->config->model.path == NULL)
    lls_loading_error(l, lls_loading_line(l, section, NULL),
                      "[models] names no model: expected lines like NAME = PATH, or "
                      "folder = PATH with models in it; or one model, [model] path");
  if (models->n > 0 && lls_ini_find(ini, "model", "path") != NULL)
    lls_loading_error(l, lls_loading_line(l, "model", "path"),
                      "[model] path: there is [models]; name this model there, too");
  if (models->n > 0 && l->config->lora.n > 0)
    lls_loading_error(
        l, lls_loading_line(l, "lora", l->config->lora.adapters[0].name),
        "[lora] %s: an adapter is one model's: write it in [model.NAME], as "
        "lora.%s = PATH",
        l->config->lora.adapters[0].name, l->config->lora.adapters[0].name);
  check_fallback(l);
  check_endpoints(l);
}

void lls_models_section_free(struct lls_models_section *models)
{
  for (size_t i = 0; i < models->n; i++) {
    free(models->list[i].name);
    free(models->list[i].path);
  }
  free(models->list);
  models->list = NULL;
  models->n = 0;
}
