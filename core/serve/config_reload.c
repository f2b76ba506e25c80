/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another configuration under live requests. The file is read aside, checked whole and
 * held against what runs; the step loop then changes policies at a step boundary. Until
 * it says that it has, the old configuration is the one that holds, and it stays if
 * anything fails.
 */
#include "core/serve/daemon.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the outcome ------------------------------------------------------------------- */

static void record(struct server *s, bool good, const char *message)
{
  struct lls_admin_state *a = &s->admin;
  a->reload_good = good;
  a->reloaded_s = (int64_t)time(NULL);
  a->generation += good;
  a->reloads += good;
  a->reloads_refused += !good;
  snprintf(a->reload_message, sizeof a->reload_message, "%s", message);
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

/* The first error for whoever asked, all of them in the log. */
static void record_errors(struct server *s, const struct lls_config_errors *errors)
{
  for (size_t i = 1; i < errors->n; i++)
    lls_log(&s->log, LLS_LOG_ERROR, "reload", "%s", errors->list[i].error.text);
  record(s, false, errors->n > 0 ? errors->list[0].error.text : "out of memory");
}

/* ---- the change -------------------------------------------------------------------- */

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

/* Code that stays moves into the new configuration, what it replaces into the old one. */
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

static void take_over(struct server *s)
{
  struct lls_config *c = s->config;
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    keep(&c->policies.by_kind[i], &s->wanted.policies.by_kind[i], s->change.by_kind[i]);
  lls_config_free(c);
  *c = s->wanted;
  s->log.level = (uint32_t)c->server.log_level;
  if (s->log.format != LLS_LOG_JOURNAL)
    s->log.format = (uint32_t)c->server.log_format;
  lls_api_set_limits(s->api, &c->server.api);
  server_look(s);
  lls_api_set_keys(s->api, &s->wanted_keys);
  s->wanted_keys = (struct lls_api_keyring){0};
}

/* A scheduler that was switched off knows nothing of what runs: it begins anew. */
static struct lls_config_change compare(const struct server *s)
{
  struct lls_loop_status status;
  struct lls_config_change change = lls_config_compare(s->config, &s->wanted);
  lls_loop_status(s->loop, &status);
  if (status.fallen_back)
    change.scheduler = LLS_POLICY_REPLACED;
  return change;
}

static int begin(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config, *w = &s->wanted;
  s->change = compare(s);
  struct lls_loop_change change = {
      .limits = w->plugins.loop,
  };
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    change.policies.by_kind[i] =
        choose(&c->policies.by_kind[i], &w->policies.by_kind[i], s->change.by_kind[i]);
  int rc = lls_config_check_reload(c, w, err);
  if (rc == 0)
    rc = server_load_keys(w, &s->wanted_keys, err);
  return rc < 0 ? rc : lls_loop_reload(s->loop, &change, err);
}

/* Gives up what was loaded for a reload that fails. */
static void abandon(struct server *s)
{
  lls_config_free(&s->wanted);
  lls_api_keyring_free(&s->wanted_keys);
}

void server_reload(struct server *s)
{
  struct lls_config_errors errors = {0};
  struct lls_error err = {0};
  if (s->reloading || s->load.running) { /* later, with what the file says then */
    s->reload_again = true;
    return;
  }
  s->admin.reloads_begun++;
  server_reloading();
  if (s->stopping) {
    record(s, false, "the server is shutting down");
    return;
  }
  if (lls_config_reload(s->config, &s->wanted, &errors) < 0) {
    record_errors(s, &errors);
    lls_config_errors_free(&errors);
    return;
  }
  int rc = begin(s, &err);
  s->reloading = rc == 0;
  if (s->reloading)
    return;
  abandon(s);
  record(s, false, lls_error_text(&err, rc));
}

void server_reload_continue(struct server *s)
{
  struct lls_error err = {0};
  char message[LLS_ERROR_MAX];
  int rc;
  if (!s->reloading || !lls_loop_reloaded(s->loop, &rc, &err))
    return;
  s->reloading = false;
  if (rc == 0) {
    lls_config_describe_change(s->config, &s->wanted, &s->change, message,
                               sizeof message);
    take_over(s);
    record(s, true, message);
  } else {
    abandon(s);
    record(s, false, lls_error_text(&err, rc));
  }
  if (!s->reload_again)
    return;
  s->reload_again = false;
  server_reload(s);
}
