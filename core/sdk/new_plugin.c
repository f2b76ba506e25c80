/* SPDX-License-Identifier: Apache-2.0 */
/* See new_plugin.h. */
#include "core/sdk/new_plugin.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/plugin/loader.h"
#include "core/sdk/templates.h" /* made from share/sdk */

struct template
{
  const char *name; /* file name; "example" is replaced in it as in the text */
  const char *text;
  mode_t mode;
};

#define N_FILES 4

struct names { /* words in a template, or their replacements */
  const char *kind, *name;
};

static void templates_of(const char *source, struct template out[N_FILES])
{
  out[0] = (struct template){"example.c", source, 0644};
  out[1] = (struct template){"Makefile", Makefile_example, 0644};
  out[2] = (struct template){"check.t", check_t, 0755};
  out[3] = (struct template){"example.ini", example_ini, 0644};
}

/* Returns where the demo model is; in an unpacked bundle, bundle-run sets the folder. */
static struct lls_installed data_folder(void)
{
  struct lls_installed out;
  const char *folder = getenv("LLS_DATA_PATH");
  if (folder == NULL || folder[0] == '\0')
    return lls_installed(LLS_DATA_DIR);
  snprintf(out.path, sizeof out.path, "%s", folder);
  return out;
}

/* Writes a text with the words replaced. */
static void write_text(FILE *out, const char *text, const struct names *names)
{
  const struct lls_installed data = data_folder();
  const struct {
    const char *word, *by;
  } words[] = {
      {"example", names->name},
      {"@KIND@", names->kind},
      {"@DATA@", data.path},
  };
  while (*text != '\0') {
    size_t i = 0, n = sizeof words / sizeof *words;
    while (i < n && strncmp(text, words[i].word, strlen(words[i].word)) != 0)
      i++;
    if (i < n) {
      fputs(words[i].by, out);
      text += strlen(words[i].word);
    } else {
      fputc(*text++, out);
    }
  }
}

static int file_path(char path[PATH_MAX], const struct template *t,
                     const struct names *names)
{
  FILE *out = fmemopen(path, PATH_MAX, "w");
  if (out == NULL)
    return -errno;
  fprintf(out, "%s/", names->name);
  write_text(out, t->name, names);
  fclose(out);
  return 0;
}

static int write_file(const struct template *t, const struct names *names,
                      struct lls_error *err)
{
  char path[PATH_MAX];
  int rc = file_path(path, t, names);
  FILE *out = rc == 0 ? fopen(path, "wx") : NULL;
  if (out == NULL)
    return lls_fail(err, rc < 0 ? rc : -errno, "%s: cannot be made: %s",
                    rc < 0 ? t->name : path, strerror(rc < 0 ? -rc : errno));
  write_text(out, t->text, names);
  bool failed = fchmod(fileno(out), t->mode) < 0 || ferror(out);
  if (fclose(out) != 0 || failed)
    return lls_fail(err, -EIO, "%s: cannot be written", path);
  return 0;
}

static void remove_files(const struct template *files, const struct names *names)
{
  char path[PATH_MAX];
  for (int i = 0; i < N_FILES; i++)
    if (file_path(path, &files[i], names) == 0)
      unlink(path);
  rmdir(names->name);
}

static bool is_name(const char *name)
{
  size_t length = strlen(name);
  if (length > LLS_PLUGIN_ID_MAX || !islower((unsigned char)name[0]))
    return false;
  return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

static const char *source_of(const char *kind)
{
  return strcmp(kind, "scheduler") == 0   ? scheduler_c
         : strcmp(kind, "cache") == 0     ? cache_c
         : strcmp(kind, "predictor") == 0 ? predictor_c
         : strcmp(kind, "drafter") == 0   ? drafter_c
                                          : NULL;
}

static uint32_t kind_number(const char *name)
{
  uint32_t kind = LLS_KIND_SCHEDULER;
  while (strcmp(lls_plugin_kind_name(kind), name) != 0)
    kind++;
  return kind;
}

int lls_new_plugin(const char *kind, const char *name, struct lls_error *err)
{
  struct names names = {kind, name};
  struct template files[N_FILES];
  const char *source = source_of(kind);
  char path[PATH_MAX];
  if (source == NULL)
    return lls_fail(
        err, -EINVAL,
        "--new-plugin: expected the kind scheduler, cache, predictor or drafter, "
        "found '%s'",
        kind);
  if (!is_name(name))
    return lls_fail(err, -EINVAL,
                    "--new-plugin: expected a name of [a-z][a-z0-9_-]*, at most %d "
                    "characters, found '%s'",
                    LLS_PLUGIN_ID_MAX, name);
  if (lls_plugin_find(kind_number(kind), name, path, NULL) == 0)
    return lls_fail(err, -EEXIST,
                    "--new-plugin: there is a %s '%s' already, %s: choose another name",
                    kind, name, path);
  if (mkdir(name, 0777) < 0)
    return lls_fail(err, -errno, "./%s: the folder cannot be made: %s", name,
                    strerror(errno));
  templates_of(source, files);
  int rc = 0;
  for (int i = 0; i < N_FILES && rc == 0; i++)
    rc = write_file(&files[i], &names, err);
  if (rc < 0)
    remove_files(files, &names);
  return rc;
}
