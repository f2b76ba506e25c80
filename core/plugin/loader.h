/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, opens and checks plugins in shared objects.
 *
 * A plugin NAME of a kind is the file <kind>_<name>.so in the first folder of the
 * search path that has it: LLS_PLUGIN_PATH (environment, separated by colons, for build
 * trees), then the folder of the installation. A name with a '/' is a path.
 *
 * A private copy of the file is opened (image.h): if the file was rebuilt in place and
 * is opened again, it is another plugin, next to the old code for instances that still
 * run it.
 *
 * No code of a plugin is called before every check has passed.
 */
#ifndef LLS_PLUGIN_LOADER_H
#define LLS_PLUGIN_LOADER_H

#include "core/base/error.h"
#include "core/params/params.h"
#include "core/plugin/image.h"

#include <llmserve/cache.h>
#include <llmserve/drafter.h>
#include <llmserve/plugin.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include <limits.h>
#include <stddef.h>

struct lls_plugin_module {
  const struct lls_plugin *descriptor; /* = &copy */
  struct lls_param_table params;       /* the plugin's parameter table */
  union { /* the vtable of the plugin's kind; callbacks that an older plugin lacks are
             NULL */
    struct lls_scheduler_vtable scheduler;
    struct lls_cache_vtable cache;
    struct lls_predictor_vtable predictor;
    struct lls_drafter_vtable drafter;
  };
  struct lls_param *param_copy; /* memory of params, or NULL */
  struct lls_plugin copy;       /* members that an older plugin lacks are NULL */
  char *path;                   /* path of the file it was read from */
  uintptr_t begin, end;         /* where its code and data are mapped */
  struct lls_image image;
};

/* Groups of layers that a cache manager keeps at most. */
static inline uint32_t lls_cache_groups(const struct lls_cache_vtable *cache)
{
  const struct lls_cache_caps *caps = cache->caps;
  bool windows = (caps->kinds >> LLS_GROUP_WINDOW & 1) != 0;
  return windows && caps->groups > 1 ? caps->groups : 1;
}

/* Does the manager keep groups of that enum lls_group_kind by their rule? */
static inline bool lls_cache_keeps(const struct lls_cache_vtable *cache, uint32_t kind)
{
  return (cache->caps->kinds >> kind & 1) != 0;
}

/* Does it make blocks in that enum lls_form? */
static inline bool lls_cache_makes(const struct lls_cache_vtable *cache, uint32_t form)
{
  return (cache->caps->forms >> form & 1) != 0;
}

#define LLS_PLUGIN_ID_MAX 32 /* characters of an id */
#define LLS_KIND_ANY      0  /* for opening by path: any kind */

/* Returns "scheduler", "cache", "predictor" or "drafter", for file names, sections and
 * messages. */
const char *lls_plugin_kind_name(uint32_t kind);

/* Returns the search path, such as "/build/.libs:/usr/lib/llmserve", malloc'ed. */
char *lls_plugin_search_path(void);

/* Finds a file in the first folder that has it. Returns -ENOENT if none has. */
int lls_plugin_find_file(const char *file, char path[PATH_MAX]);

/* Finds the plugin with this name. Returns -ENOENT, with the searched folders and the
 * most similar name in err. */
int lls_plugin_find(uint32_t kind, const char *name, char path[PATH_MAX],
                    struct lls_error *err);

/* Finds, opens and checks a plugin; `name` as in llmserve.ini. */
int lls_plugin_open(uint32_t kind, const char *name, struct lls_plugin_module **out,
                    struct lls_error *err);
/* Like lls_plugin_open, with the given care, for a file with this SHA-256 in
 * hexadecimal; "": any. */
int lls_plugin_open_pinned(uint32_t kind, const char *name, enum lls_image_care,
                           const char *sha256, struct lls_plugin_module **out,
                           struct lls_error *err);
/* Call it after the last object of the plugin was destroyed: it unloads the code. NULL
 * is allowed. */
void lls_plugin_close(struct lls_plugin_module *);

/* Calls `visit` for every plugin of a kind on the search path, by name; a name hidden
 * by an earlier folder is not repeated. Stops and returns what `visit` returns if that
 * is not 0. */
int lls_plugin_each(uint32_t kind,
                    int (*visit)(void *context, const char *name, const char *path),
                    void *context);

#endif
