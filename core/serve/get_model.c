/* SPDX-License-Identifier: Apache-2.0 */
/* See get_model.h. */
#include "core/serve/get_model.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/progress_bar.h"
#include "core/config/config.h"
#include "core/hub/hub_cache.h"
#include "core/hub/hub_fetch.h"
#include "core/obs/notify.h"
#include "core/params/params.h"

#define MIB_SHIFT    20
#define NOTIFY_S     5
#define SETTING      "model.path="
#define ONLY         "models.only="
#define ORIGINAL     "models.copy_of="
#define EXTEND_START "EXTEND_TIMEOUT_USEC=60000000" /* of a service's start */

/* ---- the model's name -------------------------------------------------------------- */

static void ignore_line(void *context, unsigned line, const char *sentence)
{
  (void)context;
  (void)line;
  (void)sentence;
}

/* Returns the value of the last setting that begins with `name`, or NULL. */
static const char *find_setting(const char *name, const char *const *settings, size_t n)
{
  const char *found = NULL;
  for (size_t i = 0; i < n; i++)
    if (strncmp(settings[i], name, strlen(name)) == 0)
      found = settings[i] + strlen(name);
  return found;
}

/* Returns the folder of a file, malloc'ed, or NULL. */
static char *folder_of(const char *file)
{
  char *copy = strdup(file);
  char *folder = copy != NULL ? strdup(dirname(copy)) : NULL;
  free(copy);
  return folder;
}

/* Reads [model] path as loading will: the last setting, else the file; with [models] only
 * the path of that model. Returns a copy, or NULL. */
static char *read_path(const char *file, const char *const *settings, size_t n)
{
  struct lls_ini ini = {0};
  const char *found = find_setting(SETTING, settings, n);
  const char *only = find_setting(ONLY, settings, n);
  unsigned line;
  if (found != NULL || file == NULL)
    return found != NULL ? strdup(found) : NULL;
  if (lls_ini_read(file, ignore_line, NULL, &ini, NULL) < 0)
    return NULL;
  const struct lls_ini_entry *entry = lls_ini_find(&ini, "model", "path");
  const char *original = find_setting(ORIGINAL, settings, n);
  char *folder = only != NULL ? folder_of(original != NULL ? original : file) : NULL;
  char *copy = only != NULL ? lls_models_path(&ini, folder, only, &line)
               : entry != NULL && entry->value != NULL ? strdup(entry->value)
                                                       : NULL;
  free(folder);
  lls_ini_free(&ini);
  return copy;
}

/* Returns true if a file or folder has this path, relative to the file's folder. */
static bool is_path(const char *file, const char *path)
{
  char *folder = file != NULL ? folder_of(file) : NULL;
  char *full = lls_path_join(folder, path);
  bool is = full == NULL || access(full, F_OK) == 0 || errno != ENOENT;
  free(full);
  free(folder);
  return is;
}

/* ---- what is shown ----------------------------------------------------------------- */

struct shown {
  struct lls_progress bar;
  time_t notified_s;
};

static void show_progress(void *context, uint64_t done, uint64_t total)
{
  struct shown *s = context;
  time_t now_s = time(NULL);
  if (total == 0)
    return;
  lls_progress_count(&s->bar, (size_t)(done >> MIB_SHIFT), (size_t)(total >> MIB_SHIFT),
                     "MiB", NULL);
  if (now_s - s->notified_s < NOTIFY_S)
    return;
  s->notified_s = now_s;
  lls_notify("STATUS=fetching the model: %llu of %llu MiB\n" EXTEND_START,
             (unsigned long long)(done >> MIB_SHIFT),
             (unsigned long long)(total >> MIB_SHIFT));
}

static void say(void *context, const char *sentence)
{
  const struct shown *s = context;
  fprintf(stderr, "%sllmserve: %s\n", s->bar.terminal ? "\r\033[K" : "", sentence);
}

/* ---- the whole --------------------------------------------------------------------- */

/* Fetches the model; falls back to the cache. */
static int fetch(const struct lls_hub_places *places, const struct lls_hub_name *name,
                 const char *text, int *signal, struct lls_error *err)
{
  struct shown shown = {0};
  struct lls_error ignored;
  char path[PATH_MAX];
  const struct lls_hub_watch watch = {
      .progress = show_progress, .say = say, .context = &shown};
  lls_progress_begin(&shown.bar, true, "llmserve");
  int rc = lls_hub_fetch(places, name, &watch, signal, err);
  lls_progress_end(&shown.bar);
  if (rc == 0 || rc == -ECANCELED)
    return rc;
  if (lls_hub_find(places, name, path, &ignored) < 0)
    return lls_fail_at(err, rc, "[model] path: '%s', no file or folder here", text);
  fprintf(stderr, "llmserve: warning: %s: %s; it is served as the cache has it (%s)\n",
          text, err->text, places->cache);
  return 0;
}

int lls_get_model(const char *path, const char *const *settings, size_t n, int *signal,
                  struct lls_error *err)
{
  struct lls_hub_places places;
  struct lls_hub_name name;
  char *text = read_path(path, settings, n);
  const char *original = find_setting(ORIGINAL, settings, n);
  int rc = 0;
  *signal = 0;
  if (text != NULL && lls_hub_name_read(text, &name) &&
      !is_path(original != NULL ? original : path, text)) {
    rc = lls_hub_places_read(&places, err);
    if (rc == 0 && !places.offline)
      rc = fetch(&places, &name, text, signal, err);
  }
  free(text);
  return rc;
}
