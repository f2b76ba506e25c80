/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another configuration under live requests. Another thread reads and checks the whole
 * file, compares it with the running configuration and creates its plugins while the
 * old ones still run (reload_prepare.c); the step loop then changes policies at a step
 * boundary. The old configuration holds until the loop reports the change, and stays if
 * anything fails.
 */
#include "core/serve/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/assembly/options.h"

/* ---- the outcome ------------------------------------------------------------------- */

static void record(struct server *s, bool good, const char *message)
{
  struct lls_admin_state *a = &s->admin;
  a->reload_good = good;
  a->reloaded_s = (int64_t)time(NULL);
  a->generation += good;
  a->reloads += good;
  a->reloads_refused += !good;
  bool denied = !good && s->config->server.sandbox == LLS_SANDBOX_ON &&
                strstr(message, strerror(EACCES)) != NULL;
  snprintf(a->reload_message, sizeof a->reload_message, "%.*s%s",
           denied ? 400 : LLS_ERROR_MAX - 1, message,
           denied ? " ([server] sandbox is on: what a reload names lies where the start "
                    "found its files)"
                  : "");
  message = a->reload_message;
  if (good)
    lls_log(&s->log, LLS_LOG_INFO, "reload", "generation %llu: %s",
            (unsigned long long)a->generation, message);
  else
    lls_log(&s->log, LLS_LOG_ERROR, "reload", "refused, generation %llu goes on: %s",
            (unsigned long long)a->generation, message);
  server_reload_over(s);
  if (s->api != NULL)
    lls_api_reloaded(s->api);
}

/* Records the first error as the outcome of the reload, and logs all of them. */
static void record_errors(struct server *s, const struct lls_config_errors *errors)
{
  for (size_t i = 1; i < errors->n; i++)
    lls_log(&s->log, LLS_LOG_ERROR, "reload", "%s", errors->list[i].error.text);
  record(s, false, errors->n > 0 ? errors->list[0].error.text : "out of memory");
}

/* ---- the change -------------------------------------------------------------------- */

/* Exchanges a plugin's code so that the code still in use moves into the new
 * configuration, and the code it replaces into the old one. */
static void keep(struct lls_policy *running, struct lls_policy *wanted,
                 enum lls_policy_change change)
{
  struct lls_policy was = *running;
  if (change == LLS_POLICY_REPLACED)
    return;
  running->module = wanted->module;
  wanted->module = was.module;
  if (change == LLS_POLICY_RENEWED)
    return;
  running->params = wanted->params;
  wanted->params = was.params;
}

void server_take_over(struct server *s, struct reload *r)
{
  struct lls_config *c = s->config;
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    keep(&c->policies.by_kind[i], &r->wanted.policies.by_kind[i], r->change.by_kind[i]);
  lls_config_free(c);
  *c = r->wanted;
  r->read = false;
  s->log.level = (uint32_t)c->server.log_level;
  if (s->log.format != LLS_LOG_JOURNAL)
    s->log.format = (uint32_t)c->server.log_format;
}

/* Gives the new configuration to the front end and the watchdog. */
static void tell_api(struct server *s, struct reload *r)
{
  const struct lls_config *c = s->config;
  lls_api_set_limits(s->api, &c->server.api);
  lls_api_set_drafts(s->api, lls_engine_caps(s->engines[0])->max_drafts > 0 &&
                                 lls_config_drafts(c));
  if (r->change.cache == LLS_POLICY_REPLACED) {
    lls_api_set_context(s->api, server_max_context(c, s->engines[0]));
    server_log_warnings(s);
  }
  server_look(s);
  lls_api_set_keys(s->api, &r->keys);
  r->keys = (struct lls_api_keyring){0};
  if (r->tls != NULL)
    lls_http_server_set_tls(s->http, r->tls);
  r->tls = NULL;
}

/* ---- one after the other ----------------------------------------------------------- */

static void end(struct server *s, int rc, const struct lls_error *err)
{
  struct reload *r = s->reload;
  char message[LLS_ERROR_MAX];
  s->reload = NULL;
  if (rc == 0) {
    lls_config_describe_change(s->config, &r->wanted, &r->change, message,
                               sizeof message);
    server_take_adapters(s, r);
    server_take_over(s, r);
    tell_api(s, r);
    record(s, true, message);
  } else if (!r->read && !r->given_up) {
    record_errors(s, &r->errors);
  } else {
    record(s, false, lls_error_text(err, rc));
  }
  if (!r->given_up)
    server_free_reload(s, r);
}

/* Has the loop take over the prepared policies. */
static void install(struct server *s, struct reload *r)
{
  int rc = r->given_up ? -ETIME : r->status;
  if (rc == 0)
    rc = lls_loop_reload(s->loop, r->prepared, &r->error);
  if (rc < 0) {
    end(s, rc, r->given_up ? &r->hangs : &r->error);
    return;
  }
  r->prepared = NULL;
  r->installing = true;
}

static void begin(struct server *s)
{
  struct lls_error err = {0};
  /* begins after that, with the file as it is then */
  if (s->reload != NULL || s->load.running) {
    s->reload_again = true;
    return;
  }
  s->admin.reloads_begun++;
  server_reloading();
  if (s->stopping) {
    record(s, false, "the server is shutting down");
    return;
  }
  int rc = server_prepare(s, &s->reload, &err);
  if (rc < 0)
    record(s, false, lls_error_text(&err, rc));
}

void server_reload(struct server *s)
{
  lls_changes_free(&s->asked);
  s->afresh = true;
  begin(s);
}

int server_change(struct server *s, const struct lls_changes *changes)
{
  int rc = lls_changes_add(&s->asked, changes);
  if (rc == 0)
    begin(s);
  return rc;
}

int server_change_to(struct server *s, const struct lls_changes *changes)
{
  lls_changes_free(&s->asked);
  s->afresh = true;
  return server_change(s, changes);
}

void server_reload_continue(struct server *s)
{
  struct reload *r = s->reload;
  struct lls_error err = {0};
  int rc;
  server_forget_reloads(s);
  if (r != NULL && !r->installing && (r->done || r->given_up))
    install(s, r);
  if (s->reload != NULL && s->reload->installing && lls_loop_reloaded(s->loop, &rc, &err))
    end(s, rc, &err);
  if (s->reload != NULL || !s->reload_again)
    return;
  s->reload_again = false;
  begin(s);
}
