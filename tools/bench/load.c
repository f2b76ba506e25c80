/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a workload and reads its answers. Times are measured as in vLLM: a request's
 * clock starts just before it is sent, its first token is the first chunk that has
 * `choices`, an inter-token latency is the gap between two such chunks, and the end is
 * the last of them (for chats: or the chunk with the usage). The number of tokens is
 * usage.completion_tokens or, if a server sends no usage, the number of chunks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

#include "core/base/json_parse.h"
#include "core/base/progress_bar.h"
#include "tools/bench/bench.h"
#include "tools/bench/look.h"
#include "tools/workload/random.h"

#define TICK_MS 250

struct request {
  struct lls_fetch fetch;
  struct lls_track track;
  struct load *load;
  const struct lls_item *item;
  bool cancels;          /* cancels after --cancel-after tokens */
  bool slow;             /* reads slowly */
  uint32_t usage_tokens; /* tokens by the server's usage; 0: not sent yet */
  bool texts;            /* the answer's text is kept */
  struct lls_text answer;
  struct request *prev, *next;
};

struct load {
  struct lls_bench *bench;
  const struct lls_workload *workload;
  struct lls_issuer *issuer;
  struct lls_report *report;
  uv_timer_t wake; /* timer for the next arrival */
  uv_timer_t tick; /* timeouts, the end by --stop-after, progress */
  struct request *live;
  uint64_t began_ns;
  uint64_t tokens;
  uint32_t ended, n_live;
  bool stopped, over;
  struct lls_progress progress;
  struct lls_look look;
  bool issuing; /* inside issue(), where a request may end at once by failing */
  int rc;
  struct lls_error *err;
};

static int64_t now_of(const struct load *load)
{
  return (int64_t)(uv_hrtime() - load->began_ns);
}

static void issue(struct load *load);

/* ---- the end of a request ---------------------------------------------------------- */

static void end_request(struct request *request, enum lls_outcome_status status,
                        const char *error)
{
  struct load *load = request->load;
  struct lls_report_outcome *outcome = &request->track.outcome;
  snprintf(outcome->error, sizeof outcome->error, "%s", error);
  outcome->untold = request->usage_tokens > 0 && request->usage_tokens != outcome->tokens;
  if (request->usage_tokens > 0)
    outcome->tokens = request->usage_tokens;
  if (request->texts && !request->answer.failed) {
    outcome->text = request->answer.data;
    outcome->text_bytes = request->answer.length;
    request->answer = (struct lls_text){0};
  }
  lls_text_free(&request->answer);
  lls_report_end(load->report, &request->track, status, now_of(load));
  lls_issuer_ended(load->issuer, request->item, now_of(load));
  DL_DELETE(load->live, request);
  load->n_live--;
  load->ended++;
  lls_text_free(&request->fetch.body);
  lls_text_free(&request->fetch.request);
  free(request);
}

static void hang_up(struct request *request, enum lls_outcome_status status,
                    const char *error)
{
  lls_fetch_cancel(&request->fetch);
  end_request(request, status, error);
}

/* Writes an error such as "HTTP 429: too many requests", with or without OpenAI's error
 * object. */
static void describe_refusal(const struct lls_fetch *fetch, char *out, size_t size)
{
  json_t *body =
      fetch->body.length > 0
          ? lls_json_parse(fetch->body.data, fetch->body.length, JSON_ALLOW_NUL, NULL)
          : NULL;
  const json_t *error = json_object_get(body, "error");
  const char *message = json_string_value(json_object_get(error, "message"));
  snprintf(out, size, "HTTP %u%s%s", fetch->status, message != NULL ? ": " : "",
           message != NULL ? message : "");
  json_decref(body);
}

static void on_end(struct lls_fetch *fetch, int status)
{
  struct request *request = fetch->context;
  struct load *load = request->load;
  char error[80] = "";
  /* the stream has already reported an error */
  if (request->track.outcome.error[0] != '\0')
    snprintf(error, sizeof error, "%s", request->track.outcome.error);
  else if (status < 0)
    snprintf(error, sizeof error, "%s", strerror(-status));
  else if (fetch->status != 200)
    describe_refusal(fetch, error, sizeof error);
  else if (request->track.outcome.first_token_ns == LLS_NEVER)
    snprintf(error, sizeof error, "no chunk with choices came");
  enum lls_outcome_status outcome = error[0] != '\0' ? LLS_OUTCOME_FAILED
                                    : request->slow  ? LLS_OUTCOME_CANCELLED
                                                     : LLS_OUTCOME_COMPLETED;
  end_request(request, outcome, error);
  issue(load);
}

/* ---- its tokens -------------------------------------------------------------------- */

/* Returns the text of a chunk as a string; NULL if it has none. */
static const json_t *text_of(const json_t *choices)
{
  const json_t *choice = json_array_get(choices, 0);
  const json_t *delta = json_object_get(choice, "delta");
  const json_t *text =
      delta != NULL ? json_object_get(delta, "content") : json_object_get(choice, "text");
  return json_string_length(text) > 0 ? text : NULL;
}

static void take_usage(struct request *request, const json_t *usage, int64_t now_ns)
{
  json_int_t tokens = json_integer_value(json_object_get(usage, "completion_tokens"));
  if (tokens <= 0)
    return;
  request->usage_tokens = (uint32_t)tokens;
  if (request->load->bench->chat && request->track.outcome.first_token_ns != LLS_NEVER)
    request->track.outcome.last_token_ns = now_ns;
}

/* Returns the tokens of a chunk: by its ids or its own usage; else 1. */
static uint32_t tokens_of(const struct request *request, const json_t *chunk)
{
  const json_t *choices = json_object_get(chunk, "choices"),
               *usage = json_object_get(chunk, "usage"),
               *ids = json_object_get(json_array_get(choices, 0), "token_ids"),
               *told = json_object_get(usage, "completion_tokens");
  json_int_t so_far = json_integer_value(told), before = request->track.outcome.tokens;
  if (json_array_size(ids) > 0)
    return (uint32_t)json_array_size(ids);
  if (!json_is_integer(told))
    return 1;
  return so_far > before && so_far < UINT32_MAX ? (uint32_t)(so_far - before) : 0;
}

/* Returns true if the request is over, because it was cancelled. */
static bool take_choices(struct request *request, const json_t *chunk, int64_t now_ns)
{
  const json_t *choices = json_object_get(chunk, "choices");
  const struct lls_bench_options *o = request->load->bench->options;
  struct lls_report_outcome *outcome = &request->track.outcome;
  if (json_array_size(choices) == 0)
    return false;
  uint32_t tokens = tokens_of(request, chunk);
  const json_t *text = text_of(choices);
  lls_report_tokens(request->load->report, &request->track, now_ns, tokens);
  request->load->tokens += tokens;
  if (outcome->first_content_ns == LLS_NEVER && text != NULL)
    outcome->first_content_ns = now_ns;
  if (request->texts && text != NULL)
    lls_text_append(&request->answer, json_string_value(text), json_string_length(text));
  if (request->cancels && outcome->tokens >= (uint32_t)o->cancel_after)
    hang_up(request, LLS_OUTCOME_CANCELLED, "");
  else if (o->max_tokens == LLS_MAX_TOKENS_BOUND &&
           outcome->tokens >= request->item->output_tokens)
    hang_up(request, LLS_OUTCOME_COMPLETED, "");
  else
    return false;
  return true;
}

static void on_event(struct lls_fetch *fetch, const char *data, size_t length)
{
  struct request *request = fetch->context;
  struct load *load = request->load;
  int64_t now_ns = now_of(load);
  if (length == 6 && memcmp(data, "[DONE]", 6) == 0)
    return;
  json_t *chunk =
      /* a token's text may contain \0 */
      lls_json_parse(data, length, JSON_ALLOW_NUL, NULL);
  const json_t *error = json_object_get(chunk, "error");
  const char *message = json_string_value(json_object_get(error, "message"));
  if (chunk == NULL || error != NULL)
    snprintf(request->track.outcome.error, sizeof request->track.outcome.error, "%s",
             chunk == NULL     ? "a chunk that is no JSON"
             : message != NULL ? message
                               : "an error in the stream");
  bool over = take_choices(request, chunk, now_ns);
  if (!over)
    take_usage(request, json_object_get(chunk, "usage"), now_ns);
  json_decref(chunk);
  if (over)
    issue(load);
}

static void on_sent(struct lls_fetch *fetch)
{
  struct request *request = fetch->context;
  struct load *load = request->load;
  if (!request->cancels || load->bench->options->cancel_after > 0)
    return;
  hang_up(request, LLS_OUTCOME_CANCELLED, "");
  issue(load);
}

/* ---- sending ----------------------------------------------------------------------- */

static void draw_fate(struct request *request)
{
  const struct lls_bench_options *o = request->load->bench->options;
  struct lls_random random = lls_random_at(request->load->workload->seed,
                                           LLS_STREAM_CLIENT, request->item->index);
  double at = lls_random_uniform(&random);
  request->cancels = at < o->cancel_fraction;
  request->slow = !request->cancels && at < o->cancel_fraction + o->slow_fraction;
  if (request->slow)
    request->fetch.bytes_per_second = (uint64_t)o->slow_rate;
}

static int send_item(struct load *load, const struct lls_item *item)
{
  struct request *request = calloc(1, sizeof *request);
  if (request == NULL)
    return lls_fail(load->err, -ENOMEM, "no memory for a request");
  request->load = load;
  request->item = item;
  request->texts = load->bench->options->save_detailed;
  request->fetch = (struct lls_fetch){
      .context = request, .on_event = on_event, .on_sent = on_sent, .on_end = on_end};
  int rc = lls_bench_request(load->bench, load->workload, item, &request->fetch.request,
                             load->err);
  if (rc < 0) {
    lls_text_free(&request->fetch.request);
    free(request);
    return rc;
  }
  draw_fate(request);
  DL_APPEND(load->live, request);
  load->n_live++;
  lls_report_begin(load->report, &request->track, item, now_of(load));
  lls_fetch_send(load->bench->client, &request->fetch);
  return 0;
}

static void finish(struct load *load)
{
  if (load->over)
    return;
  load->over = true;
  uv_close((uv_handle_t *)&load->wake, NULL);
  uv_close((uv_handle_t *)&load->tick, NULL);
  if (load->bench->looks)
    lls_look_end(&load->look);
  lls_client_close(load->bench->client);
}

/* Stops the load: sends no more requests and cancels the running ones. */
static void stop(struct load *load)
{
  load->stopped = true;
  while (load->live != NULL)
    hang_up(load->live, LLS_OUTCOME_CANCELLED, "");
  finish(load);
}

static void on_wake(uv_timer_t *timer)
{
  issue(timer->data);
}

/* Sends all requests that are due; sets the timer for the next one. */
static void issue(struct load *load)
{
  int64_t wake_ns;
  const struct lls_item *item;
  if (load->issuing)
    return;
  load->issuing = true;
  while (!load->stopped && load->rc == 0 &&
         (item = lls_issuer_next(load->issuer, now_of(load), &wake_ns)) != NULL)
    load->rc = send_item(load, item);
  load->issuing = false;
  if (load->stopped)
    return;
  if (load->rc < 0)
    stop(load);
  else if (lls_issuer_done(load->issuer))
    finish(load);
  else if (wake_ns != LLS_NEVER)
    uv_timer_start(&load->wake, on_wake,
                   (uint64_t)((wake_ns - now_of(load)) / 1000000 + 1), 0);
}

/* ---- the clock --------------------------------------------------------------------- */

static void show_progress(struct load *load)
{
  char more[80];
  double s = (double)now_of(load) / LLS_NS_PER_S;
  snprintf(more, sizeof more, "%u running, %.1f tokens/s", load->n_live,
           (double)load->tokens / s);
  lls_progress_count(&load->progress, load->ended, lls_issuer_total(load->issuer),
                     "requests", more);
}

static void end_late_ones(struct load *load)
{
  int64_t limit = now_of(load) - load->bench->options->timeout;
  struct request *request, *next;
  bool any = false;
  DL_FOREACH_SAFE (load->live, request, next) {
    if (request->track.outcome.started_ns >= limit)
      continue;
    hang_up(request, LLS_OUTCOME_FAILED, "timed out");
    any = true;
  }
  if (any)
    issue(load);
}

static void on_tick(uv_timer_t *timer)
{
  struct load *load = timer->data;
  int64_t stop_after = load->bench->options->stop_after;
  show_progress(load);
  if (stop_after != LLS_NEVER && now_of(load) >= stop_after)
    stop(load);
  else
    end_late_ones(load);
}

static double cpu_seconds(void)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int lls_bench_load(struct lls_bench *bench, const struct lls_workload *workload,
                   uint32_t max_concurrency, struct lls_report *report, bool progress,
                   struct lls_load_result *out, struct lls_error *err)
{
  struct load load = {.bench = bench, .workload = workload, .report = report, .err = err};
  uint64_t connections = lls_client_connections(bench->client);
  double cpu = cpu_seconds();
  if (lls_issuer_create(workload, max_concurrency, &load.issuer) < 0)
    return lls_fail(err, -ENOMEM, "no memory for the load");
  uv_timer_init(&bench->uv, &load.wake);
  uv_timer_init(&bench->uv, &load.tick);
  load.wake.data = load.tick.data = &load;
  uv_timer_start(&load.tick, on_tick, TICK_MS, TICK_MS);
  load.began_ns = uv_hrtime();
  lls_progress_begin(&load.progress, progress, "llmserve-bench");
  if (bench->looks)
    lls_look_begin(&load.look, bench, report, (int64_t)load.began_ns);
  issue(&load);
  uv_run(&bench->uv, UV_RUN_DEFAULT);
  lls_progress_end(&load.progress);
  *out = (struct lls_load_result){
      .client_cpu_s = cpu_seconds() - cpu,
      .elapsed_s = (double)now_of(&load) / LLS_NS_PER_S,
      .connections = lls_client_connections(bench->client) - connections,
      .stopped = load.stopped,
  };
  lls_issuer_destroy(load.issuer);
  return load.rc;
}
