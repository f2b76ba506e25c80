/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which models are loaded: as many as [models] max_loaded and memory allow. The queue is
 * first come, first served, so that a large model is not passed over forever. If its head
 * does not fit, the idle model that was not used for longest ends; if none is idle for
 * PATIENCE_MS, one of them takes no new requests until it is.
 */
#include "core/routing/routing_internal.h"

#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "core/device/host_memory.h"
#include "core/params/params.h"

#define PATIENCE_MS 5000
#define SHORT_OF    50 /* memory is short below 1/SHORT_OF of it */

/* ---- sizes ------------------------------------------------------------------------- */

static bool is_weights(const char *file)
{
  static const char *const ends[] = {".safetensors", ".bin", ".gguf"};
  size_t length = strlen(file);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (length > strlen(ends[i]) && strcmp(file + length - strlen(ends[i]), ends[i]) == 0)
      return true;
  return false;
}

static size_t folder_bytes(const char *folder)
{
  size_t bytes = 0;
  DIR *dir = opendir(folder);
  struct stat st;
  char path[PATH_MAX];
  for (const struct dirent *file; dir != NULL && (file = readdir(dir)) != NULL;) {
    int n = snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
    if (is_weights(file->d_name) && (size_t)n < sizeof path && stat(path, &st) == 0)
      bytes += (size_t)st.st_size;
  }
  if (dir != NULL)
    closedir(dir);
  return bytes;
}

/* Returns the bytes of the model's files; 0 if there are none here yet. */
static size_t file_bytes(const struct lls_hosted *model)
{
  char *copy = strdup(model->routing->config->ini.path);
  char *path = lls_path_join(copy != NULL ? dirname(copy) : NULL, model->path);
  struct stat st;
  size_t bytes = 0;
  if (path != NULL && stat(path, &st) == 0)
    bytes = S_ISDIR(st.st_mode) ? folder_bytes(path) : (size_t)st.st_size;
  free(path);
  free(copy);
  return bytes;
}

/* Returns what a model takes that is not loaded. */
static size_t needs(const struct lls_hosted *model)
{
  if (model->own.memory != LLS_NEVER)
    return (size_t)model->own.memory;
  size_t files = file_bytes(model);
  return model->took_bytes > files ? model->took_bytes : files;
}

/* Returns what a model takes that is loaded, or is being loaded. */
static size_t takes(struct lls_hosted *model)
{
  if (model->own.memory != LLS_NEVER)
    return (size_t)model->own.memory;
  size_t now = lls_model_process_memory(model->process);
  if (model->state == LLS_HOSTED_LOADED)
    model->took_bytes = now;
  return model->state == LLS_HOSTED_LOADING && now < needs(model) ? needs(model) : now;
}

/* ---- room -------------------------------------------------------------------------- */

struct use {
  unsigned n, n_stopping; /* processes */
  size_t bytes;           /* of all */
  size_t coming;          /* of those that are being loaded, which they do not have yet */
};

static struct use look(struct lls_routing *routing)
{
  struct use use = {0};
  struct lls_hosted *model;
  LL_FOREACH (routing->models, model) {
    if (model->process == NULL)
      continue;
    size_t bytes = takes(model);
    use.n++;
    use.n_stopping += model->state == LLS_HOSTED_STOPPING;
    use.bytes += bytes;
    if (model->state == LLS_HOSTED_LOADING) {
      size_t now = lls_model_process_memory(model->process);
      use.coming += bytes > now ? bytes - now : 0;
    }
  }
  return use;
}

static bool fits(const struct lls_routing *routing, const struct lls_hosted *model,
                 const struct use *use)
{
  const struct lls_models_section *c = &routing->config->models;
  size_t total, available;
  if (use->n == 0)
    return true; /* its process says if it is too large */
  if (c->max_loaded > 0 && use->n >= (size_t)c->max_loaded)
    return false;
  if (c->memory != LLS_NEVER)
    return use->bytes + needs(model) <= (size_t)c->memory;
  return lls_host_memory_size(&total, &available) < 0 ||
         use->coming + needs(model) <= available;
}

static bool may_go(const struct lls_hosted *model)
{
  return model->state == LLS_HOSTED_LOADED && !model->own.pinned;
}

/* Returns the model that was not used for longest of those that may be unloaded; NULL:
 * there is none. */
static struct lls_hosted *oldest(struct lls_routing *routing, bool idle)
{
  struct lls_hosted *model, *found = NULL;
  LL_FOREACH (routing->models, model) {
    if (may_go(model) && model->probe == NULL && (!idle || model->n_active == 0) &&
        (found == NULL || model->used_ms < found->used_ms))
      found = model;
  }
  return found;
}

static bool is_any(const struct lls_routing *routing, bool yields)
{
  const struct lls_hosted *model;
  LL_FOREACH (routing->models, model) {
    if (yields ? model->yields : model->probe != NULL && may_go(model))
      return true;
  }
  return false;
}

/* Has a model end so that another one can be loaded, unless one is about to. */
static void unload_one(struct lls_routing *routing, const struct lls_hosted *waiting)
{
  struct lls_hosted *idle = oldest(routing, true);
  bool patient = uv_now(routing->options.uv) - waiting->queued_ms < PATIENCE_MS;
  if (is_any(routing, false)) /* it is being asked whether it still computes */
    return;
  if (idle != NULL)
    lls_hosted_unload_if_idle(idle, "another model needs its room");
  else if (!patient && !is_any(routing, true) && (idle = oldest(routing, false)) != NULL)
    idle->yields = true;
}

/* Returns the model that has waited longest for room. A model without a request that
 * waits for it leaves the queue. */
static struct lls_hosted *head_of_queue(struct lls_routing *routing)
{
  struct lls_hosted *model, *head = NULL;
  LL_FOREACH (routing->models, model) {
    if (model->state != LLS_HOSTED_QUEUED)
      continue;
    if (model->waiting == NULL && !model->wanted)
      model->state = LLS_HOSTED_UNLOADED;
    else if (head == NULL || model->queued_ms < head->queued_ms)
      head = model;
  }
  return head;
}

static void forget_yielding(struct lls_routing *routing)
{
  struct lls_hosted *model;
  LL_FOREACH (routing->models, model) {
    if (model->yields && model->state == LLS_HOSTED_LOADED) {
      model->yields = false;
      lls_relay_send_waiting(model);
    }
  }
}

void lls_routing_make_room(struct lls_routing *routing)
{
  struct lls_hosted *model;
  while ((model = head_of_queue(routing)) != NULL && !routing->draining) {
    struct use use = look(routing);
    if (fits(routing, model, &use)) {
      lls_hosted_load(model);
      continue;
    }
    if (use.n_stopping == 0)
      unload_one(routing, model);
    return;
  }
  forget_yielding(routing);
}

void lls_routing_watch_memory(struct lls_routing *routing)
{
  size_t total, available;
  struct lls_hosted *idle;
  if (routing->config->models.memory != LLS_NEVER ||
      lls_host_memory_size(&total, &available) < 0 || available > total / SHORT_OF ||
      is_any(routing, false) || (idle = oldest(routing, true)) == NULL)
    return;
  lls_hosted_unload_if_idle(idle, "the machine is short of memory");
}
