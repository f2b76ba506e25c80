/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section [lora]: besides the keys of its table, each key is the name of an adapter,
 * and its value the adapter's folder or file, and a scale. The configuration owns the
 * list; its names are those of the lines.
 */
#include "core/config/loading.h"

#include "core/base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char section[] = "lora";

static bool is_adapter(const struct lls_ini_entry *entry,
                       const struct lls_param_table *table)
{
  return entry->key != NULL && strcmp(entry->section, section) == 0 &&
         lls_param_find(table, entry->key) == NULL;
}

static void check_adapter(struct lls_loading *l, const struct lls_ini_entry *entry,
                          const char *path)
{
  if (strcmp(entry->key, l->config->server.served_model_name) == 0)
    lls_loading_error(l, entry->line, "[lora] %s: the model itself has this name",
                      entry->key);
  else if (access(path, R_OK) < 0)
    lls_loading_error(l, entry->line,
                      "[lora] %s: '%s' is not there, or may not be read; expected a "
                      "folder as PEFT saves it, or a .gguf file",
                      entry->key, path);
}

/* Joins a relative path to the file's folder, as for other paths. */
static char *path_of(const struct lls_loading *l, const char *value)
{
  return value[0] == '/' || l->folder == NULL ? strdup(value)
                                              : lls_path_join(l->folder, value);
}

/* Cuts ":SCALE", as llama.cpp's --lora-scaled has it, off a path that is not there with
 * it. Returns the scale, else 1. */
static float cut_scale(char *path)
{
  char *end, *colon = strrchr(path, ':');
  if (colon == NULL || colon[1] == '\0' || access(path, F_OK) == 0)
    return 1;
  float scale = strtof(colon + 1, &end);
  if (*end != '\0' || !isfinite(scale))
    return 1;
  *colon = '\0';
  return scale;
}

void lls_loading_lora(struct lls_loading *l, const struct lls_param_table *table)
{
  struct lls_lora_section *lora = &l->config->lora;
  const struct lls_ini *ini = &l->config->ini;
  size_t n = 0;
  for (size_t i = 0; i < ini->n; i++)
    n += is_adapter(&ini->entries[i], table);
  lora->adapters = n > 0 ? calloc(n, sizeof *lora->adapters) : NULL;
  if (n > 0 && lora->adapters == NULL) {
    lls_loading_error(l, 0, "no memory");
    return;
  }
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *entry = &ini->entries[i];
    if (!is_adapter(entry, table))
      continue;
    struct lls_named_adapter *one = &lora->adapters[lora->n];
    *one =
        (struct lls_named_adapter){.name = entry->key, .path = path_of(l, entry->value)};
    if (one->path != NULL)
      one->scale = cut_scale(one->path);
    if (one->path == NULL)
      lls_loading_error(l, 0, "no memory");
    else
      lora->n++;
  }
}

void lls_loading_check_lora(struct lls_loading *l)
{
  const struct lls_lora_section *lora = &l->config->lora;
  for (size_t i = 0; i < lora->n; i++) {
    const struct lls_named_adapter *one = &lora->adapters[i];
    check_adapter(l, lls_ini_find(&l->config->ini, section, one->name), one->path);
  }
}

void lls_lora_section_free(struct lls_lora_section *lora)
{
  for (size_t i = 0; i < lora->n; i++)
    free(lora->adapters[i].path);
  free(lora->adapters);
  *lora = (struct lls_lora_section){0};
}
