/* SPDX-License-Identifier: Apache-2.0 */
/* Finds plugins: the folders of the search path, and the names in them. */
#include "core/base/installed.h"
#include "core/params/nearest.h"
#include "core/plugin/loader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *lls_plugin_kind_name(uint32_t kind)
{
  switch (kind) {
  case LLS_KIND_SCHEDULER:
    return "scheduler";
  case LLS_KIND_CACHE:
    return "cache";
  case LLS_KIND_PREDICTOR:
    return "predictor";
  case LLS_KIND_DRAFTER:
    return "drafter";
  default:
    return "unknown";
  }
}

/* Returns true in a service: systemd passes the process's id to a process that it
 * starts (systemd.exec(5)). */
static bool is_service(void)
{
  const char *pid = getenv("SYSTEMD_EXEC_PID");
  return pid != NULL && strtoll(pid, NULL, 10) == getpid();
}

char *lls_plugin_search_path(void)
{
  /* The variable is ignored in a program with more rights than its user, and in a
   * service, which has a configuration: plugins are code. */
  const char *first = is_service() ? NULL : secure_getenv("LLS_PLUGIN_PATH");
  struct lls_installed own = lls_installed(LLS_PLUGIN_DIR);
  if (first == NULL || first[0] == '\0')
    return strdup(own.path);
  char *path = NULL;
  return asprintf(&path, "%s:%s", first, own.path) < 0 ? NULL : path;
}

int lls_plugin_find_file(const char *file, char path[PATH_MAX])
{
  char *folders = lls_plugin_search_path(), *rest = folders;
  int rc = folders == NULL ? -ENOMEM : -ENOENT;
  for (char *folder; rc == -ENOENT && (folder = strsep(&rest, ":")) != NULL;)
    if (snprintf(path, PATH_MAX, "%s/%s", folder, file) < PATH_MAX &&
        access(path, R_OK) == 0)
      rc = 0;
  free(folders);
  return rc;
}

/* ---- listing ------------------------------------------------------------------ */

struct found {
  char *name, *path;
};

struct listing {
  uint32_t kind;
  size_t n;
  struct found *list; /* (n) */
  int rc;             /* -ENOMEM if an entry could not be added */
};

/* Returns "fcfs" for "scheduler_fcfs.so" of kind scheduler, malloc'ed; NULL if the file
 * is not a plugin of this kind. */
static char *name_of_file(uint32_t kind, const char *file)
{
  const char *prefix = lls_plugin_kind_name(kind);
  size_t length = strlen(prefix);
  const char *end = strrchr(file, '.');
  if (strncmp(file, prefix, length) != 0 || file[length] != '_' || end == NULL ||
      strcmp(end, ".so") != 0 || end <= file + length + 1)
    return NULL;
  return strndup(file + length + 1, (size_t)(end - file) - length - 1);
}

static bool is_listed(const struct listing *l, const char *name)
{
  for (size_t i = 0; i < l->n; i++)
    if (strcmp(l->list[i].name, name) == 0)
      return true;
  return false;
}

/* Takes over `name`. */
static void add_found(struct listing *l, const char *folder, const char *file, char *name)
{
  struct found found = {.name = name};
  struct found *grown = realloc(l->list, (l->n + 1) * sizeof *l->list);
  if (grown != NULL)
    l->list = grown;
  if (grown == NULL || asprintf(&found.path, "%s/%s", folder, file) < 0) {
    free(name);
    l->rc = -ENOMEM;
    return;
  }
  l->list[l->n++] = found;
}

static void list_folder(struct listing *l, const char *folder)
{
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return; /* the folder does not exist: other folders may have plugins, or finding one
               fails */
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    char *name = name_of_file(l->kind, entry->d_name);
    if (name == NULL || is_listed(l, name))
      free(name);
    else
      add_found(l, folder, entry->d_name, name);
  }
  closedir(dir);
}

static int by_name(const void *a, const void *b)
{
  const struct found *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static void list_all(struct listing *l)
{
  char *path = lls_plugin_search_path(), *rest = path;
  if (path == NULL)
    l->rc = -ENOMEM;
  for (char *folder; (folder = strsep(&rest, ":")) != NULL;)
    list_folder(l, folder);
  free(path);
  if (l->n > 0)
    qsort(l->list, l->n, sizeof *l->list, by_name);
}

int lls_plugin_each(uint32_t kind,
                    int (*visit)(void *context, const char *name, const char *path),
                    void *context)
{
  struct listing l = {.kind = kind};
  list_all(&l);
  int rc = l.rc;
  for (size_t i = 0; i < l.n && rc == 0; i++)
    rc = visit(context, l.list[i].name, l.list[i].path);
  for (size_t i = 0; i < l.n; i++) {
    free(l.list[i].name);
    free(l.list[i].path);
  }
  free(l.list);
  return rc;
}

/* ---- finding a name ----------------------------------------------------------- */

struct search {
  struct lls_nearest nearest;
  char *path; /* out */
};

static int compare_name(void *context, const char *name, const char *path)
{
  struct search *s = context;
  if (strcmp(name, s->nearest.word) != 0) {
    lls_nearest_offer(&s->nearest, name);
    return 0;
  }
  return snprintf(s->path, PATH_MAX, "%s", path) < PATH_MAX ? 1 : -ENAMETOOLONG;
}

/* Returns the kind that has a plugin with this name; 0 if none has. */
static uint32_t kind_of(const char *name)
{
  char path[PATH_MAX];
  for (uint32_t kind = LLS_KIND_SCHEDULER; kind <= LLS_KIND_DRAFTER; kind++) {
    struct search s = {.nearest = {.word = name}, .path = path};
    if (lls_plugin_each(kind, compare_name, &s) == 1)
      return kind;
  }
  return 0;
}

static int not_found(uint32_t kind, const struct search *s, struct lls_error *err)
{
  const char *name = s->nearest.word, *kind_name = lls_plugin_kind_name(kind);
  uint32_t other = kind_of(name);
  if (other != 0)
    return lls_fail(err, -ENOENT, "no %s '%s': that is a %s, for [plugins] %s", kind_name,
                    name, lls_plugin_kind_name(other), lls_plugin_kind_name(other));
  char *path = lls_plugin_search_path();
  char clause[LLS_NEAREST_CLAUSE];
  lls_nearest_clause(&s->nearest, "''", clause);
  lls_fail(err, -ENOENT, "no %s '%s': expected a file %s_%s.so in %s%s", kind_name, name,
           kind_name, name, path != NULL ? path : LLS_PLUGIN_DIR,
           clause[0] != '\0' ? clause : "; llmserve --list-plugins shows what is there");
  free(path);
  return -ENOENT;
}

int lls_plugin_find(uint32_t kind, const char *name, char path[PATH_MAX],
                    struct lls_error *err)
{
  struct search s = {.nearest = {.word = name}, .path = path};
  if (strchr(name, '/') != NULL) {
    if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
      return lls_fail(err, -ENAMETOOLONG, "%s: the path is too long", name);
    return 0;
  }
  int rc = lls_plugin_each(kind, compare_name, &s);
  if (rc == 0)
    return not_found(kind, &s, err);
  if (rc < 0)
    return lls_fail(err, rc, "cannot search for the %s '%s': %s",
                    lls_plugin_kind_name(kind), name, strerror(-rc));
  return 0;
}
