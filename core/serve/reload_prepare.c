/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a reload that runs on a thread of its own: reading the file, trying and
 * opening new plugins, and creating them. How long plugins take is up to them, so
 * requests are served meanwhile. If a plugin's create does not return within [server]
 * watchdog, the reload is given up: it is refused, another reload may begin, and its
 * objects are freed once create returns.
 *
 * Invariant: until `creating` is set the thread reads the running configuration and
 * policies, which do not change while a reload is in progress. Afterwards it reads
 * neither, and only then can it be given up.
 */
#include <errno.h>
#include <string.h>
#include <stdlib.h>

#include "core/base/thread.h"
#include "core/plugin/crash.h"
#include "core/serve/daemon.h"

/* ---- the thread -------------------------------------------------------------------- */

static struct lls_loop_policy choose(const struct lls_policy *running,
                                     const struct lls_policy *wanted,
                                     enum lls_policy_change change)
{
  switch (change) {
  case LLS_POLICY_SAME:
    return (struct lls_loop_policy){0};
  case LLS_POLICY_RENEWED:
    return (struct lls_loop_policy){running->module, wanted->params};
  default:
    return (struct lls_loop_policy){wanted->module, wanted->params};
  }
}

/* Compares the configurations. A scheduler that was switched off counts as replaced,
 * because it does not know the running requests. */
static struct lls_config_change compare(const struct server *s,
                                        const struct lls_config *wanted)
{
  struct lls_loop_status status;
  struct lls_config_change change = lls_config_compare(s->config, wanted);
  lls_loop_status(s->loop, &status);
  if (status.fallen_back)
    change.scheduler = LLS_POLICY_REPLACED;
  return change;
}

/* Checks that the new configuration could start, before checking that it needs no
 * restart: the former is the more useful error. */
static int check_wanted(struct reload *r)
{
  const struct server *s = r->server;
  struct lls_device *device = s->devices[0];
  int rc = server_check_places(&r->wanted, &r->error);
  if (rc == 0 && device->is_host)
    rc = server_check_memory(s, &r->wanted, device, &r->error);
  return rc == 0 ? lls_config_check_reload(s->config, &r->wanted, &r->error) : rc;
}

/* Plans the change from the running configuration to the one that was read. */
static int plan_change(struct reload *r)
{
  const struct lls_config *c = r->server->config, *w = &r->wanted;
  struct lls_loop_change change = {.limits = w->plugins.loop};
  r->change = compare(r->server, w);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    change.policies.by_kind[i] =
        choose(&c->policies.by_kind[i], &w->policies.by_kind[i], r->change.by_kind[i]);
  /* Process 0 has checked a packed configuration. In another process the core's keys
   * stay as at its start, and only policies are taken from process 0. */
  int rc = r->packed != NULL ? 0 : check_wanted(r);
  if (rc == 0 && r->packed == NULL)
    rc = server_load_keys(w, &r->keys, &r->error);
  if (rc == 0 && r->packed == NULL)
    rc = server_load_tls(w, &r->tls, server_say_warning, r->server, &r->error);
  if (rc == 0 && r->packed == NULL)
    rc = server_read_adapters(r->server, r);
  return rc < 0 ? rc
                : lls_loop_prepare(r->server->loop, &change, &r->prepared, &r->error);
}

static int read_config(struct reload *r)
{
  const struct lls_config *c = r->server->config;
  struct lls_unpack u = {.data = r->packed, .n = r->n_packed};
  return r->packed != NULL ? lls_config_unpack(c, &u, &r->wanted, &r->errors)
                           : lls_config_reload(c, &r->changes, &r->wanted, &r->errors);
}

/* Sends the configuration to the processes of the other instances. */
static int share(struct reload *r)
{
  struct lls_pack p = {0};
  int64_t limit_ns = r->wanted.server.watchdog;
  lls_ini_pack(&r->wanted.ini, &p);
  int rc = p.failed
               ? lls_fail(&r->error, -ENOMEM, "out of memory")
               : lls_loop_prepared_share(r->prepared, p.data, p.n,
                                         limit_ns > 0 ? limit_ns : LLS_NEVER, &r->error);
  free(p.data);
  return rc;
}

static int prepare(struct reload *r)
{
  bool leads = r->packed == NULL;
  int rc = read_config(r);
  if (rc < 0)
    return rc;
  r->read = true;
  rc = plan_change(r);
  if (rc < 0)
    return rc;
  r->creating = true;
  rc = lls_loop_prepared_create(r->prepared, &r->error);
  return rc == 0 && leads ? share(r) : rc;
}

static void *thread_main(void *argument)
{
  struct reload *r = argument;
  struct server *s = r->server;
  lls_crash_stack();
  r->status = prepare(r);
  bool tells = r->packed == NULL; /* in other processes main polls `done` instead */
  r->done = true;                 /* from here main may join this thread and free r */
  if (tells)
    uv_async_send(&s->prepared);
  return NULL;
}

/* ---- main's side ------------------------------------------------------------------- */

/* Sets r->changes to the settings of all earlier requests (none if the file alone is to
 * count) plus the settings of this reload. The latter are used up even if the reload
 * fails. */
static int take_changes(struct server *s, struct reload *r)
{
  int rc = s->afresh ? 0 : lls_changes_add(&r->changes, &s->config->changes);
  if (rc == 0)
    rc = lls_changes_add(&r->changes, &s->asked);
  lls_changes_free(&s->asked);
  s->afresh = false;
  return rc;
}

static int start(struct server *s, struct reload *r, struct lls_error *err)
{
  int rc = -pthread_create(&r->thread, NULL, thread_main, r);
  if (rc < 0)
    return lls_fail(err, rc, "the thread of a reload does not start: %s", strerror(-rc));
  pthread_setname_np(r->thread, "llmserve-reload");
  r->next = s->reloads;
  s->reloads = r;
  return 0;
}

static void free_unstarted(struct reload *r)
{
  lls_changes_free(&r->changes);
  free(r->packed);
  free(r);
}

int server_prepare(struct server *s, struct reload **out, struct lls_error *err)
{
  struct reload *r = calloc(1, sizeof *r);
  if (r == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  r->server = s;
  int rc = take_changes(s, r);
  rc = rc < 0 ? lls_fail(err, rc, "out of memory") : start(s, r, err);
  if (rc < 0)
    free_unstarted(r);
  else
    *out = r;
  return rc;
}

int server_prepare_packed(struct server *s, const char *data, size_t n,
                          struct reload **out, struct lls_error *err)
{
  struct reload *r = calloc(1, sizeof *r);
  char *copy = malloc(n + 1);
  if (r == NULL || copy == NULL) {
    free(r);
    free(copy);
    return lls_fail(err, -ENOMEM, "out of memory");
  }
  memcpy(copy, data, n);
  *r = (struct reload){.server = s, .packed = copy, .n_packed = n};
  int rc = start(s, r, err);
  if (rc < 0)
    free_unstarted(r);
  else
    *out = r;
  return rc;
}

void server_look_at_reload(struct server *s, int64_t now_ns)
{
  struct reload *r = s->reload;
  if (r == NULL || !r->creating || r->done || r->given_up)
    return;
  r->given_up =
      lls_loop_prepared_hangs(r->prepared, now_ns, s->config->server.watchdog, &r->hangs);
  if (r->given_up)
    uv_async_send(&s->prepared);
}

void server_free_reload(struct server *s, struct reload *r)
{
  struct reload **from = &s->reloads;
  while (*from != r)
    from = &(*from)->next;
  *from = r->next;
  if (!r->ended)
    pthread_join(r->thread, NULL);
  lls_loop_prepared_free(r->prepared);
  lls_api_keyring_free(&r->keys);
  lls_tls_destroy(r->tls);
  server_free_adapters(r);
  lls_config_errors_free(&r->errors);
  lls_changes_free(&r->changes);
  free(r->packed);
  if (r->read)
    lls_config_free(&r->wanted);
  free(r);
}

void server_forget_reloads(struct server *s)
{
  for (struct reload *r = s->reloads, *next; r != NULL; r = next) {
    next = r->next;
    if (r == s->reload || !r->done)
      continue;
    lls_log(&s->log, LLS_LOG_WARNING, "reload",
            "the hung plugin call of a reload has returned, and is gone (%s)",
            r->hangs.text);
    server_free_reload(s, r);
  }
}

bool server_end_reloads(struct server *s, int64_t timeout_ns)
{
  for (struct reload *r = s->reloads; r != NULL; r = r->next) {
    int64_t wait_ns = r->given_up ? 0 : timeout_ns;
    if (!lls_thread_join(r->thread, wait_ns))
      return false;
    r->ended = true;
    lls_loop_prepared_free(r->prepared);
    r->prepared = NULL;
  }
  return true;
}
