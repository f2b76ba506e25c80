/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances as processes that are started one by one: by hand, by systemd, by
 * Kubernetes. The front end, process 0, listens for them; each of the others joins it and
 * gets the number of a free instance. From there on they are as in processes.c.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/serve/daemon.h"
#include "core/ucx/ucx.h"

#define SAMPLE      ((size_t)1 << 20) /* bytes at each end of a file */
#define MOST_SECRET 4096

static void add_part(struct lls_sha256 *h, FILE *f, long at, int whence)
{
  char *data = malloc(SAMPLE);
  if (data != NULL && fseek(f, at, whence) == 0)
    lls_sha256_add(h, data, fread(data, 1, SAMPLE, f));
  free(data);
}

/* Adds a file's size, beginning and end. Files of weights are too long to read. */
static int add_file(struct lls_sha256 *h, const char *path, struct lls_error *err)
{
  struct stat st;
  FILE *f = fopen(path, "re");
  if (f == NULL || fstat(fileno(f), &st) < 0) {
    int rc = -errno;
    if (f != NULL)
      fclose(f);
    return lls_fail(err, rc, "%s: %s", path, strerror(-rc));
  }
  lls_sha256_add(h, &st.st_size, sizeof st.st_size);
  add_part(h, f, 0, SEEK_SET);
  if ((uint64_t)st.st_size > SAMPLE)
    add_part(h, f, -(long)SAMPLE, SEEK_END);
  fclose(f);
  return 0;
}

static int is_of_model(const struct dirent *entry)
{
  static const char *const ends[] = {".safetensors", ".json", ".gguf", ".model",
                                     ".jinja"};
  size_t n = strlen(entry->d_name);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t k = strlen(ends[i]);
    if (n > k && strcmp(entry->d_name + n - k, ends[i]) == 0)
      return 1;
  }
  return 0;
}

static int add_folder(struct lls_sha256 *h, const char *path, struct lls_error *err)
{
  struct dirent **list = NULL;
  char file[PATH_MAX];
  int rc = 0, n = scandir(path, &list, is_of_model, alphasort);
  if (n < 0)
    return lls_fail(err, -errno, "%s: %s", path, strerror(errno));
  for (int i = 0; i < n; i++) {
    lls_sha256_add(h, list[i]->d_name, strlen(list[i]->d_name) + 1);
    snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
    if (rc == 0)
      rc = add_file(h, file, err);
    free(list[i]);
  }
  free(list);
  return rc;
}

/* Computes a digest of the model's files: of their names, sizes, beginnings and ends. */
static int digest_model(const struct lls_config *c, char hex[LLS_SHA256_HEX],
                        struct lls_error *err)
{
  struct lls_error why = {0};
  struct lls_sha256 h;
  struct stat st;
  lls_sha256_begin(&h);
  bool folder = stat(c->model.path, &st) == 0 && S_ISDIR(st.st_mode);
  int rc =
      folder ? add_folder(&h, c->model.path, &why) : add_file(&h, c->model.path, &why);
  lls_sha256_end(&h, hex);
  return rc < 0 ? lls_config_fail(c, err, rc, "model", "path", "%s", why.text) : 0;
}

/* Reads the secret: a digest of the file without the white space at its end. */
static int read_secret(const struct lls_config *c, char hex[LLS_SHA256_HEX],
                       struct lls_error *err)
{
  char text[MOST_SECRET];
  struct lls_error why = {0};
  struct lls_sha256 h;
  FILE *f;
  hex[0] = '\0';
  if (c->cluster.secret[0] == '\0')
    return 0;
  int rc = lls_file_open(c->cluster.secret, sizeof text, &f, &why);
  if (rc < 0)
    return lls_config_fail(c, err, rc, "cluster", "secret", "%s",
                           lls_error_text(&why, rc));
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
    n--;
  if (n == 0)
    return lls_config_fail(c, err, -EINVAL, "cluster", "secret", "%s is empty",
                           c->cluster.secret);
  lls_sha256_begin(&h);
  lls_sha256_add(&h, text, n);
  lls_sha256_end(&h, hex);
  return 0;
}

static void say(void *context, const char *text)
{
  const struct server *s = context;
  lls_log(&s->log, LLS_LOG_INFO, "cluster", "%s", text);
}

static int check(const struct server *s, const struct lls_instances *all,
                 struct lls_error *err)
{
  const struct lls_config *c = s->config;
  if (c->cluster.listen[0] != '\0' && c->cluster.join[0] != '\0')
    return lls_config_fail(c, err, -EINVAL, "cluster", "join",
                           "the front end listens and all others join: omit one of the "
                           "two keys");
  if (all->n < 2)
    return lls_config_fail(c, err, -EINVAL, "cluster",
                           c->cluster.join[0] != '\0' ? "join" : "listen",
                           "[engine] instances or roles says how many processes there "
                           "are at most: it has to be two or more");
  if (all->role[0] == LLS_ROLE_DECODE)
    return lls_config_fail(c, err, -EINVAL, "engine", "roles",
                           "the front end of a cluster has the first role, which has to "
                           "be prefill or mixed");
  return 0;
}

/* Copies what the channel needs: after a reload the configuration is the front end's. */
static int prepare(struct server *s, struct lls_error *err)
{
  const struct lls_cluster_config *c = &s->config->cluster;
  struct server_cluster *k = &s->cluster;
  struct lls_error why = {0};
  const char *key;
  int rc = lls_instances_read(&s->config->engine, &s->instances, &key, &why);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "engine", key, "%s", why.text);
  rc = check(s, &s->instances, err);
  if (rc == 0)
    rc = read_secret(s->config, k->secret, err);
  if (rc == 0)
    rc = digest_model(s->config, k->model, err);
  snprintf(k->listen, sizeof k->listen, "%s", c->listen);
  snprintf(k->join, sizeof k->join, "%s", c->join);
  k->role =
      c->role == LLS_CLUSTER_ANY ? LLS_ANY_ROLE : (uint32_t)c->role - LLS_CLUSTER_ROLES;
  k->prepared = true;
  return rc;
}

int server_join_cluster(struct server *s, struct lls_error *err)
{
  struct server_cluster *k = &s->cluster;
  struct lls_error why = {0};
  int rc = k->prepared ? 0 : prepare(s, err);
  const struct lls_ucx_options o = {.listen = k->listen,
                                    .join = k->join[0] != '\0' ? k->join : NULL,
                                    .secret = k->secret,
                                    .model = k->model,
                                    .n = s->instances.n,
                                    .roles = s->instances.role,
                                    .role = k->role,
                                    .say = say,
                                    .context = s,
                                    .give_up = server_leaves()};
  if (rc < 0)
    return rc;
  rc = lls_ucx_open(&o, &s->channel, &why);
  if (rc < 0)
    return lls_config_fail(s->config, err, rc, "cluster",
                           o.join != NULL ? "join" : "listen", "%s", why.text);
  if (o.join != NULL)
    lls_log(&s->log, LLS_LOG_INFO, "cluster",
            "this process has joined %s: it is instance %u of %u (%s), pid %d", o.join,
            s->channel->self, s->channel->n,
            lls_role_name(s->instances.role[s->channel->self]), (int)getpid());
  return 0;
}
