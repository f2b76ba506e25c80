/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns events of the step loop into text. A token is held until the next event of its
 * choice or the end of the batch of events, so that the last token is sent together
 * with the finish reason.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/api/account.h"
#include "core/api/accounts.h"
#include "core/api/chat_answer.h"
#include "core/api/reply.h"
#include "core/api/stops.h"

static double seconds(int64_t from_ns, int64_t to_ns)
{
  return (double)(to_ns - from_ns) / 1e9;
}

/* ---- tokens --------------------------------------------------------------------- */

static void time_token(struct lls_choice *choice)
{
  struct lls_api_stats *stats = &choice->generation->api->stats;
  int64_t now = (int64_t)uv_hrtime();
  int64_t gap = now - choice->last_token_ns;
  if (choice->first_token_ns == 0) {
    choice->first_token_ns = now;
    lls_histogram_observe(&stats->ttft, seconds(choice->generation->arrival_ns, now));
    if (choice->generation->offline != NULL)
      choice->generation->offline->begun = true;
  } else {
    lls_histogram_observe(&stats->inter_token, (double)gap / 1e9);
    choice->longest_gap_ns = gap > choice->longest_gap_ns ? gap : choice->longest_gap_ns;
  }
  choice->last_token_ns = now;
}

static void remember_token(struct lls_choice *choice, const struct lls_sampled *token)
{
  if (choice->n_unreported == choice->token_capacity) {
    uint32_t capacity = choice->token_capacity > 0 ? choice->token_capacity * 2 : 4;
    struct lls_sampled *more = realloc(choice->tokens, capacity * sizeof *more);
    if (more == NULL) {
      choice->generation->incomplete = true;
      return;
    }
    choice->tokens = more;
    choice->token_capacity = capacity;
  }
  choice->tokens[choice->n_unreported++] = *token;
}

/* Returns the finish reason of an answer that was not cut by its length; "tool_calls"
 * only if the answer's calls are complete. */
static const char *stopped_reason(const struct lls_choice *choice)
{
  return lls_tool_answer_calls(&choice->answer) ? "tool_calls" : "stop";
}

static void stop_choice(struct lls_choice *choice)
{
  LLS_CHECK(choice->state == LLS_CHOICE_LIVE);
  choice->state = LLS_CHOICE_STOPPED;
  lls_chat_answer_end(choice, lls_stops_ended(choice));
  choice->finish_reason = stopped_reason(choice);
  lls_loop_cancel(choice->generation->api->config.loop, choice->request);
}

static bool is_requested_stop(const struct lls_api_params *params, int32_t token)
{
  for (size_t i = 0; i < params->n_stop_tokens; i++)
    if (params->stop_tokens[i] == token)
      return true;
  return false;
}

static void mark_unflushed(struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  if (choice->unflushed || !(generation->params.stream || generation->dialect->gathers))
    return;
  choice->unflushed = true;
  DL_APPEND(choice->generation->api->unflushed, choice);
}

static void flush(struct lls_choice *choice)
{
  LLS_CHECK(choice->ready <= choice->text.length);
  if (!choice->unflushed)
    return;
  choice->unflushed = false;
  DL_DELETE(choice->generation->api->unflushed, choice);
  lls_reply_chunk(choice);
}

/* Copies the prompt's scores, which are freed with the request in the step loop; the
 * answer may be written later. */
static void keep_scores(struct lls_choice *choice, const struct lls_event *event)
{
  size_t bytes = choice->prompt->n_tokens * sizeof *choice->scores;
  if (event->prompt_scores == NULL || choice->scores != NULL)
    return;
  choice->scores = malloc(bytes);
  if (choice->scores != NULL)
    memcpy(choice->scores, event->prompt_scores, bytes);
  else
    choice->generation->incomplete = true;
}

/* Adds a token to the choice; the token may end the choice. */
static void add_token(struct lls_choice *choice, const struct lls_sampled *sampled,
                      bool hidden)
{
  struct lls_generation *generation = choice->generation;
  char *piece = generation->api->piece;
  choice->n_tokens++;
  lls_account_charge(generation->account, 1);
  if (choice->reports)
    remember_token(choice, sampled);
  if (!hidden)
    lls_stops_add_text(choice, piece,
                       lls_chat_answer_text(choice, sampled->token, piece));
  else if (is_requested_stop(&generation->params, sampled->token))
    choice->stop_token = sampled->token;
  bool over = lls_chat_answer_take(choice, !hidden);
  if (lls_stops_ended(choice) || over)
    stop_choice(choice);
}

/* Reports that `computed` tokens of the prompt are computed. The first report is about
 * the tokens that were found in the cache. */
static void report_progress(struct lls_choice *choice, uint32_t computed)
{
  int64_t now_ns = (int64_t)uv_hrtime();
  if (!lls_reply_has_progress(choice->generation))
    return;
  if (choice->progress_ns == 0) {
    choice->progress_ns = now_ns;
    choice->n_computed = choice->shared_tokens;
    lls_reply_progress(choice);
  }
  if (computed <= choice->n_computed)
    return;
  choice->progress_ns = now_ns;
  choice->n_computed = computed;
  lls_reply_progress(choice);
}

static void on_progress(struct lls_choice *choice, const struct lls_event *event)
{
  if (choice->state == LLS_CHOICE_LIVE && lls_generation_is_wanted(choice->generation))
    report_progress(choice, event->computed_tokens);
}

/* Adds an event's token and the tokens that the grammar forces after it; they are sent
 * together. */
static void on_token(struct lls_choice *choice, const struct lls_event *event)
{
  struct lls_generation *generation = choice->generation;
  if (choice->state != LLS_CHOICE_LIVE || !lls_generation_is_wanted(generation))
    return;
  keep_scores(choice, event);
  if (generation->params.max_tokens == 0)
    return;
  flush(choice);
  if (choice->first_token_ns == 0)
    report_progress(choice, (uint32_t)choice->prompt->n_tokens);
  time_token(choice);
  add_token(choice, &event->token, event->hidden_token);
  for (uint32_t i = 0; i < event->n_forced && choice->state == LLS_CHOICE_LIVE; i++) {
    const struct lls_sampled forced = {.token = event->forced[i]};
    add_token(choice, &forced, false);
  }
  mark_unflushed(choice);
}

/* ---- the end -------------------------------------------------------------------- */

static bool is_finite_vector(const struct lls_choice *choice)
{
  for (uint32_t c = 0;
       choice->vector != NULL && c < choice->generation->api->config.vector_columns; c++)
    if (!isfinite(choice->vector[c]))
      return false;
  return true;
}

/* Sets the error and logs it, for a result that is not finite: JSON has no such number,
 * and text sampled from such logits is meaningless. */
static void fail_without_number(const struct lls_generation *generation,
                                struct lls_api_error *error)
{
  static const char why[] =
      "the model computed a value that is not a finite number (NaN or infinity): its "
      "weights are damaged, or too large for the type that it is served in";
  const struct lls_log_field fields[] = {{.name = "error", .text = "not_a_number"},
                                         {.name = "why", .text = why}};
  lls_log_request(generation->api->config.log, LLS_LOG_ERROR, "api", generation->label,
                  fields, sizeof fields / sizeof *fields);
  lls_api_fail(error, 500, "not_a_number", NULL, "%s", why);
}

/* Returns true if this choice makes the whole answer fail; *error then says why. */
static bool has_failed(const struct lls_choice *choice, const struct lls_event *event,
                       struct lls_api_error *error)
{
  struct lls_api *api = choice->generation->api;
  struct lls_error why = {0};
  if (event->no_number || !is_finite_vector(choice)) {
    fail_without_number(choice->generation, error);
    return true;
  }
  switch (event->reason) {
  case LLS_FINISH_STOP:
  case LLS_FINISH_LENGTH:
    return false;
  case LLS_FINISH_CAPACITY:
    if (choice->n_tokens > 0)
      return false; /* a shorter answer, as at the end of the context */
    lls_api_fail(error, 400, "capacity_exceeded", NULL,
                 "the request needs more cache than this server has: shorten it");
    error->hopeless = true;
    return true;
  case LLS_FINISH_CANCELLED:
    lls_api_fail(error, 503, "cancelled", NULL, "the request was cancelled");
    return true;
  case LLS_FINISH_REJECTED:
    lls_api_fail(error, 429, "rejected", NULL, "the scheduler refused the request");
    error->retry_after = lls_api_retry_after(api);
    return true;
  default:
    if (event->lost && event->why_lost != NULL)
      lls_api_fail(error, 500, "instance_lost", NULL, "the request was given up: %s",
                   event->why_lost);
    else if (event->lost && lls_loop_lost(api->config.loop, &why))
      lls_api_fail(error, 500, "instance_lost", NULL,
                   "the process that had the request is gone: %s", why.text);
    else if (event->grammar_error == -E2BIG)
      lls_api_fail(
          error, 400, "grammar_too_large", NULL,
          "after %u tokens the answer's grammar may be read in too many ways, or "
          "nests too deeply: write it so that fewer of its alternatives begin "
          "alike",
          choice->n_tokens);
    else if (lls_loop_failed(api->config.loop, &why) ||
             choice->generation->grammar == NULL)
      lls_api_fail(error, 500, "engine_error", NULL, "the engine failed: %s",
                   why.text[0] != '\0' ? why.text : "no reason is known");
    else
      lls_api_fail(error, 500, "grammar_error", NULL,
                   "after %u tokens the answer can't continue within its grammar: see "
                   "the server's log",
                   choice->n_tokens);
    return true;
  }
}

/* Ends a choice that was not stopped by its text: appends all text held back. */
static void end_choice(struct lls_choice *choice, uint32_t reason)
{
  char *piece = choice->generation->api->piece;
  lls_stops_add_text(choice, piece, lls_detokenizer_flush(&choice->detokenizer, piece));
  choice->ready = choice->text.length;
  bool cut = reason != LLS_FINISH_STOP || lls_stops_ended(choice);
  bool stopped = reason == LLS_FINISH_STOP || lls_stops_ended(choice);
  lls_chat_answer_take(choice, false);
  lls_chat_answer_end(choice, cut);
  choice->finish_reason = stopped ? stopped_reason(choice) : "length";
}

/* Copies the vector, which is freed with the request in the step loop, before the
 * answer is written. */
static void keep_vector(struct lls_choice *choice, const struct lls_event *event)
{
  size_t bytes = choice->generation->api->config.vector_columns * sizeof(float);
  if (event->pooled == NULL || !lls_generation_is_wanted(choice->generation))
    return;
  choice->vector = malloc(bytes);
  if (choice->vector != NULL)
    memcpy(choice->vector, event->pooled, bytes);
}

static void keep_times(struct lls_choice *choice, const struct lls_event *event)
{
  if (event->first_scheduled_ns == LLS_NEVER)
    return;
  choice->queued_ns = event->first_scheduled_ns - event->arrival_ns;
  if (event->first_token_ns > event->first_scheduled_ns)
    choice->prefill_ns = event->first_token_ns - event->first_scheduled_ns;
}

/* Tells the session how its turn ended. An answer that its text stopped was cancelled in
 * the step loop. */
static void tell_session(const struct lls_choice *choice, const struct lls_event *event)
{
  struct lls_loop *loop = choice->generation->api->config.loop;
  const struct lls_tool_answer *answer = &choice->answer;
  const char *reason = choice->finish_reason;
  if (reason != NULL && strcmp(reason, "stop") == 0)
    lls_loop_session_stopped(loop);
  if (reason == NULL || strcmp(reason, "tool_calls") != 0)
    return;
  for (uint32_t i = 0; i < answer->n_calls; i++)
    lls_loop_session_calls(loop, event, answer->calls[i].name);
}

static void on_finished(struct lls_choice *choice, const struct lls_event *event)
{
  struct lls_generation *generation = choice->generation;
  struct lls_api_error error;
  bool live = choice->state == LLS_CHOICE_LIVE;
  LLS_CHECK(choice->state != LLS_CHOICE_FINISHED && generation->n_unfinished > 0);
  choice->state = LLS_CHOICE_FINISHED;
  generation->n_unfinished--;
  lls_account(choice, event);
  keep_vector(choice, event);
  keep_times(choice, event);
  choice->keeps_prefix = event->keeps_prefix;
  choice->accepted = event->accepted_tokens;
  choice->rejected = event->drafted_tokens - event->accepted_tokens;
  if (lls_generation_is_wanted(generation)) {
    if (live && has_failed(choice, event, &error)) {
      flush(choice);
      lls_reply_error(generation, &error);
      lls_generation_cancel(generation);
    } else if (live) {
      end_choice(choice, event->reason);
      mark_unflushed(choice);
    }
    tell_session(choice, event);
    flush(choice);
  }
  if (generation->n_unfinished > 0)
    return;
  LLS_CHECK(!choice->unflushed);
  lls_account_whole(generation);
  if (lls_generation_is_wanted(generation))
    lls_reply_finish(generation);
  else
    lls_generation_destroy(generation);
}

void lls_generation_on_event(void *context, const struct lls_event *event)
{
  struct lls_choice *choice = event->owner;
  LLS_API_ON_MAIN((struct lls_api *)context);
  LLS_CHECK(choice->generation->api == context);
  LLS_CHECK(choice->state != LLS_CHOICE_FINISHED); /* FINISHED is the last event */
  choice->shared_tokens = event->shared_tokens;
  if (event->kind == LLS_EVENT_TOKEN)
    on_token(choice, event);
  else if (event->kind == LLS_EVENT_PROGRESS)
    on_progress(choice, event);
  else
    on_finished(choice, event);
}

void lls_generation_flush(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  while (api->unflushed != NULL)
    flush(api->unflushed);
}
