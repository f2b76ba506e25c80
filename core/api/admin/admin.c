/* SPDX-License-Identifier: Apache-2.0 */
/* GET /admin/status and /admin/config, POST /admin/reload and /admin/drain; see admin.h.
 */
#include "core/api/admin.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/api/api_internal.h"
#include "core/api/store/store_front.h"
#include "core/api/admin/waits.h"
#include "core/base/json_cost.h"
#include "core/config/instance_list.h"
#include "core/loop/policy_stats_json.h"

/* ---- status ------------------------------------------------------------------------ */

static json_t *section_json(const struct lls_config *c, const char *section,
                            const struct lls_param_table *table)
{
  json_t *values = json_object();
  for (size_t i = 0; i < table->n; i++)
    json_object_set_new(values, table->params[i].name,
                        json_string(lls_config_text(c, section, &table->params[i])));
  return values;
}

#define SECTION_MAX (2 * LLS_PLUGIN_ID_MAX)

/* Writes the name of a plugin's section, such as "scheduler.fcfs". */
static const char *section_of(const struct lls_plugin *d, char section[SECTION_MAX])
{
  snprintf(section, SECTION_MAX, "%s.%s", lls_plugin_kind_name(d->kind), d->id);
  return section;
}

static json_t *policy_json(const struct lls_config *c, const struct lls_policy *policy)
{
  char section[SECTION_MAX];
  const struct lls_plugin_module *m = policy->module;
  const struct lls_plugin *d = m->descriptor;
  json_t *params = section_json(c, section_of(d, section), &m->params);
  return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", d->id, "version", d->version,
                   "description", d->description, "path", m->path, "parameters", params);
}

static json_t *plugins_json(const struct lls_config *c)
{
  return json_pack("{s:o, s:o, s:o, s:o}", "scheduler",
                   policy_json(c, &c->policies.scheduler), "cache",
                   policy_json(c, &c->policies.cache), "predictor",
                   policy_json(c, &c->policies.predictor), "drafter",
                   policy_json(c, &c->policies.drafter));
}

static json_t *reload_json(const struct lls_admin_state *s)
{
  if (s->reloaded_s == 0)
    return json_null();
  return json_pack("{s:I, s:b, s:s}", "time", (json_int_t)s->reloaded_s, "ok",
                   s->reload_good, "message", s->reload_message);
}

static json_t *requests_json(const struct lls_loop_status *s)
{
  return json_pack("{s:I, s:I, s:I}", "waiting", (json_int_t)s->waiting, "running",
                   (json_int_t)s->running, "preempted", (json_int_t)s->preempted);
}

static json_t *cache_json(const struct lls_loop_status *s)
{
  return json_pack(
      "{s:I, s:I, s:I, s:I}", "device_units", (json_int_t)s->device_units_total,
      "device_units_free", (json_int_t)s->device_units_free, "host_units",
      (json_int_t)s->host_units_total, "host_units_free", (json_int_t)s->host_units_free);
}

/* Reports the error of the time estimates for the last steps; the promises of policies
 * and the results of simulations depend on it. */
static json_t *estimates_json(const struct lls_cost_accuracy *a)
{
  return json_pack("{s:I, s:f, s:f}", "steps", (json_int_t)a->steps, "error", a->error,
                   "bias", a->bias);
}

static const char *const instance_states[] = {"up", "silent", "lost", "absent"};

/* A lost instance has no levels; its counters stay in the sums. */
static json_t *instance_json(struct lls_loop *loop, uint32_t i)
{
  struct lls_instance_life life;
  struct lls_loop_status s;
  uint32_t role;
  lls_loop_instance_status(loop, i, &role, &s);
  lls_loop_instance_life(loop, i, &life);
  bool there = life.state == LLS_INSTANCE_UP || life.state == LLS_INSTANCE_SILENT;
  return json_pack("{s:s, s:s, s:s?, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:s?}", "role",
                   lls_role_name(role), "status", instance_states[life.state], "reason",
                   life.state != LLS_INSTANCE_UP ? life.why.text : NULL, "requests",
                   there ? requests_json(&s) : json_null(), "cache",
                   there ? cache_json(&s) : json_null(), "policies",
                   there ? lls_policy_stats_json(loop, i) : json_null(), "steps",
                   (json_int_t)s.steps, "offered", (json_int_t)s.offered, "handed_over",
                   (json_int_t)s.handed_over, "taken_over", (json_int_t)s.taken_over,
                   "scheduler_fallback",
                   there && s.fallen_back ? s.fallback_reason : NULL);
}

static json_t *instances_json(struct lls_loop *loop)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < lls_loop_n_instances(loop); i++)
    json_array_append_new(list, instance_json(loop, i));
  return list;
}

/* Returns null if the server has no [server] state. */
static json_t *batches_json(const struct lls_api *api)
{
  struct lls_store_counts c;
  if (!lls_store_front_count(api, &c))
    return json_null();
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "validating",
                   (json_int_t)c.validating, "in_progress", (json_int_t)c.in_progress,
                   "ending", (json_int_t)c.ending, "lines_queued",
                   (json_int_t)c.lines_queued, "lines_completed",
                   (json_int_t)c.lines_completed, "lines_failed",
                   (json_int_t)c.lines_failed, "blocked", c.blocked);
}

static json_t *status_json(struct lls_api *api)
{
  const struct lls_admin_state *s = api->config.admin.state;
  struct lls_loop_status loop;
  struct lls_error why = {0};
  bool failed = lls_loop_failed(api->config.loop, &why);
  bool all_up = lls_loop_all_up(api->config.loop, &why);
  lls_loop_status(api->config.loop, &loop);
  return json_pack(
      "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:s, s:o, s:o, s:o, s:s?, s:I, s:o, s:o, "
      "s:{s:s, s:s}, s:o}",
      "version", PACKAGE_VERSION, "state",
      failed          ? "failed"
      : api->draining ? "draining"
      : all_up        ? "ok"
                      : "degraded",
      "model", api->model_name, "started", (json_int_t)s->started_s, "generation",
      (json_int_t)s->generation, "reloads", (json_int_t)s->reloads, "reloads_refused",
      (json_int_t)s->reloads_refused, "last_reload", reload_json(s), "config",
      s->config->ini.path, "plugins", plugins_json(s->config), "requests",
      requests_json(&loop), "cache", cache_json(&loop), "scheduler_fallback",
      loop.fallen_back ? loop.fallback_reason : NULL, "steps", (json_int_t)loop.steps,
      "instances", instances_json(api->config.loop), "batches", batches_json(api),
      "sandbox", "files", s->sandbox_files, "calls", s->sandbox_calls, "estimates",
      estimates_json(&loop.estimates));
}

static bool is_there(struct lls_api *api, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  if (api->config.admin.state != NULL)
    return true;
  lls_api_fail(&error, 404, "not_found", NULL, "there is no daemon to ask");
  lls_api_error_reply(exchange, &error);
  return false;
}

void lls_handle_admin_status(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  if (is_there(api, exchange))
    lls_api_reply_json(exchange, 200, status_json(api));
}

/* ---- config ------------------------------------------------------------------------ */

static void add_policy(json_t *sections, const struct lls_config *c,
                       const struct lls_policy *policy)
{
  char section[SECTION_MAX];
  section_of(policy->module->descriptor, section);
  json_object_set_new(sections, section,
                      section_json(c, section, &policy->module->params));
}

/* Returns every configuration key with its text, including defaults. */
json_t *lls_admin_config(const struct lls_config *c)
{
  json_t *sections = json_object();
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++)
    json_object_set_new(sections, s->name, section_json(c, s->name, &s->table));
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    add_policy(sections, c, &c->policies.by_kind[i]);
  return json_pack("{s:s, s:o}", "path", c->ini.path, "sections", sections);
}

void lls_handle_admin_config(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  if (is_there(api, exchange))
    lls_api_reply_json(exchange, 200, lls_admin_config(api->config.admin.state->config));
}

/* ---- reload ------------------------------------------------------------------------ */

static void answer(struct lls_api *api, struct lls_http_exchange *exchange)
{
  const struct lls_admin_state *s = api->config.admin.state;
  struct lls_api_error error;
  if (s->reload_good) {
    lls_api_reply_json(exchange, 200,
                       json_pack("{s:s, s:I, s:s}", "status", "reloaded", "generation",
                                 (json_int_t)s->generation, "message",
                                 s->reload_message));
    return;
  }
  lls_api_fail(&error, 409, "reload_refused", NULL, "%s", s->reload_message);
  lls_api_error_reply(exchange, &error);
}

static int add_change(struct lls_changes *changes, const char *section, const char *key,
                      const json_t *value, struct lls_api_error *error)
{
  char *text = json_is_string(value) ? strdup(json_string_value(value))
                                     : json_dumps(value, JSON_ENCODE_ANY);
  bool plain = json_is_string(value) || json_is_number(value) || json_is_boolean(value);
  int rc = text != NULL && plain ? lls_changes_set(changes, section, key, text) : -ENOMEM;
  free(text);
  if (!plain)
    return lls_api_fail(error, 400, "invalid_value", "set",
                        "[%s] %s: a value is a string, a number, true or false", section,
                        key);
  return rc < 0 ? lls_api_fail(error, 503, "out_of_memory", NULL, "out of memory") : 0;
}

static int check_number(json_t *set, struct lls_api_error *error)
{
  const char *section;
  json_t *values;
  size_t n = 0;
  json_object_foreach(set, section, values) n += 1 + json_object_size(values);
  if (n <= LLS_CHANGES_MAX)
    return 0;
  return lls_api_fail(error, 413, "too_many_settings", "set",
                      "%zu sections and keys; a request sets at most %d", n,
                      LLS_CHANGES_MAX);
}

/* Reads a body such as {"set": {"scheduler.sarathi": {"chunk": 256}}}; without a body
 * there are no changes. */
static int read_changes(const struct lls_text *body, struct lls_changes *changes,
                        struct lls_api_error *error)
{
  json_error_t where;
  const char *section, *key;
  json_t *values, *value;
  int rc = 0;
  if (body->length == 0)
    return 0;
  json_t *json = lls_json_load(body->data, body->length, JSON_REJECT_DUPLICATES, &where);
  json_t *set = json_object_get(json, "set");
  if (!json_is_object(set) || json_object_size(json) != 1)
    rc = lls_api_fail(error, 400, "invalid_body", "set",
                      "expected {\"set\": {\"SECTION\": {\"KEY\": VALUE}}}, or no body");
  if (rc == 0)
    rc = check_number(set, error);
  json_object_foreach(rc == 0 ? set : NULL, section, values)
  {
    if (!json_is_object(values))
      rc = lls_api_fail(error, 400, "invalid_body", "set",
                        "[%s]: expected an object of keys", section);
    json_object_foreach(values, key, value)
    {
      if (rc == 0)
        rc = add_change(changes, section, key, value, error);
    }
  }
  json_decref(json);
  return rc;
}

static void begin_change(struct lls_api *api, struct lls_http_exchange *exchange,
                         const struct lls_changes *changes)
{
  const struct lls_admin *admin = &api->config.admin;
  uint64_t number = admin->state->reloads_begun + 1;
  struct lls_api_error error;
  if (!lls_wait_add(&api->reload_waits, exchange, number))
    return;
  if (changes->n == 0)
    admin->reload(admin->context);
  else if (admin->change(admin->context, changes) < 0) {
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
    while ((exchange = lls_wait_take(&api->reload_waits, number)) != NULL)
      lls_api_error_reply(exchange, &error);
  }
}

/* A client waits for a reload that reads the file after its request, not for one that
 * has already begun. */
void lls_handle_admin_reload(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_changes changes = {0};
  struct lls_api_error error;
  if (!is_there(api, exchange))
    return;
  if (read_changes(&exchange->request.body, &changes, &error) == 0)
    begin_change(api, exchange, &changes);
  else
    lls_api_error_reply(exchange, &error);
  lls_changes_free(&changes);
}

void lls_api_reloaded(struct lls_api *api)
{
  uint64_t begun = api->config.admin.state->reloads_begun;
  struct lls_http_exchange *exchange;
  LLS_API_ON_MAIN(api);
  while ((exchange = lls_wait_take(&api->reload_waits, begun)) != NULL)
    answer(api, exchange);
}

/* ---- drain ------------------------------------------------------------------------- */

void lls_handle_admin_drain(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  if (!is_there(api, exchange))
    return;
  char asked_by[LLS_HTTP_ID_BYTES + 16];
  snprintf(asked_by, sizeof asked_by, "request %s", exchange->id);
  lls_api_reply_json(exchange, 202, json_pack("{s:s}", "status", "draining"));
  api->config.admin.drain(api->config.admin.context, asked_by);
}
