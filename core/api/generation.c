/* SPDX-License-Identifier: Apache-2.0 */
/* Making, submitting, cancelling and freeing generations; read.c has where they come
 * from, events.c their life. */
#include "core/api/generation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "core/api/reply.h"

/* ---- making --------------------------------------------------------------------- */

/* The prompt as the client wrote it, or what its ids stand for, each of them. */
static void echo_prompt(const struct lls_api_config *config, struct lls_choice *choice)
{
  const struct lls_api_prompt *prompt = choice->prompt;
  if (!prompt->from_ids)
    lls_text_append(&choice->text, prompt->text, prompt->text_bytes);
  else
    lls_api_decode(config, prompt->tokens, prompt->n_tokens, false, &choice->text);
  choice->ready = choice->text.length;
}

static void init_choice(const struct lls_api_config *config,
                        struct lls_generation *generation, uint32_t index)
{
  const struct lls_api_params *params = &generation->params;
  struct lls_choice *choice = &generation->choices[index];
  choice->generation = generation;
  choice->state = LLS_CHOICE_FINISHED; /* until it is submitted */
  choice->index = index;
  choice->prompt = &generation->prompts.prompts[index / (uint32_t)params->n];
  choice->reports = params->return_token_ids || params->logprobs != LLS_UNSET;
  choice->stop_token = -1;
  choice->shared_tokens = UINT32_MAX;
  lls_detokenizer_init(&choice->detokenizer, config->tokenizer,
                       params->skip_special_tokens, true);
  if (params->echo)
    echo_prompt(config, choice);
}

struct lls_generation *lls_generation_create(const struct lls_api_config *config,
                                             enum lls_endpoint endpoint,
                                             struct lls_api_params *params,
                                             struct lls_api_prompt_list *prompts)
{
  struct lls_generation *generation = calloc(1, sizeof *generation);
  uint32_t n_choices = (uint32_t)(prompts->count * (size_t)params->n);
  struct lls_choice *choices = calloc(n_choices, sizeof *choices);
  if (generation == NULL || choices == NULL) {
    free(generation);
    free(choices);
    return NULL;
  }
  generation->endpoint = endpoint;
  generation->params = *params;
  generation->prompts = *prompts;
  generation->created_s = (int64_t)time(NULL);
  generation->choices = choices;
  generation->n_choices = n_choices;
  for (uint32_t i = 0; i < n_choices; i++)
    init_choice(config, generation, i);
  return generation;
}

void lls_generation_free(struct lls_generation *generation)
{
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    struct lls_choice *choice = &generation->choices[i];
    lls_text_free(&choice->text);
    free(choice->tokens);
    free(choice->scores);
  }
  free(generation->choices);
  lls_api_params_free(&generation->params);
  lls_prompts_free(&generation->prompts);
  free(generation);
}

void lls_generation_destroy(struct lls_generation *generation)
{
  struct lls_api *api = generation->api;
  DL_DELETE(api->generations, generation);
  api->stats.live--;
  lls_tenants_leave(&api->tenants, generation->tenant);
  for (uint32_t i = 0; i < generation->n_choices; i++)
    if (generation->choices[i].unflushed)
      DL_DELETE(api->unflushed, &generation->choices[i]);
  lls_generation_free(generation);
}

/* ---- submitting ----------------------------------------------------------------- */

static uint64_t choice_seed(const struct lls_choice *choice)
{
  const struct lls_api_params *params = &choice->generation->params;
  uint64_t seed = params->seed;
  if (!params->has_seed)
    uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
  return seed + choice->index % (uint64_t)params->n;
}

/* At least one: where only the prompt is wanted, the token is left out of the answer.
 * prompt.c has seen to it that what is asked for fits. */
static uint32_t max_new_tokens(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  int64_t room = (int64_t)generation->api->config.max_context;
  room -= (int64_t)choice->prompt->n_tokens;
  int64_t wanted = lls_api_params_answer(&generation->params, room);
  return wanted > 0 ? (uint32_t)wanted : 1;
}

/* The step loop's refusals as a client should see them. */
static int refusal(struct lls_api *api, int status, const struct lls_error *why,
                   struct lls_api_error *error)
{
  const char *text = lls_error_text(why, status);
  switch (status) {
  case -EINVAL:
    return lls_api_fail(error, 400, NULL, NULL, "%s", text);
  case -E2BIG:
    return lls_api_fail(error, 400, "context_length_exceeded", NULL, "%s", text);
  case -ENOSPC:
    lls_api_fail(error, 429, "queue_full", NULL, "%s", text);
    error->retry_after = lls_api_retry_after(api);
    return -1;
  case -ESHUTDOWN:
    lls_api_fail(error, 503, "shutting_down", NULL, "%s", text);
    error->retry_after = lls_api_retry_after(api);
    return -1;
  default:
    return lls_api_fail(error, 500, NULL, NULL, "%s", text);
  }
}

static int submit(struct lls_choice *choice, struct lls_api_error *error)
{
  struct lls_generation *generation = choice->generation;
  const struct lls_api_params *params = &generation->params;
  const struct lls_api_prompt *prompt = choice->prompt;
  struct lls_error why = {0};
  struct lls_submission submission = {
      .tokens = prompt->tokens,
      .n_tokens = (uint32_t)prompt->n_tokens,
      .text = prompt->text,
      .text_bytes = prompt->text_bytes,
      .label = generation->label,
      .sampling = lls_api_params_sampling(params),
      .max_new_tokens = max_new_tokens(choice),
      .min_new_tokens = (uint32_t)params->min_tokens,
      .stop_tokens = params->stop_tokens,
      .n_stop_tokens = (uint32_t)params->n_stop_tokens,
      .ignore_eos = params->ignore_eos,
      .request_class = params->request_class,
      .priority = (int32_t)params->priority,
      .tenant = generation->tenant,
      .slo = params->slo,
      .owner = choice,
  };
  submission.sampling.seed = choice_seed(choice);
  submission.score_prompt = lls_api_params_scores(params, &submission.score_logprobs);
  int status =
      lls_loop_submit(generation->api->config.loop, &submission, &choice->request, &why);
  if (status != 0)
    return refusal(generation->api, status, &why, error);
  choice->state = LLS_CHOICE_LIVE;
  generation->n_unfinished++;
  return 0;
}

void lls_generation_cancel(struct lls_generation *generation)
{
  for (uint32_t i = 0; i < generation->n_choices; i++)
    if (generation->choices[i].state == LLS_CHOICE_LIVE)
      lls_loop_cancel(generation->api->config.loop, generation->choices[i].request);
}

/* The client went away: nobody waits for the rest. */
static void on_gone(void *owner)
{
  struct lls_generation *generation = owner;
  generation->exchange = NULL;
  lls_generation_cancel(generation);
}

static void begin(struct lls_api *api, struct lls_generation *generation,
                  struct lls_http_exchange *exchange)
{
  char fresh[LLS_ID_BYTES];
  generation->api = api;
  generation->arrival_ns = exchange->arrival_ns;
  lls_api_new_id(fresh);
  snprintf(generation->id, sizeof generation->id, "%s-%s",
           generation->endpoint == LLS_CHAT ? "chatcmpl" : "cmpl", fresh);
  snprintf(generation->label, sizeof generation->label, "%s", exchange->id);
  generation->tenant = lls_tenants_enter(&api->tenants, generation->params.tenant);
  generation->sent_ns = generation->arrival_ns;
  generation->exchange = exchange;
  exchange->owner = generation;
  exchange->on_gone = on_gone;
  exchange->logged = true; /* each choice has its line */
  DL_APPEND(api->generations, generation);
  api->stats.live++;
}

void lls_api_log_refusal(const struct lls_api *api, struct lls_http_exchange *exchange,
                         const struct lls_api_error *error)
{
  const struct lls_log_field fields[] = {
      {.name = "outcome", .text = "refused"},
      {.name = "status", .number = error->status},
      {.name = "why", .text = error->message.text},
  };
  exchange->logged = true;
  lls_log_request(api->config.log, LLS_LOG_INFO, "api", exchange->id, fields, 3);
}

void lls_generation_start(struct lls_api *api, struct lls_generation *generation,
                          struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  begin(api, generation, exchange);
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    if (submit(&generation->choices[i], &error) == 0)
      continue;
    api->stats.refused++;
    lls_api_log_refusal(api, exchange, &error);
    lls_reply_error(generation, &error);
    lls_generation_cancel(generation);
    if (generation->n_unfinished == 0)
      lls_generation_destroy(generation);
    return;
  }
}
