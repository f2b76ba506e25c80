/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy in another process: it gets each view as a line of JSON, calls what a policy
 * in C calls, and ends the plan. For prototypes in the simulator: a plan takes the child
 * milliseconds.
 *
 * A child that ends, is silent for `timeout` or writes anything but calls is ended, with
 * a sentence in the log; each plan after it fails, so that the core switches the
 * scheduler off and the built-in order goes on.
 */
#include "pipe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the child, and logs why. Returns -EIO. */
static __attribute__((format(printf, 2, 3))) int give_up(struct pipe *p,
                                                         const char *format, ...)
{
  const struct lls_host *host = p->base.host;
  char why[512], how[64] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  child_end(&p->child, how, sizeof how);
  host->log(host->context, LLS_LOG_ERROR, "command \"%s\" %s; %s", p->params.command, why,
            how);
  return -EIO;
}

/* Sends a value as a line, which ends its life. */
static int send_line(struct pipe *p, json_t *value)
{
  char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  json_decref(value);
  if (text == NULL)
    return give_up(p, "gets no message: no memory for it, or a text that is no UTF-8");
  size_t n = strlen(text);
  text[n] = '\n'; /* in place of the end, which is not sent */
  int rc = child_write(&p->child, text, n + 1, p->params.timeout);
  free(text);
  if (rc == -ETIMEDOUT)
    return give_up(p, "reads nothing for %.3g s", (double)p->params.timeout / 1e9);
  return rc == 0 ? 0 : give_up(p, "has ended");
}

/* Returns the child's next line as JSON, NULL after giving it up. */
static json_t *next_line(struct pipe *p)
{
  char *line;
  json_error_t where;
  int rc = child_read(&p->child, &line, p->params.timeout);
  if (rc == -ETIMEDOUT)
    give_up(p, "has answered nothing for %.3g s", (double)p->params.timeout / 1e9);
  else if (rc == -EMSGSIZE)
    give_up(p, "wrote a line of more than 1 MiB");
  else if (rc < 0)
    give_up(p, "has ended");
  if (rc < 0)
    return NULL;
  json_t *value = json_loads(line, JSON_REJECT_DUPLICATES, &where);
  if (value == NULL)
    give_up(p, "wrote \"%.80s\", which is not JSON: %s", line, where.text);
  return value;
}

/* ["end"] or ["end", time of the next plan if this one is empty] */
static bool is_end(const struct pipe *p, const json_t *call)
{
  const char *name = json_string_value(json_array_get(call, 0));
  const json_t *until = json_array_get(call, 1);
  if (name == NULL || strcmp(name, "end") != 0)
    return false;
  if (json_is_integer(until))
    p->step.plan->idle_until_ns = json_integer_value(until);
  return true;
}

/* Carries out the child's calls until it ends the plan. Their number has a bound, so that
 * a child that calls for ever is noticed. */
static int carry_out(struct pipe *p)
{
  const struct lls_step_view *v = p->step.view;
  uint64_t most = 1000 + 100 * ((uint64_t)v->n_waiting + v->n_running + v->n_preempted);
  for (uint64_t i = 0; i < most; i++) {
    char why[256] = "";
    json_t *call = next_line(p);
    if (call == NULL)
      return -EIO;
    bool end = is_end(p, call);
    json_t *result = end ? NULL : pipe_call(p, call, why, sizeof why);
    if (!end && result == NULL) {
      char *text = json_dumps(call, JSON_COMPACT | JSON_ENCODE_ANY);
      give_up(p, "called %.120s: %s", text != NULL ? text : "?", why);
      free(text);
    }
    json_decref(call);
    if (end)
      return 0;
    if (result == NULL || send_line(p, result) < 0)
      return -EIO;
  }
  return give_up(p, "has made %" PRIu64 " calls for one plan", most);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct pipe *p = self;
  if (p->child.pid == 0)
    return -EIO;
  lls_pol_step_begin(&p->step, view, out, p->params.watermark);
  lls_pol_step_drafts(&p->step, p->base.host->cost);
  p->step.sequences = lls_pol_min(p->step.sequences, (uint32_t)p->params.max_seqs);
  lls_pol_step_end(&p->step);
  int rc = send_line(p, pipe_view(view, p->events));
  json_array_clear(p->events);
  return rc < 0 ? rc : carry_out(p);
}

/* ---- events for the next plan ------------------------------------------------------ */

/* Keeps an event, unless no plan will follow. */
static void note(struct pipe *p, json_t *event)
{
  if (p->child.pid > 0)
    json_array_append_new(p->events, event);
  else
    json_decref(event);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  static const char *const reasons[] = {"handed_over", "stop",     "length", "cancelled",
                                        "capacity",    "rejected", "error"};
  note(self, json_pack("[s, I, s]", "finish", (json_int_t)r->id, reasons[reason]));
}

static void on_refused(void *self, const struct lls_request *r, uint32_t refusal)
{
  static const char *const refusals[] = {"",         "no_memory",   "never_fits",
                                         "bad_item", "unsupported", "postponed"};
  note(self, json_pack("[s, I, s]", "refused", (json_int_t)r->id, refusals[refusal]));
}

static void on_step(void *self, const struct lls_step_report *report)
{
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_step_result *r = &report->results[i];
    note(self, json_pack("[s, I, I, I]", "ran", (json_int_t)r->request->id,
                         (json_int_t)r->tokens, (json_int_t)r->emitted));
  }
}

/* ---- life -------------------------------------------------------------------------- */

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  lls_pol_step_preferences(out, ((const struct pipe *)self)->params.preempt);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_STRING(struct params, command, "",
                     "the shell's command that starts the policy, such as \"python3 "
                     "policy.py\"; must be set"),
    LLS_PARAM_DURATION(struct params, timeout, "30s", 1e7, 3600e9,
                       "how long the policy may be silent"),
    LLS_POL_STEP_MAX_SEQS(struct params, "256"),
    LLS_POL_STEP_PARAMETERS(struct params),
};

static void destroy(void *self)
{
  struct pipe *p = self;
  char how[64];
  child_end(&p->child, how, sizeof how);
  json_decref(p->events);
  free(p);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct pipe *p = LLS_POL_SCHEDULER_NEW(struct pipe, host, parameters, params);
  if (p == NULL)
    return -ENOMEM;
  *self = p; /* destroyed if this fails */
  p->events = json_array();
  if (p->events == NULL)
    return -ENOMEM;
  if (p->params.command[0] == '\0')
    return host->fail(host->context, -EINVAL,
                      "[scheduler.pipe] command is empty: it starts the policy, such as "
                      "command = python3 policy.py");
  int rc = child_start(&p->child, p->params.command);
  return rc == 0 ? 0
                 : host->fail(host->context, rc, "cannot start \"%s\": %s",
                              p->params.command, strerror(-rc));
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_step = on_step,
    .on_finish = on_finish,
    .on_refused = on_refused,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("pipe", struct params,
                         "a policy in another process, for prototypes in the simulator");
