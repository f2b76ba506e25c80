/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a decision log. Arrivals, cancellations and lengths of answers come from the
 * log; the clock is set to each plan's time, and a step takes the logged time. The
 * scheduler of the configuration plans, and its plans are compared with the log's.
 * Limits and memory come from the log's first line, policies from -c and --set. Two
 * things are not repeated: the parts of a step's duration (the cost service learns from
 * the whole), and empty plans, so a scheduler that counts its calls may diverge by one.
 */
#include "tools/sim/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sim/sim.h"
#include "tools/sim/decisions.h"
#include "tools/sim/machine.h"
#include "tools/workload/workload.h"

struct replayed { /* one of the log's requests */
  uint64_t id;    /* id in this run */
  uint32_t generated, reason;
  bool ended; /* the log has its end; otherwise it was active when the log ended */
};

struct replay {
  struct lls_machine machine;
  struct lls_decisions decisions;
  char *header;              /* the H line after its kind */
  struct replayed *requests; /* (n) by number - 1 */
  size_t n;
  int32_t *prompt; /* (room) scratch */
  uint32_t room;
  uint32_t planned; /* plans made at this position */
};

/* ---- the first reading: the end of each request ------------------------------------ */

static int note_arrival(struct replay *r, const struct lls_decision_line *line,
                        struct lls_error *err)
{
  if (line->number != r->n + 1)
    return lls_fail(err, -EINVAL, "request %" PRIu64 " comes after request %zu",
                    line->number, r->n);
  if ((r->n & (r->n - 1)) == 0) { /* doubles the space */
    struct replayed *more =
        reallocarray(r->requests, r->n > 0 ? 2 * r->n : 1, sizeof *more);
    if (more == NULL)
      return lls_fail(err, -ENOMEM, "no memory for the log's requests");
    r->requests = more;
  }
  r->requests[r->n++] = (struct replayed){.id = 0};
  if (line->asked.prompt_tokens > r->room)
    r->room = line->asked.prompt_tokens;
  return 0;
}

static int note(struct replay *r, const struct lls_decision_line *line,
                struct lls_error *err)
{
  if (line->kind == 'A')
    return note_arrival(r, line, err);
  if (line->kind == 'E' && line->number >= 1 && line->number <= r->n)
    r->requests[line->number - 1] = (struct replayed){
        .generated = line->generated, .reason = line->reason, .ended = true};
  if (line->kind == 'H' && r->header == NULL)
    r->header = strdup(line->rest);
  return 0;
}

static int read_all(struct replay *r, const char *path, struct lls_error *err)
{
  struct lls_decision_file file;
  struct lls_decision_line line = {0};
  int rc = lls_decision_file_open(&file, path, err);
  if (rc < 0)
    return rc;
  while ((rc = lls_decision_file_next(&file, &line, err)) > 0)
    if ((rc = note(r, &line, err)) < 0)
      break;
  lls_text_free(&line.items);
  lls_decision_file_close(&file);
  if (rc < 0)
    return rc;
  if (r->header == NULL || r->n == 0)
    return lls_fail(err, -EINVAL, "%s: is no decision log, or an empty one", path);
  r->prompt = calloc(r->room, sizeof *r->prompt);
  return r->prompt != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for a prompt");
}

/* ---- the machine ------------------------------------------------------------------- */

static void on_arrival(void *context, const struct lls_request *request)
{
  lls_decisions_arrival(&((struct replay *)context)->decisions, request);
}

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  struct replay *r = context;
  (void)own;
  r->planned++;
  if (!r->decisions.parted)
    lls_decisions_compare(&r->decisions, view->now_ns, plan);
}

/* Returns the settings of a header "fcfs paged none cache.block_tokens=16 ...": the
 * text after the three names. */
static const char *settings_of(const char *header)
{
  for (int names = 0; names < 3 && header != NULL; names++) {
    header = strchr(header, ' ');
    header = header != NULL ? header + 1 : NULL;
  }
  return header != NULL ? header : "";
}

static int open_machine(struct replay *r, const struct lls_sim_tool_options *o,
                        struct lls_error *err)
{
  const struct lls_loop_observer observer = {
      .context = r, .on_arrival = on_arrival, .on_plan = on_plan};
  int rc = lls_machine_open(&r->machine, o, settings_of(r->header), 0, &observer, err);
  if (rc < 0)
    return rc;
  return lls_decisions_open(&r->decisions, o->record, o->replay,
                            (uint32_t)r->machine.config.engine.max_requests, err);
}

/* ---- the second reading: all of it again ------------------------------------------- */

/* Makes tokens that are equal exactly where the log's hashes are. It uses the
 * generator's high bits, since its low bits depend on the hash's low bits alone. Tokens
 * beyond the last hash are unique to the request. */
static void make_prompt(struct replay *r, const struct lls_decision_line *line)
{
  const char *at = line->rest;
  uint32_t vocab = r->machine.model.vocab, hash = 0;
  for (uint32_t i = 0; i < line->asked.prompt_tokens; i++) {
    if (i % LLS_DECISION_HASHED == 0) {
      char *end;
      hash = (uint32_t)strtoul(at, &end, 16);
      if (end == at)
        hash = (uint32_t)line->number * UINT32_C(2654435761);
      at = end;
    }
    hash = hash * UINT32_C(1664525) + UINT32_C(1013904223);
    r->prompt[i] = (int32_t)((uint64_t)hash * vocab >> 32);
  }
}

static int arrive(struct replay *r, const struct lls_decision_line *line,
                  struct lls_error *err)
{
  const struct lls_request *asked = &line->asked;
  struct replayed *request = &r->requests[line->number - 1];
  bool whole = request->ended && (request->reason == LLS_FINISH_STOP ||
                                  request->reason == LLS_FINISH_LENGTH);
  char tenant[LLS_ITEM_TENANT_BYTES];
  make_prompt(r, line);
  const struct lls_submission s = {
      .tokens = r->prompt,
      .n_tokens = asked->prompt_tokens,
      .label = "",
      .sampling = {.top_p = 1,
                   .repetition_penalty = 1,
                   .seed = whole ? request->generated : UINT32_MAX},
      .max_new_tokens = asked->max_new_tokens,
      .pooling = asked->max_new_tokens == 0 ? LLS_POOLING_LAST : LLS_POOLING_NONE,
      .request_class = asked->request_class,
      .priority = asked->priority,
      .tenant = asked->tenant,
      .tenant_name = lls_item_tenant(asked->tenant, tenant),
      .slo = asked->slo,
      .arrival_ns = line->time_ns,
      .owner = request,
  };
  int rc = lls_loop_submit(r->machine.loop, &s, &request->id, NULL);
  return rc == 0 ? 0
                 : lls_fail(err, rc,
                            "request %" PRIu64 " of the log is not taken here: is this "
                            "the same model?",
                            line->number);
}

static void forget(void *context, const struct lls_event *event)
{
  (void)context;
  (void)event;
}

/* Plans at the logged time. A turn that plans nothing is compared with the log as an
 * empty plan, since the log omits such plans. */
static int plan(struct replay *r, struct lls_decision_line *line, struct lls_error *err)
{
  struct lls_text before = r->decisions.expected.items;
  r->decisions.expected = *line; /* borrowed from the line */
  lls_sim_advance(r->machine.devices[0], line->time_ns);
  lls_sim_next_step(r->machine.devices[0], line->duration_ns);
  r->planned = 0;
  int rc = lls_loop_step(r->machine.loop);
  lls_loop_events(r->machine.loop, forget, NULL);
  if (r->planned == 0 && !r->decisions.parted)
    lls_decisions_compare(&r->decisions, line->time_ns, &(struct lls_plan){.n_items = 0});
  if (r->decisions.parted) /* kept for the report */
    *line = (struct lls_decision_line){0};
  else
    r->decisions.expected.items = before;
  return rc < 0 ? lls_fail(err, rc, "the engine failed") : 0;
}

static int repeat(struct replay *r, struct lls_decision_line *line, struct lls_error *err)
{
  if (line->kind == 'A')
    return arrive(r, line, err);
  if (line->kind == 'P')
    return plan(r, line, err);
  if (line->kind == 'E' && line->number >= 1 && line->number <= r->n &&
      line->reason == LLS_FINISH_CANCELLED)
    lls_loop_cancel(r->machine.loop, r->requests[line->number - 1].id);
  return 0;
}

static int repeat_all(struct replay *r, struct lls_error *err)
{
  struct lls_decision_line line = {0};
  int rc = 1;
  while (rc > 0 && !r->decisions.parted) {
    rc = lls_decision_file_next(&r->decisions.against, &line, err);
    if (rc > 0 && repeat(r, &line, err) < 0)
      rc = -EINVAL;
  }
  lls_text_free(&line.items);
  return rc < 0 ? rc : 0;
}

int lls_sim_replay(const struct lls_sim_tool_options *o, json_t **out,
                   struct lls_error *err)
{
  struct replay *r = calloc(1, sizeof *r);
  if (r == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = o->device == LLS_SIM_DEVICE_SIM
               ? read_all(r, o->replay, err)
               : lls_fail(err, -EINVAL, "--replay: the device is the simulated one");
  if (rc == 0)
    rc = open_machine(r, o, err);
  if (rc == 0)
    rc = repeat_all(r, err);
  if (rc == 0) {
    lls_decisions_print(&r->decisions, stdout);
    *out = lls_decisions_json(&r->decisions);
  }
  lls_decisions_close(&r->decisions, NULL);
  lls_machine_close(&r->machine);
  free(r->header);
  free(r->requests);
  free(r->prompt);
  free(r);
  return rc;
}
