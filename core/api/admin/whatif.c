/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /admin/whatif starts a simulation, GET returns its progress and result, DELETE
 * cancels it. The members of POST's body:
 *
 *   {"policies": ["apt+hybrid", "sarathi:chunk=128..512:128"], "objective": "goodput",
 *    "goodput": {"ttft": 500}}
 *
 * All members are optional. One simulation runs at a time.
 */
#include "core/api/whatif.h"

#include <errno.h>
#include <string.h>

#include "core/api/api_internal.h"
#include "core/base/json_cost.h"
#include "core/config/candidates.h"
#include "core/config/objective.h"

static bool is_there(struct lls_api *api, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  if (api->config.admin.whatif.state != NULL)
    return true;
  lls_api_fail(&error, 404, "not_found", NULL, "there is no daemon to ask");
  lls_api_error_reply(exchange, &error);
  return false;
}

/* ---- reading the body ------------------------------------------------------------ */

static bool is_one_line(const char *text)
{
  return text != NULL && strpbrk(text, "\r\n") == NULL && text[0] != '-';
}

/* Appends each string of a list as a line. */
static int read_list(const json_t *list, const char *name, struct lls_text *lines,
                     struct lls_api_error *error)
{
  size_t i;
  json_t *item;
  if (list != NULL && !json_is_array(list))
    return lls_api_fail(error, 400, "invalid_type", name,
                        "%s: expected a list of strings", name);
  json_array_foreach((json_t *)list, i, item)
  {
    if (!is_one_line(json_string_value(item)))
      return lls_api_fail(error, 400, "invalid_value", name,
                          "%s: expected SCHEDULER[+CACHE[+PREDICTOR[+DRAFTER]]]"
                          "[:PARAMETER=VALUES]... in each string",
                          name);
    lls_text_printf(lines, "%s\n", json_string_value(item));
  }
  return 0;
}

/* Checks the question before it is simulated, since simulating may begin with a minute of
 * measuring. */
static int check_question(const struct lls_whatif_question *q,
                          struct lls_api_error *error)
{
  struct lls_candidates all;
  struct lls_error err = {0};
  int rc = lls_candidates_read(q->policies, true, &all, &err);
  if (rc < 0)
    return lls_api_fail(error, 400, "invalid_value", "policies", "policies: %s",
                        lls_error_text(&err, rc));
  lls_candidates_free(&all);
  if (q->objective[0] != '\0' && lls_objective_check(q->objective, &err) < 0)
    return lls_api_fail(error, 400, "invalid_value", "objective", "objective: %s",
                        err.text);
  return 0;
}

/* Appends KEY:MILLISECONDS for each member. */
static int read_slos(const json_t *slos, struct lls_text *lines,
                     struct lls_api_error *error)
{
  const char *key;
  json_t *value;
  if (slos != NULL && !json_is_object(slos))
    return lls_api_fail(error, 400, "invalid_type", "goodput",
                        "goodput: expected an object like {\"ttft\": 500}");
  json_object_foreach((json_t *)slos, key, value)
  {
    if (!is_one_line(key) || !json_is_number(value))
      return lls_api_fail(error, 400, "invalid_value", "goodput",
                          "goodput: expected milliseconds for each key");
    lls_text_printf(lines, "%s:%g\n", key, json_number_value(value));
  }
  return 0;
}

struct texts {
  json_t *body;
  struct lls_text policies, goodput;
};

static int read_body(const struct lls_text *body, struct texts *t,
                     struct lls_whatif_question *question, struct lls_api_error *error)
{
  json_error_t where;
  json_t *objective;
  *t = (struct texts){0};
  *question = (struct lls_whatif_question){"", "", ""};
  if (body->length == 0)
    return 0;
  t->body = lls_json_load(body->data, body->length, JSON_REJECT_DUPLICATES, &where);
  if (!json_is_object(t->body))
    return lls_api_fail(error, 400, "invalid_body", NULL,
                        "expected an object, or no body: %s",
                        t->body == NULL ? where.text : "something else was found");
  objective = json_object_get(t->body, "objective");
  if (objective != NULL && !is_one_line(json_string_value(objective)))
    return lls_api_fail(error, 400, "invalid_value", "objective",
                        "objective: expected the name of a metric");
  int rc =
      read_list(json_object_get(t->body, "policies"), "policies", &t->policies, error);
  if (rc == 0)
    rc = read_slos(json_object_get(t->body, "goodput"), &t->goodput, error);
  if (rc == 0 && (t->policies.failed || t->goodput.failed))
    rc = lls_api_fail(error, 503, "out_of_memory", NULL, "out of memory");
  if (objective != NULL)
    question->objective = json_string_value(objective);
  if (t->policies.length > 0)
    question->policies = t->policies.data;
  if (t->goodput.length > 0)
    question->goodput = t->goodput.data;
  return rc < 0 ? rc : check_question(question, error);
}

static void free_texts(struct texts *t)
{
  json_decref(t->body);
  lls_text_free(&t->policies);
  lls_text_free(&t->goodput);
}

/* ---- the three handlers ------------------------------------------------------------ */

static void tell(struct lls_api *api, struct lls_http_exchange *exchange, int status)
{
  static const char *const stages[] = {"none", "running", "done", "failed"};
  const struct lls_whatif_state *s = api->config.admin.whatif.state;
  json_t *json =
      json_pack("{s:s, s:f, s:I, s:s?, s:O?}", "state", stages[s->stage], "progress",
                s->progress, "began", (json_int_t)s->began_s, "reason",
                s->stage == LLS_WHATIF_FAILED ? s->reason : NULL, "result", s->answer);
  lls_api_reply_json(exchange, status, json);
}

static int ask(struct lls_api *api, const struct lls_whatif_question *question,
               struct lls_api_error *error)
{
  const struct lls_admin *admin = &api->config.admin;
  struct lls_error err = {0};
  int rc = admin->whatif.ask(admin->context, question, &err);
  const char *why = lls_error_text(&err, rc);
  switch (rc) {
  case 0:
    return 0;
  case -EBUSY:
    return lls_api_fail(error, 409, "busy", NULL, "%s", why);
  case -ENOENT:
    return lls_api_fail(error, 409, "no_history", NULL, "%s", why);
  case -E2BIG:
    return lls_api_fail(error, 400, "invalid_value", NULL, "%s", why);
  default:
    return lls_api_fail(error, 503, "unavailable", NULL, "%s", why);
  }
}

void lls_handle_admin_whatif_ask(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_whatif_question question;
  struct lls_api_error error;
  struct texts texts;
  LLS_API_ON_MAIN(api);
  if (!is_there(api, exchange))
    return;
  int rc = read_body(&exchange->request.body, &texts, &question, &error);
  if (rc == 0)
    rc = ask(api, &question, &error);
  if (rc == 0)
    tell(api, exchange, 202);
  else
    lls_api_error_reply(exchange, &error);
  free_texts(&texts);
}

void lls_handle_admin_whatif(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  LLS_API_ON_MAIN(api);
  if (is_there(api, exchange))
    tell(api, exchange, 200);
}

void lls_handle_admin_whatif_give_up(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  LLS_API_ON_MAIN(api);
  if (!is_there(api, exchange))
    return;
  api->config.admin.whatif.give_up(api->config.admin.context);
  tell(api, exchange, 200);
}
