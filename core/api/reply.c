/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the answers and stream events of a generation, and nothing after its client has
 * left; see reply.h. */
#include "core/api/reply.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/response_memory.h"
#include "core/api/responses.h"
#include "core/api/wire.h"
#include "core/api/work.h"
#include "core/http/sse.h"

#define LARGE_ANSWER  2000 /* JSON values; a larger answer is written on a thread */
#define TEXT_AS_VALUE 64

/* Ends the exchange for the generation: its later events are dropped. */
static void detach(struct lls_generation *generation)
{
  LLS_CHECK(lls_generation_is_wanted(generation));
  if (generation->offline != NULL)
    generation->offline->generation = NULL;
  generation->offline = NULL;
  generation->exchange = NULL;
}

static void begin_stream(struct lls_generation *generation)
{
  LLS_CHECK(generation->exchange != NULL);
  generation->sent_ns = (int64_t)uv_hrtime();
  if (generation->streaming)
    return;
  generation->streaming = true;
  lls_sse_begin(generation->exchange);
}

/* Returns the text of an event. Returns NULL without memory, and for all events after
 * that one. */
static char *text_of(struct lls_generation *generation, const json_t *event)
{
  if (generation->incomplete)
    return NULL;
  char *text = lls_json_text(event, JSON_COMPACT);
  generation->incomplete = text == NULL;
  return text;
}

/* Sends one event and releases it. */
static void send_event(struct lls_generation *generation, json_t *json)
{
  char *text = text_of(generation, json);
  begin_stream(generation);
  if (text != NULL)
    lls_sse_data(generation->exchange, text, strlen(text));
  free(text);
  json_decref(json);
}

/* Ends the stream. Only streams without event names end with [DONE]. A stream that lost
 * an event is aborted, because a client takes a stream with an end as complete. */
static void end_stream(struct lls_generation *generation)
{
  if (generation->incomplete)
    lls_http_stream_abort(generation->exchange);
  else if (generation->response != NULL)
    lls_http_stream_end(generation->exchange);
  else
    lls_sse_end(generation->exchange);
}

/* Sends events under their names and releases them. */
static void send_named(struct lls_generation *generation, json_t *events)
{
  size_t i;
  json_t *event;
  begin_stream(generation);
  generation->incomplete |= events == NULL;
  json_array_foreach(events, i, event)
  {
    const char *name = json_string_value(json_object_get(event, "type"));
    char *text = text_of(generation, event);
    if (text != NULL)
      lls_sse_event(generation->exchange, name, text, strlen(text));
    free(text);
  }
  json_decref(events);
}

static void send_chunk(struct lls_choice *choice)
{
  struct lls_generation *generation = choice->generation;
  if (generation->response != NULL) {
    send_named(generation, lls_response_chunk(choice));
    return;
  }
  if (!choice->begun && generation->endpoint == LLS_CHAT)
    send_event(generation, lls_wire_role_chunk(choice));
  bool empty = choice->ready == 0 && choice->n_unreported == 0 &&
               !lls_tool_answer_news(&choice->answer);
  if (!empty || choice->finish_reason != NULL)
    send_event(generation, lls_wire_chunk(choice));
}

void lls_reply_chunk(struct lls_choice *choice)
{
  struct lls_generation *generation = choice->generation;
  if (generation->exchange == NULL || choice->ended)
    return;
  send_chunk(choice);
  LLS_CHECK(choice->ready <= choice->text.length);
  choice->text_offset += lls_wire_logprobs_characters(choice);
  choice->begun = true;
  choice->ended = choice->finish_reason != NULL;
  choice->n_unreported = 0;
  lls_tool_answer_sent(&choice->answer);
  lls_text_consume(&choice->text, choice->ready);
  choice->ready = 0;
}

void lls_reply_silence(struct lls_generation *generation)
{
  begin_stream(generation);
  lls_sse_comment(generation->exchange);
}

/* ---- answers that are stored first ------------------------------------------------- */

/* A response that is being written to the database. */
struct keeping {
  json_t *json; /* the response, or the last events, the last of which has the response */
  char *text;   /* the response */
};

/* Takes over json and text. Returns NULL, and takes over nothing, without memory or if
 * text is NULL. */
static struct keeping *keep(json_t *json, char *text)
{
  struct keeping *keeping = text != NULL ? calloc(1, sizeof *keeping) : NULL;
  if (keeping == NULL)
    return NULL;
  keeping->json = json;
  keeping->text = text;
  return keeping;
}

static void end_keeping(struct keeping *keeping, struct lls_generation *generation)
{
  json_decref(keeping->json);
  free(keeping->text);
  free(keeping);
  lls_generation_destroy(generation);
}

static void say_not_stored(json_t *response)
{
  json_object_set_new(response, "store", json_false());
}

static void on_whole_kept(struct lls_generation *generation, bool stored, void *context)
{
  struct keeping *keeping = context;
  struct lls_http_exchange *exchange = generation->exchange;
  if (exchange != NULL) {
    detach(generation);
    exchange->on_gone = NULL;
    if (!stored)
      say_not_stored(keeping->json);
    char *other = stored ? NULL : lls_json_text(keeping->json, JSON_COMPACT);
    const char *text = other != NULL ? other : keeping->text;
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
    free(other);
  }
  end_keeping(keeping, generation);
}

static json_t *last_response(json_t *events)
{
  size_t n = json_array_size(events);
  return json_object_get(json_array_get(events, n - 1), "response");
}

static void send_last_events(struct lls_generation *generation, json_t *events)
{
  send_named(generation, events);
  end_stream(generation);
  detach(generation);
}

static void on_events_kept(struct lls_generation *generation, bool stored, void *context)
{
  struct keeping *keeping = context;
  if (!stored)
    say_not_stored(last_response(keeping->json));
  if (generation->exchange != NULL)
    send_last_events(generation, json_incref(keeping->json));
  end_keeping(keeping, generation);
}

/* Sends the last events of a stream; if its response is to be stored, only after that. */
static void finish_response(struct lls_generation *generation)
{
  json_t *events = lls_response_end(generation);
  bool stores = lls_response_input(generation->response) != NULL;
  char *text = stores ? lls_json_text(last_response(events), JSON_COMPACT) : NULL;
  struct keeping *keeping = keep(events, text);
  if (keeping != NULL) {
    lls_response_memory_put(generation, text, on_events_kept, keeping);
    return;
  }
  free(text);
  if (stores)
    say_not_stored(last_response(events));
  send_last_events(generation, events);
  lls_generation_destroy(generation);
}

/* ---- whole answers ---------------------------------------------------------------- */

/* Work that writes a whole answer. It alone owns the generation: the step loop has
 * finished with it. */
struct writing {
  struct lls_work work;
  struct lls_generation *generation;
  struct lls_offline *offline; /* receives the answer if there is no exchange */
  char *text;                  /* JSON; NULL without memory */
  json_t *response;            /* the answer as a tree if it is to be stored */
};

static void write_whole(struct lls_work *work)
{
  struct writing *writing = (struct writing *)work;
  if (writing->generation->params.pooling != LLS_POOLING_NONE) {
    writing->text = lls_wire_vectors(writing->generation);
    return;
  }
  json_t *json = writing->generation->response != NULL
                     ? lls_response_whole(writing->generation)
                     : lls_wire_whole(writing->generation);
  if (json != NULL && !writing->generation->incomplete)
    writing->text = lls_json_text(json, JSON_COMPACT);
  if (lls_response_input(writing->generation->response) != NULL)
    writing->response = json_incref(json);
  json_decref(json);
}

/* Stores the response, then answers. Returns false without memory; otherwise the
 * generation now belongs to the store's callback. */
static bool store_whole(struct writing *writing, struct lls_http_exchange *exchange)
{
  struct lls_generation *generation = writing->generation;
  struct keeping *keeping = keep(writing->response, writing->text);
  if (keeping == NULL)
    return false;
  writing->generation = NULL;
  writing->response = NULL;
  writing->text = NULL;
  lls_generation_attach(generation, exchange);
  lls_response_memory_put(generation, keeping->text, on_whole_kept, keeping);
  return true;
}

static void answer_whole(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct lls_offline *offline = ((struct writing *)work)->offline;
  const char *text = ((struct writing *)work)->text;
  if (((struct writing *)work)->response != NULL &&
      store_whole((struct writing *)work, exchange))
    return;
  if (offline != NULL)
    offline->answer(offline, text != NULL ? 200 : 503, text,
                    text != NULL ? strlen(text) : 0);
  else if (text != NULL)
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
  else {
    struct lls_api_error error;
    lls_api_fail(&error, 503, NULL, NULL, "out of memory for the answer");
    lls_api_error_reply(exchange, &error);
  }
}

static void destroy_whole(struct lls_work *work)
{
  struct writing *writing = (struct writing *)work;
  if (writing->generation != NULL)
    lls_generation_destroy(writing->generation);
  json_decref(writing->response);
  free(writing->text);
  free(writing);
}

/* Estimates the JSON values in the answer's arrays: each takes about 2 us to write, as
 * much as TEXT_AS_VALUE bytes of text. */
static size_t values_of(const struct lls_generation *generation)
{
  const struct lls_api_params *params = &generation->params;
  size_t count = 0;
  uint32_t alternatives = 0;
  bool scored = lls_api_params_scores(params, &alternatives);
  if (params->pooling != LLS_POOLING_NONE)
    return (size_t)generation->n_choices * generation->api->config.vector_columns;
  if (params->logprobs > (int64_t)alternatives)
    alternatives = (uint32_t)params->logprobs;
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    const struct lls_choice *choice = &generation->choices[i];
    size_t prompt = scored || params->return_token_ids ? choice->prompt->n_tokens : 0;
    count += (prompt + choice->n_unreported) * (3 + alternatives);
    count += choice->text.length / TEXT_AS_VALUE;
  }
  return count;
}

static void finish_whole(struct lls_generation *generation)
{
  struct lls_http_exchange *exchange = generation->exchange;
  struct lls_offline *offline = generation->offline;
  struct writing *writing = calloc(1, sizeof *writing);
  detach(generation);
  if (writing == NULL) {
    if (offline != NULL)
      offline->answer(offline, 503, NULL, 0);
    else
      lls_http_reply(exchange, 500, NULL, NULL, 0);
    lls_generation_destroy(generation);
    return;
  }
  writing->work = (struct lls_work){
      .run = write_whole, .answer = answer_whole, .destroy = destroy_whole};
  writing->generation = generation;
  writing->offline = offline;
  lls_work_begin(generation->api, exchange, &writing->work,
                 values_of(generation) >= LARGE_ANSWER);
}

static void finish_stream(struct lls_generation *generation)
{
  if (generation->response != NULL) {
    finish_response(generation);
    return;
  }
  if (generation->params.include_usage)
    send_event(generation, lls_wire_usage_chunk(generation));
  end_stream(generation);
  detach(generation);
  lls_generation_destroy(generation);
}

void lls_reply_finish(struct lls_generation *generation)
{
  LLS_CHECK(lls_generation_is_wanted(generation) && generation->n_unfinished == 0);
  if (generation->params.stream)
    finish_stream(generation);
  else
    finish_whole(generation);
}

void lls_reply_error(struct lls_generation *generation, const struct lls_api_error *error)
{
  struct lls_offline *offline = generation->offline;
  if (!lls_generation_is_wanted(generation))
    return;
  if (offline != NULL) {
    detach(generation);
    lls_offline_fail(offline, error);
    return;
  }
  if (generation->streaming) {
    if (generation->response != NULL)
      send_named(generation, lls_response_failure(generation, error));
    else
      send_event(generation, lls_api_error_json(error));
    end_stream(generation);
  } else {
    lls_api_error_reply(generation->exchange, error);
  }
  detach(generation);
}
