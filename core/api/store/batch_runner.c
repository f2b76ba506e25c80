/* SPDX-License-Identifier: Apache-2.0 */
/* See batch_runner.h. */
#include "core/api/store/batch_runner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "core/api/accounts.h"
#include "core/api/store/line_answer.h"
#include "core/api/generation.h"
#include "core/api/offline.h"
#include "core/batch/progress.h"

struct line {
  struct lls_offline offline; /* first */
  struct lls_batch_runner *runner;
  struct lls_batch_line *what;
  struct line *prev, *next; /* links of the list `ready` or `running` */
};

struct lls_batch_runner {
  struct lls_store_front *front;
  struct line *ready, *running; /* utlists */
  uint32_t n_ready, n_running;
  bool asked;   /* a request to the store for more lines is pending */
  bool stopped; /* draining */
};

static void move_to_ready(struct line *line)
{
  DL_DELETE(line->runner->running, line);
  line->runner->n_running--;
  DL_PREPEND(line->runner->ready, line);
  line->runner->n_ready++;
}

static void free_line(struct line *line)
{
  lls_batch_line_free(line->what);
  free(line);
}

/* ---- to the store ------------------------------------------------------------------ */

/* The result of a line; json NULL: no final answer. */
struct outcome {
  struct lls_store_job job;
  char batch[LLS_BATCH_ID_BYTES];
  uint64_t number;
  bool failed;
  char *json;
  uint32_t tries;
  int64_t again_ns; /* json NULL: delay until the next run; 0: no further run */
};

static void tell(struct lls_store_job *job, struct lls_store *store)
{
  const struct outcome *outcome = (const struct outcome *)job;
  if (outcome->json != NULL)
    lls_progress_put(store, outcome->batch, outcome->number, outcome->failed,
                     outcome->json);
  else if (outcome->again_ns > 0)
    lls_progress_put_off(store, outcome->batch, outcome->number, outcome->tries,
                         outcome->again_ns);
  else
    lls_progress_give_back(store, outcome->batch, outcome->number);
}

static void told(struct lls_store_job *job)
{
  struct outcome *outcome = (struct outcome *)job;
  free(outcome->json);
  free(outcome);
}

/* Posts the result to the store and takes what.json over. If out of memory, the line
 * stays marked as taken and is run after the next start. */
static void post_outcome(const struct line *line, struct outcome what)
{
  struct lls_store *store = line->runner->front->store;
  struct outcome *outcome = store != NULL ? calloc(1, sizeof *outcome) : NULL;
  if (outcome == NULL) {
    free(what.json);
    return;
  }
  *outcome = what;
  outcome->job = (struct lls_store_job){.run = tell, .done = told};
  outcome->number = line->what->number;
  strcpy(outcome->batch, line->what->batch);
  lls_store_post(store, &outcome->job);
}

/* Returns true if the server is shutting down or the engine has failed: a failure then
 * is not the line's fault. */
static bool is_over(const struct lls_batch_runner *runner)
{
  struct lls_api *api = runner->front->api;
  struct lls_error why;
  return runner->stopped || api->draining || lls_loop_failed(api->config.loop, &why);
}

/* Decides whether an answer is final or the line runs again; json NULL: out of memory
 * for the answer. */
static struct outcome judge(const struct line *line, unsigned status, const char *json)
{
  uint32_t tries = line->what->tries + 1;
  if (is_over(line->runner) && status != 200)
    return (struct outcome){.tries = line->what->tries, .again_ns = LLS_LINE_PAUSE_NS};
  int64_t again_ns = lls_line_retry(json != NULL ? status : 503, tries);
  char *text = json != NULL && again_ns == 0
                   ? lls_line_answer(line->what->custom_id, status, json)
                   : NULL;
  if (text != NULL)
    return (struct outcome){.failed = status != 200, .json = text};
  if (again_ns == 0)
    again_ns = LLS_LINE_PAUSE_NS; /* out of memory for the text of the last answer */
  return (struct outcome){.tries = tries, .again_ns = again_ns};
}

static void on_answer(struct lls_offline *offline, unsigned status, const char *json,
                      size_t length)
{
  struct line *line = (struct line *)offline;
  struct lls_batch_runner *runner = line->runner;
  (void)length;
  post_outcome(line, judge(line, status, json));
  DL_DELETE(runner->running, line);
  runner->n_running--;
  free_line(line);
  if (runner->front->store != NULL)
    uv_async_send(&runner->front->wake); /* another line may start */
}

/* ---- from the store ---------------------------------------------------------------- */

struct taking {
  struct lls_store_job job;
  struct lls_batch_runner *runner;
  uint32_t most;
  struct lls_batch_line *lines;
};

static void take(struct lls_store_job *job, struct lls_store *store)
{
  struct taking *taking = (struct taking *)job;
  lls_progress_take(store, taking->most, &taking->lines);
}

static void add_ready(struct lls_batch_runner *runner, struct lls_batch_line *what)
{
  struct line *line = calloc(1, sizeof *line);
  if (line == NULL) { /* stays taken in the store until the next start */
    lls_batch_line_free(what);
    return;
  }
  line->runner = runner;
  line->what = what;
  line->offline.answer = on_answer;
  line->offline.tenant = what->tenant;
  DL_APPEND(runner->ready, line);
  runner->n_ready++;
}

static void taken(struct lls_store_job *job)
{
  struct taking *taking = (struct taking *)job;
  struct lls_batch_line *next;
  taking->runner->asked = false;
  for (struct lls_batch_line *line = taking->lines; line != NULL; line = next) {
    next = line->next;
    add_ready(taking->runner, line);
  }
  free(taking);
}

static void ask(struct lls_batch_runner *runner, uint32_t most)
{
  struct taking *taking = calloc(1, sizeof *taking);
  if (taking == NULL)
    return;
  *taking = (struct taking){
      .job = {.run = take, .done = taken}, .runner = runner, .most = most};
  runner->asked = true;
  lls_store_post(runner->front->store, &taking->job);
}

/* ---- running ----------------------------------------------------------------------- */

const struct lls_dialect *lls_runner_dialect(const struct lls_api *api,
                                             const char *endpoint)
{
  LLS_API_ON_MAIN(api);
  for (size_t i = 0; i < api->n_routes; i++) {
    const struct lls_dialect *dialect = api->routes[i].dialect;
    if (dialect != NULL && dialect->batch_path != NULL &&
        strcmp(dialect->batch_path, endpoint) == 0)
      return dialect;
  }
  return NULL;
}

/* Puts off a line whose tenant has used up its tokens, so that lines of other tenants
 * can run. */
static void put_off(struct line *line)
{
  struct lls_batch_runner *runner = line->runner;
  post_outcome(
      line, (struct outcome){.tries = line->what->tries, .again_ns = LLS_LINE_PAUSE_NS});
  DL_DELETE(runner->running, line);
  runner->n_running--;
  free_line(line);
}

static void start(struct line *line)
{
  struct lls_batch_runner *runner = line->runner;
  struct lls_batch_line *what = line->what;
  struct lls_text body = {0};
  int64_t left_s = what->expires_s - (int64_t)time(NULL);
  DL_DELETE(runner->ready, line);
  runner->n_ready--;
  DL_APPEND(runner->running, line);
  runner->n_running++;
  if (!lls_account_has_tokens(runner->front->api, line->offline.tenant)) {
    put_off(line);
    return;
  }
  line->offline.begun = false;
  line->offline.deadline_ns = (left_s > 1 ? left_s : 1) * LLS_NS_PER_S;
  lls_text_append(&body, what->body.data, what->body.length);
  struct lls_api *api = runner->front->api;
  lls_generation_run(api, &body, &line->offline, lls_runner_dialect(api, what->endpoint));
}

static uint32_t count_waiting(const struct lls_batch_runner *runner)
{
  const struct line *line;
  uint32_t n = 0;
  DL_FOREACH (runner->running, line)
    n += !line->offline.begun;
  return n;
}

void lls_runner_feed(struct lls_batch_runner *runner)
{
  struct lls_api *api = runner->front->api;
  uint32_t most = (uint32_t)api->config.limits.batch_requests;
  uint32_t queue = most / 4 + 1, waiting = count_waiting(runner);
  LLS_API_ON_MAIN(api);
  if (is_over(runner))
    return;
  for (; runner->ready != NULL && runner->n_running < most && waiting < queue; waiting++)
    start(runner->ready);
  if (!runner->asked && runner->n_ready < most &&
      lls_store_has_lines(runner->front->store))
    ask(runner, most);
}

/* ---- giving up --------------------------------------------------------------------- */

typedef bool (*line_test)(const struct line *line, const void *context);

static void give_back(struct line *line)
{
  post_outcome(line, (struct outcome){0});
  free_line(line);
}

/* Gives back the lines for which test returns true, except a line that is being read or
 * whose answer is being written: that line will be answered. */
static void give_back_if(struct lls_batch_runner *runner, line_test test,
                         const void *context)
{
  struct line *line, *next;
  DL_FOREACH_SAFE (runner->running, line, next)
    if (test(line, context) && lls_offline_drop(&line->offline))
      move_to_ready(line);
  DL_FOREACH_SAFE (runner->ready, line, next) {
    if (!test(line, context))
      continue;
    DL_DELETE(runner->ready, line);
    runner->n_ready--;
    give_back(line);
  }
}

static bool is_overdue(const struct line *line, const void *now_s)
{
  return line->what->expires_s <= *(const int64_t *)now_s;
}

void lls_runner_tick(struct lls_batch_runner *runner)
{
  int64_t now_s = (int64_t)time(NULL);
  LLS_API_ON_MAIN(runner->front->api);
  give_back_if(runner, is_overdue, &now_s);
  lls_runner_feed(runner);
}

static bool is_of(const struct line *line, const void *batch)
{
  return strcmp(line->what->batch, batch) == 0;
}

void lls_runner_cancel(struct lls_batch_runner *runner, const char *batch)
{
  LLS_API_ON_MAIN(runner->front->api);
  give_back_if(runner, is_of, batch);
}

void lls_runner_drain(struct lls_batch_runner *runner)
{
  struct line *line, *next;
  LLS_API_ON_MAIN(runner->front->api);
  runner->stopped = true;
  DL_FOREACH_SAFE (runner->running, line, next)
    if (lls_offline_drop(&line->offline))
      move_to_ready(line);
}

/* ---- life -------------------------------------------------------------------------- */

struct lls_batch_runner *lls_runner_create(struct lls_store_front *front)
{
  struct lls_batch_runner *runner = calloc(1, sizeof *runner);
  LLS_API_ON_MAIN(front->api);
  if (runner != NULL)
    runner->front = front;
  return runner;
}

static void free_lines(struct line *lines)
{
  struct line *line, *next;
  DL_FOREACH_SAFE (lines, line, next)
    free_line(line);
}

void lls_runner_free(struct lls_batch_runner *runner)
{
  if (runner == NULL)
    return;
  LLS_API_ON_MAIN(runner->front->api);
  free_lines(runner->ready);
  free_lines(runner->running);
  free(runner);
}
