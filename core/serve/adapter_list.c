/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapters of [lora]: all are read at the start, so that a wrong path or a foreign
 * adapter is an error then, and as many as [lora] allows stay in memory. A reload reads
 * the new ones on its own thread, and lists and removes adapters when it succeeds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/lora/lora_set.h"
#include "core/serve/daemon.h"

/* The engine sends adapters to ranks in other processes; instances there have neither
 * this process's adapters nor its files. */
static int check_processes(const struct server *s, struct lls_error *err)
{
  if (s->channel == NULL)
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "[lora] needs instances in one process: start the server without "
                  "mpirun or with one instance, or merge the adapters into their model");
}

/* Lists an adapter of the file with its content. */
static int list(struct server *s, const struct lls_named_adapter *one,
                struct lls_lora *lora)
{
  const struct lls_adapter as = {.name = (char *)(uintptr_t)one->name,
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
  lls_log(&s->log, LLS_LOG_INFO, "lora", "adapter \"%s\", %zu KiB: %s", one->name,
          lora->bytes >> 10, one->path);
  rc = list(s, one, lora);
  return rc < 0 ? lls_fail(err, rc, "[lora] %s: %s", one->name, strerror(-rc)) : 0;
}

int server_make_adapters(struct server *s, struct lls_error *err)
{
  const struct lls_lora_section *lora = &s->config->lora;
  const struct lls_lora_bounds bounds = {.max_loaded = (uint32_t)lora->max_loaded,
                                         .memory = (size_t)lora->memory};
  if (!lls_lora_is_on(lora))
    return 0;
  int rc = check_processes(s, err);
  if (rc < 0)
    return rc;
  s->adapters = lls_lora_set_create(&s->model, &bounds);
  if (s->adapters == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  for (size_t i = 0; i < lora->n && rc == 0; i++)
    rc = add(s, &lora->adapters[i], err);
  return rc;
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
      lls_lora_set_remove(s->adapters, now->adapters[i].name);
      lls_log(&s->log, LLS_LOG_INFO, "lora", "adapter \"%s\" is gone",
              now->adapters[i].name);
    }
  for (size_t i = 0; i < r->n_adapters; i++) {
    const struct lls_named_adapter *one = &then->adapters[i];
    if (r->adapters[i] == NULL)
      continue;
    lls_lora_set_remove(s->adapters, one->name); /* that a request has added */
    if (list(s, one, r->adapters[i]) == 0)
      lls_log(&s->log, LLS_LOG_INFO, "lora", "adapter \"%s\": %s", one->name, one->path);
    r->adapters[i] = NULL;
  }
}
