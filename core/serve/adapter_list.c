/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapters of [lora]: all are read at the start, so that a wrong path or a foreign
 * adapter is an error then, and as many as [lora] allows stay in memory. A reload reads
 * the new ones on its own thread, and lists and removes adapters when it succeeds.
 *
 * A process with an instance of its own reads adapters from the same paths as process 0,
 * as it does the model, and lists them by path: those of [lora] at the start, others when
 * a request that has them arrives; the process takes its later mail after the load, and
 * sends meanwhile (core/cluster/remote_adapter.c). A digest says whether the files are
 * those that process 0 has read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/lora/lora_set.h"
#include "core/serve/daemon.h"

/* A process that follows knows adapters by their paths, which requests bring. */
static const char *name_in_list(const struct server *s,
                                const struct lls_named_adapter *one)
{
  return server_follows(s) ? one->path : one->name;
}

/* Process 0 reports changes for all. */
static enum lls_log_level level(const struct server *s)
{
  return server_follows(s) ? LLS_LOG_DEBUG : LLS_LOG_INFO;
}

/* Lists an adapter of the file with its content. */
static int list(struct server *s, const struct lls_named_adapter *one,
                struct lls_lora *lora)
{
  const struct lls_adapter as = {.name = (char *)(uintptr_t)name_in_list(s, one),
                                 .path = one->path,
                                 .scale = one->scale,
                                 .configured = true};
  return lls_lora_set_add(s->adapters, &as, lora);
}

static int add(struct server *s, const struct lls_named_adapter *one,
               struct lls_error *err)
{
  struct lls_lora *lora;
  int rc = lls_lora_set_try(s->adapters, one->path, &lora, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "[lora] %s", one->name);
  lls_log(&s->log, level(s), "lora", "adapter \"%s\", %zu KiB: %s", one->name,
          lora->bytes >> 10, one->path);
  rc = list(s, one, lora);
  if (rc == -EEXIST && server_follows(s))
    return 0; /* another name for the same files */
  return rc < 0 ? lls_fail(err, rc, "[lora] %s: %s", one->name, strerror(-rc)) : 0;
}

int server_make_adapters(struct server *s, struct lls_error *err)
{
  const struct lls_lora_section *lora = &s->config->lora;
  const struct lls_lora_bounds bounds = {.max_loaded = (uint32_t)lora->max_loaded,
                                         .memory = (size_t)lora->memory};
  if (!lls_lora_is_on(lora))
    return 0;
  int rc = 0;
  s->adapters = lls_lora_set_create(&s->model, &bounds);
  if (s->adapters == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  for (size_t i = 0; i < lora->n && rc == 0; i++)
    rc = add(s, &lora->adapters[i], err);
  return rc;
}

/* ---- in another process than the front end ----------------------------------------- */

/* Reads the adapter at a path, unless it is in memory. */
static int read_there(struct server *s, const char *path, struct lls_lora **out,
                      struct lls_error *err)
{
  const struct lls_adapter as = {
      .name = (char *)(uintptr_t)path, .path = (char *)(uintptr_t)path, .scale = 1};
  struct lls_adapter *adapter = lls_lora_set_find(s->adapters, path);
  int rc = adapter == NULL ? lls_lora_set_add(s->adapters, &as, NULL) : 0;
  if (rc == 0 && adapter == NULL)
    adapter = lls_lora_set_find(s->adapters, path);
  if (adapter == NULL)
    return lls_fail(err, rc < 0 ? rc : -ENOMEM, "%s: out of memory", path);
  rc = lls_lora_set_load(s->adapters, adapter, out, err);
  lls_adapter_unref(adapter);
  lls_lora_set_remove_unloaded(s->adapters); /* or the list would grow forever */
  /* process 0 bounds how many are in use; the ones that it has removed do not count there
   */
  return rc == -EBUSY ? lls_lora_set_try(s->adapters, path, out, err) : rc;
}

/* Files may have changed since this process read them, so it reads them a second time. */
int server_adapter_there(void *server, const char *path, const unsigned char digest[32],
                         struct lls_lora **out, struct lls_error *err)
{
  struct server *s = server;
  if (s->adapters == NULL)
    return lls_fail(err, -ENOTSUP, "this process has no adapters");
  for (int turn = 0; turn < 2; turn++) {
    int rc = read_there(s, path, out, err);
    if (rc < 0)
      return rc;
    if (memcmp((*out)->digest, digest, sizeof(*out)->digest) == 0)
      return 0;
    lls_lora_unref(*out);
    *out = NULL;
    lls_lora_set_remove(s->adapters, path);
  }
  return lls_fail(err, -EINVAL, "%s: the adapter has changed since process 0 read it",
                  path);
}

/* ---- reload ----------------------------------------------------------------------- */

static const struct lls_named_adapter *find(const struct lls_lora_section *lora,
                                            const char *name)
{
  for (size_t i = 0; i < lora->n; i++)
    if (strcmp(lora->adapters[i].name, name) == 0)
      return &lora->adapters[i];
  return NULL;
}

/* True if the section has the adapter under the same name, path and scale. */
static bool has(const struct lls_lora_section *lora, const struct lls_named_adapter *one)
{
  const struct lls_named_adapter *there = find(lora, one->name);
  return there != NULL && strcmp(there->path, one->path) == 0 &&
         there->scale == one->scale;
}

int server_read_adapters(const struct server *s, struct reload *r)
{
  const struct lls_lora_section *now = &s->config->lora, *then = &r->wanted.lora;
  if (s->adapters == NULL || then->n == 0)
    return 0;
  r->adapters = calloc(then->n, sizeof *r->adapters);
  if (r->adapters == NULL)
    return lls_fail(&r->error, -ENOMEM, "out of memory");
  r->n_adapters = then->n;
  for (size_t i = 0; i < then->n; i++) {
    const struct lls_named_adapter *one = &then->adapters[i];
    if (has(now, one))
      continue;
    int rc = lls_lora_set_try(s->adapters, one->path, &r->adapters[i], &r->error);
    if (rc < 0)
      return lls_fail_at(&r->error, rc, "[lora] %s", one->name);
  }
  return 0;
}

void server_free_adapters(struct reload *r)
{
  for (size_t i = 0; i < r->n_adapters; i++)
    lls_lora_unref(r->adapters[i]);
  free(r->adapters);
  r->adapters = NULL;
  r->n_adapters = 0;
}

void server_take_adapters(struct server *s, struct reload *r)
{
  const struct lls_lora_section *now = &s->config->lora, *then = &r->wanted.lora;
  for (size_t i = 0; s->adapters != NULL && i < now->n; i++)
    if (!has(then, &now->adapters[i])) {
      lls_lora_set_remove(s->adapters, name_in_list(s, &now->adapters[i]));
      lls_log(&s->log, level(s), "lora", "adapter \"%s\" is gone", now->adapters[i].name);
    }
  for (size_t i = 0; i < r->n_adapters; i++) {
    const struct lls_named_adapter *one = &then->adapters[i];
    if (r->adapters[i] == NULL)
      continue;
    lls_lora_set_remove(s->adapters, name_in_list(s, one)); /* that a request has added */
    if (list(s, one, r->adapters[i]) == 0)
      lls_log(&s->log, level(s), "lora", "adapter \"%s\": %s", one->name, one->path);
    r->adapters[i] = NULL;
  }
}
