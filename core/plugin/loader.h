/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins as shared objects: found, opened, checked.
 *
 * A plugin NAME of a kind is the file <kind>_<name>.so in the first folder of the search
 * path that has it: LLS_PLUGIN_PATH (environment, colon list, for build trees), then the
 * folder of the installation. A name with a '/' is a path.
 *
 * What is opened is a private copy (image.h): a file rebuilt in place is another plugin
 * when it is opened again, beside the old code for those that still run it.
 *
 * Nothing of a plugin is called before every check has passed.
 */
#ifndef LLS_PLUGIN_LOADER_H
#define LLS_PLUGIN_LOADER_H

#include "core/base/error.h"
#include "core/params/params.h"
#include "core/plugin/image.h"

#include <llmserve/cache.h>
#include <llmserve/plugin.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include <limits.h>

struct lls_plugin_module {
  const struct lls_plugin *descriptor; /* the copy below */
  struct lls_param_table params;       /* its parameter table */
  union { /* of its kind; what an older plugin doesn't have is NULL */
    struct lls_scheduler_vtable scheduler;
    struct lls_cache_vtable cache;
    struct lls_predictor_vtable predictor;
  };
  struct lls_param *param_copy; /* of params, or NULL */
  struct lls_plugin copy;       /* what an older plugin does not have is NULL here too */
  char *path;                   /* of the file it was read from */
  uintptr_t begin, end;         /* where its code and data are mapped */
  struct lls_image image;
};

#define LLS_PLUGIN_ID_MAX 32 /* characters of an id */
#define LLS_KIND_ANY      0  /* to open: of whatever kind the file at a path is */

/* "scheduler", "cache", "predictor": of file names, sections and messages. */
const char *lls_plugin_kind_name(uint32_t kind);

/* The folders of the search path, "/build/.libs:/usr/lib/llmserve", malloc'ed. */
char *lls_plugin_search_path(void);

/* Path of a file in the first of them that has it; -ENOENT. */
int lls_plugin_find_file(const char *file, char path[PATH_MAX]);

/* Path of the plugin called `name`; -ENOENT says where it was looked for, and names the
 * nearest one there is. */
int lls_plugin_find(uint32_t kind, const char *name, char path[PATH_MAX],
                    struct lls_error *err);

/* Finds, opens and checks; `name` as in llmserve.ini. */
int lls_plugin_open(uint32_t kind, const char *name, struct lls_plugin_module **out,
                    struct lls_error *err);
/* The same for a server at work, which has something to lose: what would crash in the
 * dynamic linker, or in constructors, is found out by a process of its own (trial.h). */
int lls_plugin_open_tried(uint32_t kind, const char *name, struct lls_plugin_module **out,
                          struct lls_error *err);
/* The same, with either care, of a file with this SHA-256 in hexadecimal; "": any. */
int lls_plugin_open_pinned(uint32_t kind, const char *name, enum lls_image_care,
                           const char *sha256, struct lls_plugin_module **out,
                           struct lls_error *err);
/* After the last destroy of anything it created: its code is gone afterwards. NULL is
 * fine. */
void lls_plugin_close(struct lls_plugin_module *);

/* Every plugin of a kind on the search path, by name; a name hidden by an earlier folder
 * is not repeated. Stops and returns what `visit` returns if that is not 0. */
int lls_plugin_each(uint32_t kind,
                    int (*visit)(void *context, const char *name, const char *path),
                    void *context);

#endif
