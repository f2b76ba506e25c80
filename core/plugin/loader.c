/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a plugin. Each check makes it safe to read the next item: the symbol, the
 * descriptor's version and size, its members, the parameter table, the vtable.
 */
#include "core/plugin/loader.h"

#include "core/plugin/callbacks.h"
#include "core/plugin/crash.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the descriptor ----------------------------------------------------------- */

/* Copies the descriptor into the module; members that an older plugin lacks are 0. */
static int read_descriptor(struct lls_plugin_module *m, struct lls_error *err)
{
  const size_t version_1_size = LLS_SIZE_UP_TO(struct lls_plugin, vtable);
  const struct lls_plugin *found = dlsym(m->image.handle, LLS_PLUGIN_SYMBOL);
  if (found == NULL)
    return lls_fail(err, -EPROTO,
                    "expected the symbol " LLS_PLUGIN_SYMBOL
                    ", found none: is this a plugin of llmserve?");
  int rc = lls_struct_check("struct lls_plugin", version_1_size, sizeof *found,
                            (const uint32_t *)found, err);
  if (rc < 0)
    return rc;
  memcpy(&m->copy, found, found->size);
  m->descriptor = &m->copy;
  return 0;
}

static bool is_id(const char *id)
{
  if (!islower((unsigned char)*id))
    return false;
  for (; *id != '\0'; id++)
    if (!islower((unsigned char)*id) && !isdigit((unsigned char)*id) && *id != '_' &&
        *id != '-')
      return false;
  return true;
}

static int check_texts(const struct lls_plugin *d, struct lls_error *err)
{
  const struct {
    const char *name, *text;
  } texts[] = {
      {"id", d->id},
      {"version", d->version},
      {"description", d->description},
      {"licence", d->licence},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].text == NULL || texts[i].text[0] == '\0')
      return lls_fail(err, -EPROTO, "%s: expected a text, found %s", texts[i].name,
                      texts[i].text == NULL ? "NULL" : "an empty one");
  return 0;
}

/* Checks id and kind. `name`: how it was requested; a file requested by path may have
 * any id. */
static int check_identity(const struct lls_plugin *d, uint32_t kind, const char *name,
                          struct lls_error *err)
{
  if (kind == LLS_KIND_ANY &&
      (d->kind < LLS_KIND_SCHEDULER || d->kind > LLS_KIND_DRAFTER))
    return lls_fail(err, -EPROTO, "kind: expected %d to %d, found %u", LLS_KIND_SCHEDULER,
                    LLS_KIND_DRAFTER, d->kind);
  if (kind != LLS_KIND_ANY && d->kind != kind)
    return lls_fail(err, -EPROTO, "kind: expected %s (%u), found %s (%u)",
                    lls_plugin_kind_name(kind), kind, lls_plugin_kind_name(d->kind),
                    d->kind);
  int rc = check_texts(d, err);
  if (rc < 0)
    return rc;
  if (!is_id(d->id) || strlen(d->id) > LLS_PLUGIN_ID_MAX)
    return lls_fail(err, -EPROTO,
                    "id: expected [a-z][a-z0-9_-]* of at most %d characters, found '%s'",
                    LLS_PLUGIN_ID_MAX, d->id);
  if (strchr(name, '/') == NULL && strcmp(d->id, name) != 0)
    return lls_fail(err, -EPROTO, "id: expected '%s' as in the file's name, found '%s'",
                    name, d->id);
  return 0;
}

/* ---- opening ------------------------------------------------------------------ */

static int read_vtable(struct lls_plugin_module *m, struct lls_error *err)
{
  const void *vtable = m->descriptor->vtable;
  int rc;
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    return lls_vtable_read(&lls_scheduler_rules, vtable, &m->scheduler, err);
  case LLS_KIND_CACHE:
    rc = lls_vtable_read(&lls_cache_rules, vtable, &m->cache, err);
    return rc < 0 ? rc : lls_caps_check(m->cache.caps, err);
  case LLS_KIND_DRAFTER:
    return lls_vtable_read(&lls_drafter_rules, vtable, &m->drafter, err);
  default:
    return lls_vtable_read(&lls_predictor_rules, vtable, &m->predictor, err);
  }
}

/* Copies the parameter table to entries of this core's size; members that an older
 * plugin lacks are 0. */
static int read_params(struct lls_plugin_module *m, struct lls_error *err)
{
  const size_t version_1_size = LLS_SIZE_UP_TO(struct lls_param, flags);
  const struct lls_plugin *d = m->descriptor;
  m->params = (struct lls_param_table){.n = d->n_params, .size = d->params_size};
  if (d->n_params == 0 || d->params == NULL)
    return lls_param_table_check(&m->params, err);
  if (d->param_size < version_1_size || d->param_size > sizeof *d->params ||
      d->param_size % _Alignof(struct lls_param) != 0)
    return lls_fail(
        err, -EPROTO,
        "param_size: expected %zu to %zu, the size of struct lls_param, found "
        "%u: write LLS_PLUGIN_PARAMS(table, struct)",
        version_1_size, sizeof *d->params, d->param_size);
  m->param_copy = calloc(d->n_params, sizeof *m->param_copy);
  if (m->param_copy == NULL)
    return lls_fail(err, -ENOMEM, "n_params: no memory for %u parameters", d->n_params);
  for (uint32_t i = 0; i < d->n_params; i++)
    memcpy(&m->param_copy[i], (const char *)d->params + (size_t)i * d->param_size,
           d->param_size);
  m->params.params = m->param_copy;
  return lls_param_table_check(&m->params, err);
}

static int check(struct lls_plugin_module *m, uint32_t kind, const char *name,
                 struct lls_error *err)
{
  int rc = read_descriptor(m, err);
  if (rc == 0)
    rc = check_identity(m->descriptor, kind, name, err);
  if (rc < 0)
    return rc;
  rc = read_params(m, err);
  return rc < 0 ? rc : read_vtable(m, err);
}

int lls_plugin_open_pinned(uint32_t kind, const char *name, enum lls_image_care care,
                           const char *sha256, struct lls_plugin_module **out,
                           struct lls_error *err)
{
  char path[PATH_MAX];
  int rc = lls_plugin_find(kind, name, path, err);
  if (rc < 0)
    return rc;
  struct lls_plugin_module *m = calloc(1, sizeof *m);
  if (m == NULL || (m->path = strdup(path)) == NULL) {
    rc = lls_fail(err, -ENOMEM, "%s: no memory", path);
    goto fail_alloc;
  }
  rc = lls_image_open(path, care, sha256, &m->image, err);
  if (rc < 0)
    goto fail_alloc;
  rc = check(m, kind, name, err);
  if (rc < 0) {
    lls_fail_at(err, rc, "%s", path);
    goto fail_check;
  }
  lls_crash_add(m);
  *out = m;
  return 0;

fail_check:
  free(m->param_copy);
  lls_image_close(&m->image);
fail_alloc:
  if (m != NULL)
    free(m->path);
  free(m);
  return rc;
}

int lls_plugin_open(uint32_t kind, const char *name, struct lls_plugin_module **out,
                    struct lls_error *err)
{
  return lls_plugin_open_pinned(kind, name, LLS_IMAGE_CHECKED, "", out, err);
}

void lls_plugin_close(struct lls_plugin_module *m)
{
  if (m == NULL)
    return;
  lls_crash_remove(m);
  free(m->param_copy);
  lls_image_close(&m->image);
  free(m->path);
  free(m);
}
