/* SPDX-License-Identifier: Apache-2.0 */
/* Constraints on the core's keys that the tables can't express. */
#include "core/base/address.h"
#include "core/config/candidates.h"
#include "core/config/instance_list.h"
#include "core/config/loading.h"
#include "core/config/objective.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_listen(struct lls_loading *l)
{
  const char *listen = l->config->server.listen;
  char host[LLS_HOST_MAX];
  const char *port;
  if (lls_address_split(listen, host, &port) < 0)
    lls_loading_error(l, lls_loading_line(l, "server", "listen"),
                      "[server] listen: expected ADDRESS:PORT like 127.0.0.1:8080, "
                      "0.0.0.0:8080 or [::1]:8080; found '%s'",
                      listen);
}

/* Which plugins and parameters there are, the simulator says: policies may be installed
 * later. */
static void check_autopilot_policies(struct lls_loading *l)
{
  const char *policies = l->config->server.autopilot_policies;
  struct lls_candidates all;
  struct lls_error err = {0};
  int rc = strlen(policies) < LLS_CANDIDATES_TEXT_MAX
               ? lls_candidates_read(policies, &all, &err)
               : lls_fail(&err, -E2BIG, "more than %d characters",
                          LLS_CANDIDATES_TEXT_MAX - 1);
  if (rc < 0)
    lls_loading_error(l, lls_loading_line(l, "server", "autopilot_policies"),
                      "[server] autopilot_policies: %s", lls_error_text(&err, rc));
  else
    lls_candidates_free(&all);
}

static void check_autopilot_objective(struct lls_loading *l)
{
  struct lls_error err = {0};
  if (lls_objective_check(l->config->server.autopilot_objective, &err) < 0)
    lls_loading_error(l, lls_loading_line(l, "server", "autopilot_objective"),
                      "[server] autopilot_objective: %s", err.text);
}

static void check_autopilot(struct lls_loading *l)
{
  const struct lls_server_config *c = &l->config->server;
  unsigned line = lls_loading_line(l, "server", "autopilot");
  if (!c->autopilot)
    return;
  if (c->autopilot_policies[0] == '\0')
    lls_loading_error(l, line,
                      "[server] autopilot: autopilot_policies is to name the "
                      "configurations that it may choose from");
  if (c->history == 0)
    lls_loading_error(l, line,
                      "[server] autopilot: nothing is known of the traffic where "
                      "[server] history is 0");
}

static bool has_suffix(const char *text, const char *suffix)
{
  size_t length = strlen(text), end = strlen(suffix);
  return length >= end && strcasecmp(text + length - end, suffix) == 0;
}

static void check_model(struct lls_loading *l)
{
  const char *path = l->config->model.path;
  struct stat st;
  if (path == NULL)
    return; /* missing is complained of already */
  unsigned line = lls_loading_line(l, "model", "path");
  char *config = lls_path_join(path, "config.json");
  if (stat(path, &st) < 0)
    lls_loading_error(
        l, line,
        "[model] path: expected a model folder or a .gguf file; cannot open '%s': %s",
        path, strerror(errno));
  else if (S_ISREG(st.st_mode) && has_suffix(path, ".gguf"))
    ; /* what is in it is seen when it is read */
  else if (!S_ISDIR(st.st_mode))
    lls_loading_error(l, line,
                      "[model] path: expected a model folder or a .gguf file; '%s' is "
                      "neither",
                      path);
  else if (config != NULL && access(config, R_OK) < 0)
    lls_loading_error(l, line, "[model] path: cannot read '%s': %s", config,
                      strerror(errno));
  free(config);
}

/* The last name of the model's path, links and dots resolved, without ".gguf". */
static void default_model_name(struct lls_loading *l)
{
  struct lls_config *c = l->config;
  if (c->server.served_model_name[0] != '\0' || c->model.path == NULL)
    return;
  char *real = realpath(c->model.path, NULL);
  if (real == NULL)
    return; /* check_model has said so */
  if (has_suffix(real, ".gguf"))
    real[strlen(real) - strlen(".gguf")] = '\0';
  free((char *)c->server.served_model_name);
  c->server.served_model_name = strdup(strrchr(real, '/') + 1);
  if (c->server.served_model_name == NULL)
    lls_loading_error(l, 0, "no memory");
  free(real);
}

static void check_instances(struct lls_loading *l)
{
  struct lls_instances all;
  struct lls_error err;
  const char *key;
  if (lls_instances_read(&l->config->engine, &all, &key, &err) < 0)
    lls_loading_error(l, lls_loading_line(l, "engine", key), "[engine] %s: %s", key,
                      err.text);
}

/* More answers than there are places could never run: they are too many, too. */
static void limit_choices(struct lls_config *c)
{
  if (c->server.api.max_choices > c->engine.max_requests)
    c->server.api.max_choices = c->engine.max_requests;
  if (c->server.api.max_inputs > c->engine.max_requests)
    c->server.api.max_inputs = c->engine.max_requests;
}

static void choose_batch_requests(struct lls_config *c)
{
  if (c->server.api.batch_requests == LLS_NEVER)
    c->server.api.batch_requests = (c->engine.max_sequences + 1) / 2;
}

static void choose_any_model(struct lls_config *c)
{
  if (c->server.api.any_model == LLS_ANY_MODEL_AUTO)
    c->server.api.any_model =
        c->server.api_keys[0] == '\0' ? LLS_ANY_MODEL_TRUE : LLS_ANY_MODEL_FALSE;
}

static void check_kept_prompts(struct lls_loading *l)
{
  const struct lls_config *c = l->config;
  if (c->cache.kept_prompts > 0 && c->server.state[0] == '\0')
    lls_loading_error(l, lls_loading_line(l, "cache", "kept_prompts"),
                      "[cache] kept_prompts: they are kept in the folder of [server] "
                      "state, which is not set");
}

void lls_loading_check(struct lls_loading *l)
{
  check_listen(l);
  check_autopilot(l);
  check_autopilot_policies(l);
  check_autopilot_objective(l);
  check_model(l);
  check_instances(l);
  check_kept_prompts(l);
  default_model_name(l);
  limit_choices(l->config);
  choose_any_model(l->config);
  choose_batch_requests(l->config);
}
