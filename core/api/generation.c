/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, cancels and frees generations. reading.c reads them from bodies,
 * submit.c submits them, events.c handles their events. */
#include "core/api/accounts.h"
#include "core/api/chat_answer.h"
#include "core/api/stops.h"
#include "core/api/work.h"
#include "text/grammar/compiled_grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

/* Begins the answer with the prompt: its text, or the decoded text of all its ids. */
static void echo_prompt(const struct lls_api_config *config, struct lls_choice *choice)
{
  const struct lls_api_prompt *prompt = choice->prompt;
  if (!prompt->from_ids)
    lls_text_append(&choice->text, prompt->text, prompt->text_bytes);
  else
    lls_api_decode(config, prompt->tokens, prompt->n_tokens, false, &choice->text);
  choice->ready = choice->text.length;
}

/* Begins the answer with the last message's content, which is not parsed for calls. */
static void echo_begun(struct lls_choice *choice)
{
  const json_t *begun = choice->prompt->begun;
  bool taken_apart = choice->parser != NULL;
  struct lls_text *text = taken_apart ? &choice->answer.content : &choice->text;
  lls_text_append(text, json_string_value(begun), json_string_length(begun));
  choice->ready = choice->text.length;
}

static int init_choice(const struct lls_api_config *config,
                       struct lls_generation *generation, uint32_t index)
{
  const struct lls_api_params *params = &generation->params;
  struct lls_choice *choice = &generation->choices[index];
  choice->generation = generation;
  /* stays FINISHED until lls_generation_start submits it */
  choice->state = LLS_CHOICE_FINISHED;
  choice->index = index;
  choice->prompt = &generation->prompts.prompts[index / (uint32_t)params->n];
  choice->reports = params->return_token_ids || params->logprobs != LLS_UNSET;
  choice->stop_token = -1;
  choice->shared_tokens = UINT32_MAX;
  lls_detokenizer_init(&choice->detokenizer, config->tokenizer,
                       params->skip_special_tokens, true);
  if (params->echo)
    echo_prompt(config, choice);
  if (lls_stops_init(choice) < 0)
    return -ENOMEM;
  if (!generation->dialect->is_chat)
    return 0;
  int rc = lls_chat_answer_init(config, choice);
  if (rc == 0 && choice->prompt->begun != NULL)
    echo_begun(choice);
  return rc;
}

static void free_choices(struct lls_choice *choices, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    lls_text_free(&choices[i].text);
    lls_chat_answer_free(&choices[i]);
    lls_stops_free(&choices[i]);
    free(choices[i].tokens);
    free(choices[i].scores);
    free(choices[i].vector);
  }
  free(choices);
}

struct lls_generation *lls_generation_create(const struct lls_api_config *config,
                                             const struct lls_dialect *dialect,
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
  generation->dialect = dialect;
  generation->params = *params;
  generation->prompts = *prompts;
  generation->created_s = (int64_t)time(NULL);
  generation->choices = choices;
  generation->n_choices = n_choices;
  for (uint32_t i = 0; i < n_choices; i++) {
    if (init_choice(config, generation, i) == 0)
      continue;
    free_choices(choices, n_choices);
    free(generation);
    return NULL;
  }
  return generation;
}

/* ---- the end ---------------------------------------------------------------------- */

static void free_generation(struct lls_generation *generation)
{
  free_choices(generation->choices, generation->n_choices);
  if (generation->state != NULL)
    generation->dialect->free_state(generation->state);
  lls_lora_unref(generation->lora);
  lls_api_params_free(&generation->params);
  lls_prompts_free(&generation->prompts);
  lls_grammar_unref(generation->grammar);
  free(generation);
}

/* Work that frees a large generation on a thread: freeing millions of JSON values takes
 * a tenth of a second, which would delay every stream. */
struct dropping {
  struct lls_work work;
  struct lls_generation *generation;
};

static void run_dropping(struct lls_work *work)
{
  free_generation(((struct dropping *)work)->generation);
}

static void answer_nobody(struct lls_work *work, struct lls_http_exchange *exchange)
{
  (void)work;
  (void)exchange;
}

static void destroy_dropping(struct lls_work *work)
{
  free(work);
}

void lls_generation_drop(struct lls_api *api, struct lls_generation *generation)
{
  LLS_API_ON_MAIN(api);
  bool aside = generation->large && !api->http_closed;
  struct dropping *dropping = aside ? calloc(1, sizeof *dropping) : NULL;
  if (dropping == NULL) {
    free_generation(generation);
    return;
  }
  dropping->work = (struct lls_work){
      .run = run_dropping, .answer = answer_nobody, .destroy = destroy_dropping};
  dropping->generation = generation;
  lls_work_begin(api, NULL, &dropping->work, true);
}

void lls_generation_destroy(struct lls_generation *generation)
{
  struct lls_api *api = generation->api;
  LLS_API_ON_MAIN(api);
  LLS_CHECK(api->stats.live > 0);
  DL_DELETE(api->generations, generation);
  api->stats.live--;
  lls_tenants_leave(&api->tenants, generation->tenant);
  lls_account_put(generation->account);
  for (uint32_t i = 0; i < generation->n_choices; i++)
    if (generation->choices[i].unflushed)
      DL_DELETE(api->unflushed, &generation->choices[i]);
  lls_generation_drop(api, generation);
}

void lls_generation_cancel(struct lls_generation *generation)
{
  LLS_API_ON_MAIN(generation->api);
  for (uint32_t i = 0; i < generation->n_choices; i++)
    if (generation->choices[i].state == LLS_CHOICE_LIVE)
      lls_loop_cancel(generation->api->config.loop, generation->choices[i].request);
}

/* Called when the client has disconnected: cancels the rest of the answer. */
static void on_gone(void *owner)
{
  struct lls_generation *generation = owner;
  /* called once, and only before the answer is complete */
  LLS_CHECK(generation->exchange != NULL);
  generation->exchange = NULL;
  lls_generation_cancel(generation);
}

/* Called when the client has closed its sending side: writes a comment, which fails if
 * the client no longer reads its stream. */
static void on_ended(void *owner)
{
  struct lls_generation *generation = owner;
  const struct lls_api_limits *limits = &generation->api->config.limits;
  if (generation->streaming && limits->keep_alive > 0)
    generation->dialect->framing->keep_alive(generation->exchange);
}

void lls_generation_attach(struct lls_generation *generation,
                           struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN(generation->api);
  generation->exchange = exchange;
  exchange->owner = generation;
  exchange->on_gone = on_gone;
  exchange->on_ended = on_ended;
}
