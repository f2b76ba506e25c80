/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_cache.h. */
#include "core/hub/hub_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hub/hub_choice.h"

#define COMMIT_MAX 128
#define DEEPEST    3 /* folders below the snapshot's */

struct files {
  struct lls_hub_file *list; /* (n) */
  size_t n;
};

static void free_files(struct files *f)
{
  for (size_t i = 0; i < f->n; i++)
    free(f->list[i].name);
  free(f->list);
}

static int add_file(struct files *f, const char *name)
{
  struct lls_hub_file *list = realloc(f->list, (f->n + 1) * sizeof *list);
  if (list == NULL)
    return -ENOMEM;
  f->list = list;
  list[f->n] = (struct lls_hub_file){.name = strdup(name)};
  return list[f->n].name != NULL ? (f->n++, 0) : -ENOMEM;
}

/* Adds the files below snapshot/under, without links that lead nowhere. */
static int list_files(const char *snapshot, const char *under, unsigned depth,
                      struct files *f)
{
  char path[PATH_MAX], name[PATH_MAX];
  struct stat st;
  int rc = 0;
  snprintf(path, sizeof path, "%s/%s", snapshot, under);
  DIR *dir = opendir(path);
  if (dir == NULL)
    return -errno;
  for (const struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
    if (e->d_name[0] == '.')
      continue;
    snprintf(name, sizeof name, "%.*s%s%.255s", PATH_MAX / 2, under,
             under[0] != '\0' ? "/" : "", e->d_name);
    if (fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
      continue;
    if (S_ISREG(st.st_mode))
      rc = add_file(f, name);
    else if (S_ISDIR(st.st_mode) && depth < DEEPEST)
      rc = list_files(snapshot, name, depth + 1, f);
  }
  closedir(dir);
  return rc;
}

/* Reads refs/main. */
static int read_commit(const char *folder, char commit[COMMIT_MAX])
{
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/refs/main", folder) >= (int)sizeof path)
    return -ENAMETOOLONG;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return -errno;
  ssize_t n = read(fd, commit, COMMIT_MAX - 1);
  close(fd);
  commit[n > 0 ? n : 0] = '\0';
  commit[strspn(commit, "0123456789abcdef")] = '\0';
  return commit[0] != '\0' ? 0 : -EINVAL;
}

/* Chooses the files of the model in a snapshot; -ENOENT if one is missing. */
static int choose(const char *snapshot, struct files *f, const char *quant,
                  struct lls_hub_choice *choice, struct lls_error *err)
{
  char index[PATH_MAX];
  int rc = list_files(snapshot, "", 0, f);
  if (rc < 0)
    return lls_fail(err, rc, "%s cannot be read: %s", snapshot, strerror(-rc));
  rc = lls_hub_choose(f->list, f->n, sizeof *f->list, quant, choice, err);
  if (rc < 0 || choice->index == NULL)
    return rc;
  if (snprintf(index, sizeof index, "%s/%s", snapshot, choice->index) >=
      (int)sizeof index)
    return lls_fail(err, -ENAMETOOLONG, "%s: its path is too long", choice->index);
  return lls_hub_choose_weights(f->list, f->n, sizeof *f->list, index, err);
}

int lls_hub_find(const struct lls_hub_places *p, const struct lls_hub_name *name,
                 char path[PATH_MAX], struct lls_error *err)
{
  char folder[PATH_MAX], snapshot[PATH_MAX], commit[COMMIT_MAX];
  struct files f = {0};
  struct lls_hub_choice choice;
  lls_hub_folder(p, name, folder);
  int rc = read_commit(folder, commit);
  if (rc < 0)
    return lls_fail(err, rc, "the hub's cache (%s) does not have it", p->cache);
  if (snprintf(snapshot, sizeof snapshot, "%s/snapshots/%s", folder, commit) >=
      (int)sizeof snapshot)
    return lls_fail(err, -ENAMETOOLONG, "the path of the hub's cache is too long");
  rc = choose(snapshot, &f, name->quant, &choice, err);
  if (rc < 0)
    lls_fail_at(err, rc, "the hub's cache (%s) does not have all of it", p->cache);
  else if (snprintf(path, PATH_MAX, "%s%s%s", snapshot, choice.gguf != NULL ? "/" : "",
                    choice.gguf != NULL ? choice.gguf : "") >= PATH_MAX)
    rc = lls_fail(err, -ENAMETOOLONG, "the path of the hub's cache is too long");
  free_files(&f);
  return rc;
}
