/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges deadlines and counts finished choices. Times are taken on [main], where the
 * answer is written, so that the delay between step loop and socket counts too.
 */
#include "core/api/account.h"

#include <math.h>
#include <stdio.h>

#include "core/api/spans.h"
#include "core/api/stops.h"

static double seconds(int64_t from_ns, int64_t to_ns)
{
  return (double)(to_ns - from_ns) / 1e9;
}

static enum lls_outcome outcome(const struct lls_choice *choice, uint32_t reason)
{
  bool pooled = choice->generation->params.pooling != LLS_POOLING_NONE;
  if (lls_stops_ended(choice) || reason == LLS_FINISH_STOP ||
      (pooled && reason == LLS_FINISH_LENGTH)) /* a vector is complete */
    return LLS_OUTCOME_STOP;
  if (reason == LLS_FINISH_CANCELLED)
    return LLS_OUTCOME_ABORT;
  if (reason == LLS_FINISH_LENGTH ||
      (reason == LLS_FINISH_CAPACITY && choice->n_tokens > 0))
    return LLS_OUTCOME_LENGTH;
  return LLS_OUTCOME_ERROR;
}

/* ---- deadlines ------------------------------------------------------------------ */

static bool missed(int64_t deadline_ns, double took_s)
{
  return deadline_ns != LLS_NEVER && took_s * 1e9 > (double)deadline_ns;
}

/* Returns the first deadline that a choice missed; only for a complete choice. */
static enum lls_verdict verdict_of(const struct lls_slo *slo, double first_s,
                                   double longest_gap_s, double mean_gap_s,
                                   double total_s)
{
  if (missed(slo->ttft_ns, first_s))
    return LLS_MISSED_TTFT;
  if (missed(slo->tbt_ns, longest_gap_s))
    return LLS_MISSED_TBT;
  if (missed(slo->tpot_ns, mean_gap_s))
    return LLS_MISSED_TPOT;
  return missed(slo->completion_ns, total_s) ? LLS_MISSED_COMPLETION : LLS_ATTAINED;
}

static bool has_deadline(const struct lls_slo *slo)
{
  return slo->ttft_ns != LLS_NEVER || slo->tbt_ns != LLS_NEVER ||
         slo->tpot_ns != LLS_NEVER || slo->completion_ns != LLS_NEVER;
}

/* ---- one choice ----------------------------------------------------------------- */

/* Times of a choice in seconds; -1 if the choice ended before. */
struct times {
  double first, mean_gap, total, queue, prefill, decode;
};

static struct times times_of(const struct lls_choice *choice,
                             const struct lls_event *event)
{
  int64_t arrival_ns = choice->generation->arrival_ns;
  struct times t = {-1, -1, -1, -1, -1, -1};
  t.total = seconds(arrival_ns, (int64_t)uv_hrtime());
  if (choice->first_token_ns != 0)
    t.first = seconds(arrival_ns, choice->first_token_ns);
  if (choice->n_tokens > 1)
    t.mean_gap =
        seconds(choice->first_token_ns, choice->last_token_ns) / (choice->n_tokens - 1);
  if (event->first_scheduled_ns == LLS_NEVER)
    return t;
  t.queue = seconds(event->arrival_ns, event->first_scheduled_ns);
  if (event->first_token_ns == LLS_NEVER)
    return t;
  t.prefill = seconds(event->first_scheduled_ns, event->first_token_ns);
  t.decode = seconds(event->first_token_ns, event->finished_ns);
  return t;
}

/* Converts seconds to milliseconds, to the microsecond; -1 stays. */
static double milliseconds(double s)
{
  return s < 0 ? -1 : round(s * 1e6) / 1e3;
}

static const char *const outcomes[LLS_OUTCOMES] = {"stop", "length", "abort", "error"};

/* Logs a finished choice, without unknown times (-1) and without an empty tenant. */
static void log_line(const struct lls_choice *choice, const struct lls_event *event,
                     enum lls_outcome how, const struct times *t)
{
  static const char *const classes[] = {"none", "realtime", "best_effort"};
  const struct lls_generation *generation = choice->generation;
  const struct lls_api *api = generation->api;
  const struct lls_log_field fields[] = {
      {.name = "outcome", .text = outcomes[how]},
      {.name = "choice", .number = choice->index},
      {.name = "class", .text = classes[generation->params.request_class]},
      {.name = "tenant", .text = api->tenants.list[generation->tenant].name},
      {.name = "prompt_tokens", .number = event->prompt_tokens},
      {.name = "generated_tokens", .number = event->generated_tokens},
      {.name = "shared_tokens", .number = event->shared_tokens},
      {.name = "preemptions", .number = event->preemptions},
      {.name = "total_ms", .number = milliseconds(t->total)},
      {.name = "queue_ms", .number = milliseconds(t->queue)},
      {.name = "prefill_ms", .number = milliseconds(t->prefill)},
      {.name = "decode_ms", .number = milliseconds(t->decode)},
      {.name = "ttft_ms", .number = milliseconds(t->first)},
      {.name = "tpot_ms", .number = milliseconds(t->mean_gap)},
  };
  struct lls_log_field known[sizeof fields / sizeof fields[0]];
  size_t n = 0;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].text != NULL ? fields[i].text[0] != '\0' : fields[i].number >= 0)
      known[n++] = fields[i];
  /* a batch has many lines, and a file with the result of each */
  uint32_t level = generation->is_offline ? LLS_LOG_DEBUG : LLS_LOG_INFO;
  lls_log_request(api->config.log, level, "api", generation->label, known, n);
}

static void remember(const struct lls_choice *choice, const struct lls_event *event,
                     enum lls_outcome how, const enum lls_verdict *verdict)
{
  const struct lls_generation *generation = choice->generation;
  struct lls_api *api = generation->api;
  struct lls_life_record *r = lls_lives_next(&api->lives);
  *r = (struct lls_life_record){
      .request = choice->request,
      .request_class = generation->params.request_class,
      .prompt_tokens = event->prompt_tokens,
      .generated_tokens = event->generated_tokens,
      .shared_tokens = event->shared_tokens,
      .preemptions = event->preemptions,
      .outcome = outcomes[how],
      .judged = verdict != NULL,
      .verdict = verdict != NULL ? *verdict : LLS_ATTAINED,
      .arrival_ns = generation->arrival_ns,
      .ended_ns = (int64_t)uv_hrtime(),
  };
  if (event->life != NULL)
    r->life = *event->life;
  snprintf(r->label, sizeof r->label, "%.*s", LLS_LIFE_LABEL_MAX - 1, generation->label);
  snprintf(r->tenant, sizeof r->tenant, "%.*s", LLS_LIFE_TENANT_MAX - 1,
           api->tenants.list[generation->tenant].name);
}

static void observe(struct lls_api_stats *stats, const struct lls_choice *choice,
                    const struct lls_event *event, const struct times *t)
{
  const struct lls_api_params *params = &choice->generation->params;
  uint64_t length = (uint64_t)event->prompt_tokens + event->generated_tokens;
  stats->longest = length > stats->longest ? length : stats->longest;
  LLS_CHECK(event->shared_tokens <= event->prompt_tokens);
  lls_histogram_observe(&stats->e2e, t->total);
  lls_histogram_observe(&stats->prompt_tokens, event->prompt_tokens);
  lls_histogram_observe(&stats->generation_tokens, event->generated_tokens);
  lls_histogram_observe(&stats->computed_tokens,
                        event->prompt_tokens - event->shared_tokens);
  int64_t most = lls_api_params_answer(params, LLS_ENDLESS);
  if (most != LLS_ENDLESS)
    lls_histogram_observe(&stats->max_tokens, (double)most);
  if (t->mean_gap >= 0)
    lls_histogram_observe(&stats->per_output_token, t->mean_gap);
  if (t->decode < 0)
    return;
  lls_histogram_observe(&stats->queue, t->queue);
  lls_histogram_observe(&stats->prefill, t->prefill);
  lls_histogram_observe(&stats->decode, t->decode);
  lls_histogram_observe(&stats->inference, t->prefill + t->decode);
}

static void count(struct lls_group_stats *stats, const struct lls_event *event,
                  const enum lls_verdict *verdict)
{
  stats->requests++;
  stats->prompt_tokens += event->prompt_tokens;
  stats->generated_tokens += event->generated_tokens;
  if (verdict != NULL)
    stats->verdicts[*verdict]++;
}

void lls_account(const struct lls_choice *choice, const struct lls_event *event)
{
  const struct lls_generation *generation = choice->generation;
  const struct lls_slo *slo = &generation->params.slo;
  struct lls_api *api = generation->api;
  enum lls_outcome how = outcome(choice, event->reason);
  LLS_API_ON_MAIN(api);
  LLS_CHECK(choice->state == LLS_CHOICE_FINISHED);
  LLS_CHECK(generation->params.request_class <= LLS_CLASS_BEST_EFFORT);
  bool complete = how == LLS_OUTCOME_STOP || how == LLS_OUTCOME_LENGTH;
  struct times t = times_of(choice, event);
  enum lls_verdict verdict = LLS_MISSED_ALL;
  if (complete)
    verdict = verdict_of(slo, t.first, (double)choice->longest_gap_ns / 1e9, t.mean_gap,
                         t.total);
  /* a client's disconnect says nothing about the server */
  bool judged = has_deadline(slo) && how != LLS_OUTCOME_ABORT;
  api->stats.finished[how]++;
  log_line(choice, event, how, &t);
  remember(choice, event, how, judged ? &verdict : NULL);
  lls_spans_export(choice, event, outcomes[how], t.first);
  count(&api->classes[generation->params.request_class], event, judged ? &verdict : NULL);
  count(&api->tenants.list[generation->tenant].stats, event, judged ? &verdict : NULL);
  if (complete)
    observe(&api->stats, choice, event, &t);
}

void lls_account_whole(const struct lls_generation *generation)
{
  struct lls_api_stats *stats = &generation->api->stats;
  uint32_t longest = 0;
  LLS_CHECK(generation->n_unfinished == 0);
  for (uint32_t i = 0; i < generation->n_choices; i++)
    if (generation->choices[i].n_tokens > longest)
      longest = generation->choices[i].n_tokens;
  lls_histogram_observe(&stats->max_generation, longest);
  lls_histogram_observe(&stats->n, (double)generation->params.n);
}
