/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work (work.h) of all endpoints that generate: reads a request's body as its dialect
 * says, and makes the generation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/access.h"
#include "core/api/adapter_use.h"
#include "core/api/chat_answer.h"
#include "core/api/generation.h"
#include "core/api/prefix_hash.h"
#include "core/api/request_headers.h"
#include "core/api/work.h"
#include "core/base/json_memory.h"
#include "text/grammar/compiled_grammar.h"

#define MAX_ECHO_SCORES 20000 /* prompt tokens of a chunk: 0.5 MB, and 10 ms of main */

struct reading {
  struct lls_work work;
  const struct lls_dialect *dialect;
  struct lls_unknown_names unknown;
  struct lls_offline *offline; /* waits for the answer if there is no exchange */
  bool large;                  /* the body is large */
  struct lls_past past;        /* what the request continues */
  json_t *body;                /* parsed, waits for the items of its past; or NULL */
  void *state; /* state of the dialect, until the generation owns it; or NULL */
  /* hash of the prompt's beginning; "": not computed */
  char prefix_hash[LLS_PREFIX_HEX];
  struct lls_adapter *adapter;       /* that the path names, a reference; or NULL */
  struct lls_generation *generation; /* the result, or NULL and error is set */
  struct lls_api_error error;
};

static int check_choices(const struct lls_api_config *config,
                         const struct lls_api_params *params,
                         const struct lls_api_prompt_list *prompts,
                         struct lls_api_error *error)
{
  size_t most = lls_prompts_most(config, params);
  if (prompts->count * (size_t)params->n <= most)
    return 0;
  return lls_api_fail(error, 400, NULL, "n",
                      "%zu prompts times n = %lld is more than the %zu answers allowed",
                      prompts->count, (long long)params->n, most);
}

/* Refuses to echo the logprobs of a long prompt. They are sent in one chunk, which
 * [main] writes and which may not exceed the bytes that can wait for a slow client. */
static int check_echo(const struct lls_api_params *params,
                      const struct lls_api_prompt_list *prompts,
                      struct lls_api_error *error)
{
  size_t tokens = 0;
  if (!params->stream || !params->echo || params->logprobs == LLS_UNSET)
    return 0;
  for (size_t i = 0; i < prompts->count; i++)
    tokens += prompts->prompts[i].n_tokens * (size_t)params->n;
  size_t most = MAX_ECHO_SCORES / (size_t)(params->logprobs + 1);
  if (tokens <= most)
    return 0;
  return lls_api_fail(error, 400, NULL, "stream",
                      "'echo' with 'logprobs' asks for scores of %zu tokens of prompts; "
                      "with 'stream' at most %zu are possible: leave 'stream' out",
                      tokens, most);
}

static void hash_prefix(struct reading *reading, const json_t *body)
{
  struct lls_prompt_prefix prefix = {0};
  lls_prefix_add_body(&prefix, body);
  lls_prefix_hash(&prefix, reading->prefix_hash);
}

/* Reads the parameters and prompts of a request. Returns 0; or -1 with the error set
 * and nothing to free. */
static int read_request(struct reading *reading, const json_t *body,
                        struct lls_api_params *params,
                        struct lls_api_prompt_list *prompts)
{
  const struct lls_api_config *config = &reading->work.config;
  struct lls_api_error *error = &reading->error;
  const struct lls_dialect *dialect = reading->dialect;
  if (lls_api_read_params(config, body, dialect->params_of, &reading->unknown, params,
                          error) != 0)
    return -1;
  params->cut_answer = dialect->cuts_answers || config->limits.cut_max_tokens;
  int status =
      dialect->fit_prompts != NULL
          ? dialect->fit_prompts(config, body, reading->state, params, prompts, error)
          : dialect->read_prompts(config, body, params, prompts, error);
  if (status != 0)
    goto fail_prompts;
  hash_prefix(reading, body);
  if (check_choices(config, params, prompts, error) == 0 &&
      check_echo(params, prompts, error) == 0 &&
      (!dialect->is_chat || lls_chat_answer_require(config, prompts, params, error) == 0))
    return 0;
  lls_prompts_free(prompts);
fail_prompts:
  lls_api_params_free(params);
  return -1;
}

/* Translates a body to the form that is read; takes the body over. */
static json_t *translated(struct reading *reading, json_t *body)
{
  const struct lls_dialect *dialect = reading->dialect;
  if (dialect->translate == NULL || body == NULL)
    return body;
  json_t *form = dialect->translate(body, &reading->past, &reading->state,
                                    &reading->unknown, &reading->error);
  json_decref(body);
  return form;
}

/* Returns true if the body continues a stored answer whose items must be loaded
 * first. */
static bool has_past(const struct reading *reading, const json_t *body)
{
  const struct lls_dialect_memory *memory = reading->dialect->memory;
  return memory != NULL && reading->past.why_none == NULL &&
         reading->past.found == NULL && memory->needs(body);
}

/* Returns the parsed body. NULL: the items of its past must be loaded first
 * (reading->body is set), or the body is invalid (the error is set). */
static json_t *take_body(struct reading *reading)
{
  json_t *body = reading->body;
  reading->body = NULL;
  if (body == NULL)
    body = lls_api_body(&reading->work.body, &reading->error);
  if (lls_dialect_check(reading->dialect->members, body, &reading->error) != 0) {
    json_decref(body);
    return NULL;
  }
  if (body != NULL && reading->dialect->pick != NULL)
    reading->dialect = reading->dialect->pick(body);
  if (has_past(reading, body)) {
    reading->body = body;
    return NULL;
  }
  return translated(reading, body);
}

/* Sets reading->generation or reading->error. */
static void read_generation(struct reading *reading)
{
  const struct lls_api_config *config = &reading->work.config;
  struct lls_api_params params;
  struct lls_api_prompt_list prompts;
  json_t *body = take_body(reading);
  int status = body != NULL ? read_request(reading, body, &params, &prompts) : -1;
  json_decref(body);
  if (status != 0)
    return;
  struct lls_grammar *grammar = NULL;
  status = lls_structured_compile(config, &params.structured, &grammar, &reading->error);
  if (status == 0)
    status = lls_api_params_meet(&params, grammar, &reading->error);
  lls_structured_free(&params.structured); /* a part of the body */
  if (status == 0)
    reading->generation =
        lls_generation_create(config, reading->dialect, &params, &prompts);
  if (reading->generation != NULL) {
    reading->generation->large = reading->large;
    reading->generation->grammar = grammar;
    reading->generation->state = reading->state;
    reading->state = NULL;
    return;
  }
  if (status == 0)
    lls_api_fail(&reading->error, 503, NULL, NULL, "out of memory");
  lls_grammar_unref(grammar);
  lls_api_params_free(&params);
  lls_prompts_free(&prompts);
}

/* Makes the generation, and fails with a 503 if any JSON allocation failed: a prompt
 * may then lack a part, and an error may have the wrong message. */
static void make_generation(struct reading *reading)
{
  uint64_t shortages = lls_json_shortages();
  read_generation(reading);
  if (lls_json_shortages() == shortages)
    return;
  if (reading->generation != NULL)
    lls_generation_drop(reading->work.api, reading->generation);
  json_decref(reading->body);
  reading->generation = NULL;
  reading->body = NULL;
  lls_api_fail(&reading->error, 503, NULL, NULL, "out of memory");
}

static void free_state(struct reading *reading)
{
  if (reading->state != NULL)
    reading->dialect->free_state(reading->state);
  reading->state = NULL;
}

/* Makes the generation, then frees the parsed body here: freeing a tree of millions of
 * values would block [main] too long. */
static void run(struct lls_work *work)
{
  struct reading *reading = (struct reading *)work;
  make_generation(reading);
  free_state(reading);
  json_decref(reading->past.found);
  reading->past.found = NULL;
}

static void refuse(struct lls_api *api, struct lls_http_exchange *exchange,
                   const struct lls_api_error *error)
{
  api->stats.refused++;
  lls_api_log_refusal(api, exchange, error);
  lls_held_refusals_add(api, exchange, error);
}

static void start_offline(struct reading *reading)
{
  struct lls_generation *generation = reading->generation;
  struct lls_offline *offline = reading->offline;
  struct lls_api *api = reading->work.api;
  if (generation == NULL ||
      lls_offline_set_params(offline, &generation->params, &reading->error) != 0 ||
      lls_api_check_open(api, &reading->error) != 0) {
    lls_offline_fail(offline, &reading->error);
    return;
  }
  reading->generation = NULL;
  generation->offline = offline;
  lls_adapters_start(api, generation, NULL);
}

static void go_on(struct lls_api *api, void *context, struct lls_http_exchange *exchange,
                  json_t *past, const struct lls_api_error *error)
{
  struct reading *reading = context;
  reading->past.found = past;
  reading->large = true; /* the items of its past may be large, too */
  if (exchange != NULL && past != NULL) {
    lls_work_begin(api, exchange, &reading->work, true);
    return;
  }
  if (exchange != NULL)
    refuse(api, exchange, error);
  reading->work.destroy(&reading->work);
}

/* Loads the items of the conversation, then begins the work again with them. */
static void look_back(struct reading *reading, struct lls_http_exchange *exchange)
{
  struct lls_api *api = reading->work.api;
  const struct lls_dialect_memory *memory = reading->dialect->memory;
  struct reading *again = calloc(1, sizeof *again);
  if (again == NULL) {
    lls_api_fail(&reading->error, 503, NULL, NULL, "out of memory");
    refuse(api, exchange, &reading->error);
    return;
  }
  again->work.run = reading->work.run;
  again->work.answer = reading->work.answer;
  again->work.destroy = reading->work.destroy;
  again->dialect = reading->dialect;
  again->large = reading->large;
  again->body = reading->body;
  reading->body = NULL;
  memory->load(api, exchange, again->body, go_on, again);
}

static int check_memory(struct reading *reading)
{
  const struct lls_dialect_memory *memory = reading->dialect->memory;
  if (memory == NULL || memory->check == NULL) /* it stores no answers */
    return 0;
  return memory->check(reading->work.api, reading->generation, &reading->error);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct reading *reading = (struct reading *)work;
  if (reading->body != NULL) {
    look_back(reading, exchange);
    return;
  }
  if (exchange == NULL) {
    start_offline(reading);
    return;
  }
  struct lls_generation *generation = reading->generation;
  struct lls_api *api = work->api;
  lls_api_note_unknown(api, exchange, &reading->unknown);
  if (generation == NULL ||
      lls_api_read_headers(exchange, lls_access_tenant(api, exchange),
                           &generation->params, &reading->error) != 0 ||
      check_memory(reading) != 0) {
    if (reading->dialect->rename != NULL)
      reading->dialect->rename(&reading->error);
    refuse(api, exchange, &reading->error);
    return;
  }
  if (reading->dialect->count != NULL) {
    lls_api_reply_json(exchange, 200, reading->dialect->count(generation));
    return;
  }
  reading->generation = NULL;
  if (generation->params.adapter == NULL && !generation->params.chooses_adapter) {
    generation->params.adapter = reading->adapter;
    reading->adapter = NULL;
  }
  lls_http_add_header(exchange, LLS_PREFIX_HEADER, reading->prefix_hash);
  lls_adapters_start(api, generation, exchange);
}

static void destroy(struct lls_work *work)
{
  struct reading *reading = (struct reading *)work;
  if (reading->generation != NULL)
    lls_generation_drop(work->api, reading->generation);
  free_state(reading);
  json_decref(reading->past.found);
  json_decref(reading->body);
  lls_unknown_free(&reading->unknown);
  lls_adapter_unref(reading->adapter);
  free(reading);
}

/* Creates the work; returns NULL with *error set if no new requests are accepted. */
static struct reading *make_reading(struct lls_api *api,
                                    const struct lls_dialect *dialect,
                                    struct lls_api_error *error)
{
  if (lls_api_check_open(api, error) != 0)
    return NULL;
  struct reading *reading = calloc(1, sizeof *reading);
  if (reading == NULL) {
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
    return NULL;
  }
  reading->work.run = run;
  reading->work.answer = answer;
  reading->work.destroy = destroy;
  reading->dialect = dialect;
  if (dialect->memory != NULL && !dialect->memory->is_on(api))
    reading->past.why_none = "this server stores no responses ([server] state)";
  return reading;
}

/* Checks the model in a path with a '*', which names one as Azure's paths do. *adapter is
 * the adapter that it names, a reference, or NULL. */
static int check_path(const struct lls_api *api, const struct lls_http_exchange *exchange,
                      struct lls_adapter **adapter, struct lls_api_error *error)
{
  const char *tail = exchange->request.tail;
  size_t length = strlen(api->model_name);
  char name[256];
  *adapter = NULL;
  if (tail == NULL || tail[0] == '\0')
    return 0;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(tail, "/"), tail);
  if (api->config.adapters != NULL)
    *adapter = lls_lora_set_find(api->config.adapters, name);
  if (*adapter != NULL || api->config.limits.any_model == LLS_ANY_MODEL_TRUE ||
      (strncmp(tail, api->model_name, length) == 0 && tail[length] == '/'))
    return 0;
  return lls_api_fail(error, 404, "model_not_found", "model",
                      "the model of this path does not exist here; this server has "
                      "\"%s\"",
                      api->model_name);
}

void lls_handle_dialect(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error;
  LLS_API_ON_MAIN(api);
  const struct lls_text *body = &exchange->request.body;
  struct lls_adapter *adapter;
  struct reading *reading = check_path(api, exchange, &adapter, &error) == 0
                                ? make_reading(api, lls_dialect_of(exchange), &error)
                                : NULL;
  if (reading == NULL) {
    lls_adapter_unref(adapter);
    refuse(api, exchange, &error);
    return;
  }
  reading->adapter = adapter;
  reading->large = body->length >= LLS_WORK_LARGE;
  lls_work_begin(api, exchange, &reading->work,
                 reading->large || lls_structured_is_likely(body));
}

/* Always uses a thread: no client waits for this request, but clients may wait for
 * [main]. */
void lls_generation_run(struct lls_api *api, struct lls_text *body,
                        struct lls_offline *offline, const struct lls_dialect *dialect)
{
  struct lls_api_error error;
  struct reading *reading = make_reading(api, dialect, &error);
  if (reading == NULL) {
    lls_text_free(body);
    lls_offline_fail(offline, &error);
    return;
  }
  reading->offline = offline;
  reading->large = body->length >= LLS_WORK_LARGE;
  reading->past.why_none = "lines of batches stand alone";
  reading->work.body = *body;
  *body = (struct lls_text){0};
  lls_work_begin(api, NULL, &reading->work, true);
}
