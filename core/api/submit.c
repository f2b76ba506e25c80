/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a generation into requests of the step loop, one for each choice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/api/access.h"
#include "core/api/accounts.h"
#include "core/api/reply.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tools/tool_format.h"

static uint64_t choice_seed(const struct lls_choice *choice)
{
  const struct lls_api_params *params = &choice->generation->params;
  uint64_t seed = params->has_seed ? params->seed : choice->generation->api->config.seed;
  if (!params->has_seed && seed == 0)
    uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
  return seed + choice->index % (uint64_t)params->n;
}

/* Returns the most tokens to generate: 0 for a vector, otherwise at least 1. If only the
 * prompt is requested, the one token is omitted from the answer. prompt.c has checked
 * that the request fits. */
static uint32_t max_new_tokens(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  if (generation->params.pooling != LLS_POOLING_NONE)
    return 0;
  int64_t room = (int64_t)generation->api->config.max_context;
  room -= (int64_t)choice->prompt->n_tokens;
  int64_t wanted = lls_api_params_answer(&generation->params, room);
  return wanted > 0 ? (uint32_t)wanted : 1;
}

/* Converts a refusal of the step loop to an error for the client. */
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

/* Requests with equal salts share cached prefixes. With [cache] isolate the tenant is
 * part of the salt, so that tenants share none: otherwise a client could guess a prompt
 * by testing how much of it is cached. */
struct salt {
  size_t bytes;
  char text[LLS_TENANT_BYTES + sizeof((struct lls_api_params *)NULL)->cache_salt];
};

static struct salt salt_of(const struct lls_generation *generation)
{
  const struct lls_api *api = generation->api;
  const struct lls_api_params *params = &generation->params;
  int64_t isolate = api->config.isolate;
  bool by_tenant = isolate == LLS_ISOLATE_TENANT ||
                   (isolate == LLS_ISOLATE_AUTO && api->keys.users != NULL);
  size_t tenant = by_tenant ? strlen(params->tenant) : 0;
  struct salt salt = {.bytes = tenant + 1 + params->cache_salt_bytes};
  /* the NUL after it ends the tenant: no name has a NUL inside */
  memcpy(salt.text, params->tenant, tenant);
  memcpy(salt.text + tenant + 1, params->cache_salt, params->cache_salt_bytes);
  if (salt.bytes == 1)
    salt.bytes = 0;
  return salt;
}

/* Sets the tokens of a mark; returns their number, 0 if they are too many. */
static uint32_t mark_tokens(const struct lls_api_config *config, const char *mark,
                            int32_t out[LLS_THOUGHT_MARK])
{
  int32_t *ids;
  size_t count;
  if (lls_tokenizer_encode(config->tokenizer, mark, strlen(mark), false, &ids, &count,
                           NULL) < 0)
    return 0;
  if (count > LLS_THOUGHT_MARK)
    count = 0;
  if (count > 0)
    memcpy(out, ids, count * sizeof *ids);
  free(ids);
  return (uint32_t)count;
}

/* Returns the budget for the answer's thoughts; none if the model has no marks. */
static struct lls_thought thought_of(const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  const struct lls_api_config *config = &generation->api->config;
  const struct lls_reasoning_format *format = config->dialect.reasoning;
  struct lls_thought t = {0};
  if (generation->params.thinking_budget >= UINT32_MAX || format == NULL)
    return t;
  t.budget = (uint32_t)generation->params.thinking_budget;
  if (!choice->prompt->in_reasoning)
    t.n_open = mark_tokens(config, format->open, t.open);
  t.n_close = mark_tokens(config, format->close, t.close);
  t.limited = t.n_close > 0 && (choice->prompt->in_reasoning || t.n_open > 0);
  return t;
}

/* A request has a session if the client names one, or if others can continue its
 * answer. */
static struct lls_session_use session_of(const struct lls_generation *generation)
{
  const struct lls_api_params *params = &generation->params;
  const struct lls_dialect_memory *memory = generation->dialect->memory;
  struct lls_session_use use = {.away_ns = params->away_ns, .keep_ns = params->keep_ns};
  if (params->session[0] != '\0')
    use.name = params->session;
  if (memory != NULL && memory->continues != NULL) {
    use.continues = memory->continues(generation);
    use.becomes = memory->wants(generation) ? generation->id : NULL;
  }
  return use;
}

static int submit(struct lls_choice *choice, struct lls_api_error *error)
{
  struct lls_generation *generation = choice->generation;
  const struct lls_api_params *params = &generation->params;
  const struct lls_api_prompt *prompt = choice->prompt;
  const struct salt salt = salt_of(generation);
  struct lls_error why = {0};
  struct lls_submission submission = {
      .tokens = prompt->tokens,
      .n_tokens = (uint32_t)prompt->n_tokens,
      .text = prompt->text,
      .text_bytes = prompt->text_bytes,
      .label = generation->label,
      .grammar = generation->grammar,
      .sampling = lls_api_params_sampling(params),
      .dry = lls_api_params_dry(params),
      .dry_breakers = params->dry_breakers,
      .thought = thought_of(choice),
      .max_new_tokens = max_new_tokens(choice),
      .min_new_tokens = (uint32_t)params->min_tokens,
      .stop_tokens = params->stop_tokens,
      .n_stop_tokens = (uint32_t)params->n_stop_tokens,
      .bad_words = params->bad_words,
      .n_bad_words = (uint32_t)params->n_bad_words,
      .expected = params->expected,
      .n_expected = (uint32_t)params->n_expected,
      .ignore_eos = params->ignore_eos,
      .reports_progress = lls_reply_has_progress(generation),
      .pooling = params->pooling,
      .second_text = (uint32_t)prompt->second_text,
      .request_class = params->request_class,
      .priority = (int32_t)params->priority,
      .tenant = generation->tenant,
      .tenant_name = params->tenant,
      .salt = salt.text,
      .salt_bytes = salt.bytes,
      .lora = generation->lora,
      .lora_scale = params->adapter_scale,
      .adapter = params->adapter != NULL ? params->adapter->number : 0,
      .adapter_name = params->adapter != NULL ? params->adapter->name : NULL,
      .session = session_of(generation),
      .slo = params->slo,
      .owner = choice,
  };
  /* the state of a choice before it is submitted */
  LLS_CHECK(choice->state == LLS_CHOICE_FINISHED);
  submission.sampling.seed = choice_seed(choice);
  submission.score_prompt = lls_api_params_scores(params, &submission.score_logprobs);
  int status =
      lls_loop_submit(generation->api->config.loop, &submission, &choice->request, &why);
  if (status != 0)
    return refusal(generation->api, status, &why, error);
  choice->state = LLS_CHOICE_LIVE;
  generation->n_unfinished++;
  /* n answers to one prompt are charged for it once */
  if (choice->index % (uint32_t)params->n == 0)
    lls_account_charge(generation->account, prompt->n_tokens);
  return 0;
}

static void begin(struct lls_api *api, struct lls_generation *generation,
                  struct lls_http_exchange *exchange)
{
  char fresh[LLS_ID_BYTES];
  generation->api = api;
  generation->arrival_ns = exchange != NULL ? exchange->arrival_ns : (int64_t)uv_hrtime();
  lls_api_new_id(fresh);
  /* the id of an answer that can be continued says which replica has it */
  const char *replica = generation->dialect->memory != NULL ? api->replica : "";
  snprintf(generation->id, sizeof generation->id, "%s%s%s%s",
           generation->dialect->id_prefix, replica, replica[0] != '\0' ? "-" : "", fresh);
  snprintf(generation->label, sizeof generation->label, "%s",
           exchange != NULL ? exchange->id : generation->id);
  generation->tenant = lls_tenants_enter(&api->tenants, generation->params.tenant);
  generation->account =
      lls_account_get(api, exchange != NULL ? lls_access_account(api, exchange)
                                            : generation->offline->tenant);
  generation->sent_ns = generation->arrival_ns;
  generation->is_offline = exchange == NULL;
  if (exchange != NULL) {
    lls_generation_attach(generation, exchange);
    exchange->logged = true; /* each choice writes its own line */
  } else {
    generation->offline->generation = generation;
  }
  DL_APPEND(api->generations, generation);
  api->stats.live++;
}

bool lls_generation_start(struct lls_api *api, struct lls_generation *generation,
                          struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  LLS_API_ON_MAIN(api);
  LLS_CHECK(generation->api == NULL); /* the generation must not be begun yet */
  begin(api, generation, exchange);
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    if (submit(&generation->choices[i], &error) == 0)
      continue;
    api->stats.refused++;
    if (exchange != NULL)
      lls_api_log_refusal(api, exchange, &error);
    lls_reply_error(generation, &error);
    lls_generation_cancel(generation);
    if (generation->n_unfinished == 0)
      lls_generation_destroy(generation);
    return false;
  }
  return true;
}
