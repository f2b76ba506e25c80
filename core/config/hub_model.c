/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that [model] path names as at a hub, OWNER/NAME or OWNER/NAME:QUANT, instead
 * of by a path. A configuration only looks into the hub's cache; the server fetches a
 * model before it loads its configuration (core/serve/get_model.c).
 */
#include <config.h> /* not the one of this folder */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config/loading.h"
#include "core/hub/hub_cache.h"

#ifdef LLS_CURL
#define CAN_FETCH 1
#else
#define CAN_FETCH 0
#endif

/* Replaces a bound text by a copy of another. */
static void replace(struct lls_loading *l, const char **text, const char *by)
{
  char *copy = strdup(by);
  if (copy == NULL) {
    lls_loading_error(l, 0, "no memory");
    return;
  }
  free((char *)*text);
  *text = copy;
}

/* Returns where the running configuration has this model, if it has the same name: a
 * reload keeps the model, even if the cache has a newer commit or the sandbox forbids to
 * look. */
static const char *running_path(const struct lls_loading *l, const char *name)
{
  const struct lls_ini_entry *entry =
      l->running != NULL ? lls_ini_find(&l->running->ini, "model", "path") : NULL;
  return entry != NULL && entry->value != NULL && strcmp(entry->value, name) == 0
             ? l->running->model.path
             : NULL;
}

/* Says how the model can be had. */
static void advise(const struct lls_hub_name *n, const struct lls_error *why, char *text,
                   size_t size)
{
  if (CAN_FETCH)
    snprintf(text, size,
             ": as a model at Hugging Face: %s; a start of llmserve without "
             "--no-download and HF_HUB_OFFLINE fetches it",
             why->text);
  else if (n->quant[0] != '\0')
    snprintf(text, size,
             ": if that is a model at Hugging Face, download it first (hf download %s/%s "
             "--include '*%s*.gguf' --local-dir FOLDER) and name the .gguf file in the "
             "folder",
             n->owner, n->name, n->quant);
  else
    snprintf(text, size,
             ": if that is a model at Hugging Face, download it first (hf download %s/%s "
             "--local-dir FOLDER) and name the folder",
             n->owner, n->name);
}

bool lls_loading_hub_model(struct lls_loading *l, char *why, size_t size)
{
  struct lls_config *c = l->config;
  const struct lls_ini_entry *entry = lls_ini_find(&c->ini, "model", "path");
  struct lls_hub_places places;
  struct lls_hub_name name;
  struct lls_error err = {0};
  char path[PATH_MAX];
  if (entry == NULL || entry->value == NULL || !lls_hub_name_read(entry->value, &name) ||
      (access(c->model.path, F_OK) == 0 || errno != ENOENT))
    return true;
  const char *found = running_path(l, entry->value);
  if (found == NULL && lls_hub_places_read(&places, &err) == 0 &&
      lls_hub_find(&places, &name, path, &err) == 0)
    found = path;
  if (found == NULL) {
    advise(&name, &err, why, size);
    return false;
  }
  replace(l, &c->model.path, found);
  if (c->server.served_model_name[0] == '\0')
    replace(l, &c->server.served_model_name, entry->value);
  return true;
}
