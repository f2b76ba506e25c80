/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared code of loading a configuration: collects errors, each at the line to blame,
 * and binds one section's entries to a struct; see loading.h.
 */
#include "core/config/loading.h"

#include "core/config/changes.h"
#include "core/params/nearest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------ */

/* Orders errors by line. Line 0 sorts last; equal lines stay in the order they came. */
static bool comes_before(unsigned a, unsigned b)
{
  return a != 0 && (b == 0 || a < b);
}

void lls_loading_add(struct lls_loading *l, unsigned line, const struct lls_error *error)
{
  struct lls_config_errors *errors = l->errors;
  struct lls_config_error *list =
      realloc(errors->list, (errors->n + 1) * sizeof *errors->list);
  if (list == NULL)
    return; /* one error less is reported; loading fails in any case */
  size_t at = errors->n++;
  for (; at > 0 && comes_before(line, list[at - 1].line); at--)
    list[at] = list[at - 1];
  list[at].line = line;
  list[at].error = *error;
  errors->list = list;
}

static bool is_full(const struct lls_loading *l)
{
  return l->errors->n >= LLS_CONFIG_MAX_ERRORS;
}

/* Returns a hint at a habit from other formats (a # comment, quotation marks) that here
 * is part of the value; it is often the only mistake in a line. */
static const char *habit_of(const struct lls_ini *ini, unsigned line)
{
  for (size_t i = 0; i < ini->n; i++) {
    const char *value = ini->entries[i].value;
    if (ini->entries[i].line != line || value == NULL)
      continue;
    if (strstr(value, " #") != NULL || strstr(value, "\t#") != NULL)
      return " (behind a value a comment begins with ;)";
    if (value[0] == '"' || value[0] == '\'')
      return " (values stand without quotation marks)";
  }
  return "";
}

/* Writes the FILE:LINE that an error message is about. */
static const char *place_of(const char *path, unsigned line, char *text, size_t size)
{
  if (line == LLS_INI_SET)
    return "command line";
  if (line == LLS_INI_CHANGED)
    return "request";
  if (line == 0)
    return path;
  snprintf(text, size, "%s:%u", path, line);
  return text;
}

void lls_loading_error(struct lls_loading *l, unsigned line, const char *format, ...)
{
  l->failed = true;
  if (is_full(l)) {
    l->errors->n_left_out++;
    return;
  }
  struct lls_error err = {0};
  va_list args;
  va_start(args, format);
  vsnprintf(err.text, sizeof err.text, format, args);
  va_end(args);
  size_t length = strlen(err.text);
  snprintf(err.text + length, sizeof err.text - length, "%s",
           habit_of(&l->config->ini, line));
  char place[LLS_ERROR_MAX];
  lls_fail_at(&err, -EINVAL, "%s", place_of(l->path, line, place, sizeof place));
  lls_loading_add(l, line, &err);
}

void lls_loading_end(struct lls_loading *l)
{
  struct lls_error err;
  if (l->errors->n_left_out == 0)
    return;
  lls_fail(&err, 0, "%s: and %zu more errors", l->path, l->errors->n_left_out);
  lls_loading_add(l, 0, &err);
}

void lls_config_errors_free(struct lls_config_errors *errors)
{
  free(errors->list);
  *errors = (struct lls_config_errors){0};
}

/* ---- lines ------------------------------------------------------------------------- */

static unsigned line_of(const struct lls_ini *ini, const char *section, const char *key)
{
  const struct lls_ini_entry *entry =
      key != NULL ? lls_ini_find(ini, section, key) : NULL;
  if (entry == NULL)
    entry = lls_ini_find(ini, section, NULL);
  return entry != NULL ? entry->line : 0;
}

unsigned lls_loading_line(const struct lls_loading *l, const char *section,
                          const char *key)
{
  return line_of(&l->config->ini, section, key);
}

int lls_config_fail(const struct lls_config *config, struct lls_error *err, int code,
                    const char *section, const char *key, const char *format, ...)
{
  struct lls_error reason = {0};
  va_list args;
  va_start(args, format);
  vsnprintf(reason.text, sizeof reason.text, format, args);
  va_end(args);
  char place[LLS_ERROR_MAX];
  unsigned line = line_of(&config->ini, section, key);
  return lls_fail(err, code, "%s: [%s] %s%s%s",
                  place_of(config->ini.path, line, place, sizeof place), section,
                  key != NULL ? key : "", key != NULL ? ": " : "", reason.text);
}

const char *lls_config_text(const struct lls_config *config, const char *section,
                            const struct lls_param *p)
{
  const struct lls_ini_entry *entry = lls_ini_find(&config->ini, section, p->name);
  if (entry != NULL)
    return entry->value;
  return p->default_value != NULL ? p->default_value : "";
}

/* ---- binding ----------------------------------------------------------------------- */

/* Returns the core's section that has this key, or NULL. */
static const char *home_of(const char *key)
{
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    if (lls_param_find(&s->table, key) != NULL)
      return s->name;
  return NULL;
}

static void unknown_key(struct lls_loading *l, const struct lls_ini_entry *entry,
                        const struct lls_param_table *table)
{
  struct lls_nearest nearest = {.word = entry->key};
  char clause[LLS_NEAREST_CLAUSE];
  const char *home = home_of(entry->key);
  for (size_t i = 0; i < table->n && !is_full(l); i++)
    lls_nearest_offer(&nearest, table->params[i].name);
  if (table->n == 0)
    lls_loading_error(l, entry->line, "[%s] has no keys; found '%s'", entry->section,
                      entry->key);
  else if (strpbrk(entry->key, " \t") != NULL)
    lls_loading_error(l, entry->line,
                      "unknown key '%s' in [%s]: a line is key = value, and no key has "
                      "a blank",
                      entry->key, entry->section);
  else if (home != NULL)
    lls_loading_error(l, entry->line, "unknown key '%s' in [%s]: it is one of [%s]",
                      entry->key, entry->section, home);
  else
    lls_loading_error(l, entry->line, "unknown key '%s' in [%s]%s", entry->key,
                      entry->section, lls_nearest_clause(&nearest, "''", clause));
}

/* True where [models] says what is served, instead of [model]. */
static bool has_models(const struct lls_loading *l, const char *section)
{
  return strcmp(section, "model") == 0 &&
         lls_ini_find(&l->config->ini, "models", NULL) != NULL;
}

static void check_required(struct lls_loading *l, const char *section,
                           const struct lls_param_table *table)
{
  if (has_models(l, section))
    return;
  for (size_t i = 0; i < table->n; i++) {
    const struct lls_param *p = &table->params[i];
    if ((p->flags & LLS_PARAM_REQUIRED) &&
        lls_ini_find(&l->config->ini, section, p->name) == NULL)
      lls_loading_error(l, lls_loading_line(l, section, NULL),
                        "[%s] needs the key '%s': %s", section, p->name, p->sentence);
  }
}

/* True if a key that the section's table lacks is a name (lora_section.c), or a model's
 * setting (models_section.c). */
static bool is_name(const char *section, const char *key)
{
  return strcmp(section, "lora") == 0 || strcmp(section, "models") == 0 ||
         (lls_section_is_model(section) && lls_key_is_setting(key));
}

void lls_loading_bind(struct lls_loading *l, const char *section,
                      const struct lls_param_table *table, void *values)
{
  const struct lls_ini *ini = &l->config->ini;
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *entry = &ini->entries[i];
    if (entry->key == NULL || strcmp(entry->section, section) != 0)
      continue;
    const struct lls_param *p = lls_param_find(table, entry->key);
    struct lls_error err = {0};
    if (p == NULL && is_name(section, entry->key))
      continue;
    if (p == NULL)
      unknown_key(l, entry, table);
    else if (entry->line == LLS_INI_CHANGED && p->type == LLS_TYPE_PATH)
      lls_loading_error(l, entry->line, "[%s] %s: a request may set no path", section,
                        entry->key);
    else if (entry->line == LLS_INI_CHANGED && lls_changes_starts_programs(section))
      lls_loading_error(l, entry->line,
                        "[%s] %s: this policy starts a program; set it in the file",
                        section, entry->key);
    else if (lls_param_bind(p, entry->value, l->folder, values, &err) < 0)
      lls_loading_error(l, entry->line, "[%s] %s: %s", section, entry->key, err.text);
  }
  check_required(l, section, table);
}
