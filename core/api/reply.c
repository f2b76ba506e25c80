/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the answers and stream events of a generation, and nothing after its client has
 * left; see reply.h. */
#include "core/api/reply.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/work.h"
#include "core/base/json_memory.h"

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
  generation->dialect->framing->begin(generation->exchange);
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

/* Ends the stream. A stream that lost an event is aborted, because a client takes a
 * stream with an end as complete. */
static void end_stream(struct lls_generation *generation)
{
  if (generation->incomplete)
    lls_http_stream_abort(generation->exchange);
  else
    generation->dialect->framing->end(generation->exchange);
}

/* Sends an array of events and releases it. The first event begins the stream. */
static void send_events(struct lls_generation *generation, json_t *events)
{
  size_t i;
  json_t *event;
  if (events == NULL || json_array_size(events) > 0)
    begin_stream(generation);
  generation->incomplete |= events == NULL;
  json_array_foreach(events, i, event)
  {
    char *text = text_of(generation, event);
    if (text != NULL)
      generation->dialect->framing->send(generation->exchange, event, text, strlen(text));
    free(text);
  }
  json_decref(events);
}

/* Lets the dialect gather the parts of a whole answer. */
static void drop_events(struct lls_generation *generation, json_t *events)
{
  generation->incomplete |= events == NULL;
  json_decref(events);
}

/* Sends events of a stream, or keeps them for the client that fetches them later. */
static void pass_events(struct lls_generation *generation, json_t *events)
{
  if (generation->sink != NULL)
    generation->sink->take(generation->sink, events);
  else if (generation->params.stream)
    send_events(generation, events);
  else
    drop_events(generation, events);
}

bool lls_reply_has_progress(const struct lls_generation *generation)
{
  const struct lls_api_params *params = &generation->params;
  return params->progress && params->stream && generation->dialect->progress != NULL;
}

void lls_reply_progress(struct lls_choice *choice)
{
  struct lls_generation *generation = choice->generation;
  if (generation->exchange == NULL && generation->sink == NULL)
    return;
  pass_events(generation, generation->dialect->progress(choice));
}

void lls_reply_chunk(struct lls_choice *choice)
{
  struct lls_generation *generation = choice->generation;
  if ((generation->exchange == NULL && generation->sink == NULL) || choice->ended)
    return;
  LLS_CHECK(choice->ready <= choice->text.length);
  pass_events(generation, generation->dialect->chunk(choice));
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
  generation->dialect->framing->keep_alive(generation->exchange);
}

/* ---- answers that are stored first ------------------------------------------------- */

/* An answer that is being written to the store. */
struct keeping {
  json_t *json; /* the answer, or the last events of a stream, which have it */
  char *text;   /* the answer */
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

static const struct lls_dialect_memory *memory_of(const struct lls_generation *generation)
{
  return generation->dialect->memory;
}

/* Returns true if the answer is to be stored before the client gets it. */
static bool is_kept(const struct lls_generation *generation)
{
  return memory_of(generation) != NULL && memory_of(generation)->wants(generation);
}

static void on_whole_kept(struct lls_generation *generation, bool stored, void *context)
{
  struct keeping *keeping = context;
  struct lls_http_exchange *exchange = generation->exchange;
  if (exchange != NULL) {
    detach(generation);
    exchange->on_gone = NULL;
    if (!stored)
      memory_of(generation)->say_not_stored(keeping->json);
    char *other = stored ? NULL : lls_json_text(keeping->json, JSON_COMPACT);
    const char *text = other != NULL ? other : keeping->text;
    lls_http_reply(exchange, 200, "application/json", text, strlen(text));
    free(other);
  }
  end_keeping(keeping, generation);
}

static void send_last_events(struct lls_generation *generation, json_t *events)
{
  send_events(generation, events);
  end_stream(generation);
  detach(generation);
}

static void on_events_kept(struct lls_generation *generation, bool stored, void *context)
{
  struct keeping *keeping = context;
  const struct lls_dialect_memory *memory = memory_of(generation);
  if (!stored)
    memory->say_not_stored(memory->part(keeping->json));
  if (generation->exchange != NULL)
    send_last_events(generation, json_incref(keeping->json));
  end_keeping(keeping, generation);
}

/* Stores the answer that is in a stream's last events, then sends these. Returns false
 * without memory. */
static bool store_events(struct lls_generation *generation, json_t *events)
{
  const struct lls_dialect_memory *memory = memory_of(generation);
  char *text = lls_json_text(memory->part(events), JSON_COMPACT);
  struct keeping *keeping = keep(events, text);
  if (keeping == NULL) {
    free(text);
    memory->say_not_stored(memory->part(events));
    return false;
  }
  memory->store(generation, text, on_events_kept, keeping);
  return true;
}

/* Sends the last events of a stream; if its answer is to be stored, only after that. */
static void finish_stream(struct lls_generation *generation)
{
  json_t *events = generation->dialect->end(generation);
  if (generation->sink != NULL) {
    generation->sink->end(generation->sink, events);
    lls_generation_destroy(generation);
    return;
  }
  if (is_kept(generation) && store_events(generation, events))
    return;
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
  json_t *kept;                /* the answer as a tree if it is to be stored */
};

static void write_whole(struct lls_work *work)
{
  struct writing *writing = (struct writing *)work;
  const struct lls_generation *generation = writing->generation;
  if (generation->dialect->write != NULL) {
    writing->text = generation->dialect->write(generation);
    return;
  }
  json_t *json = generation->dialect->whole(generation);
  if (json != NULL && !generation->incomplete)
    writing->text = lls_json_text(json, JSON_COMPACT);
  if (is_kept(generation))
    writing->kept = json_incref(json);
  json_decref(json);
}

/* Stores the answer, then sends it. Returns false without memory; otherwise the
 * generation now belongs to the store's callback. */
static bool store_whole(struct writing *writing, struct lls_http_exchange *exchange)
{
  struct lls_generation *generation = writing->generation;
  struct keeping *keeping = keep(writing->kept, writing->text);
  if (keeping == NULL)
    return false;
  writing->generation = NULL;
  writing->kept = NULL;
  writing->text = NULL;
  lls_generation_attach(generation, exchange);
  memory_of(generation)->store(generation, keeping->text, on_whole_kept, keeping);
  return true;
}

static void answer_whole(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct lls_offline *offline = ((struct writing *)work)->offline;
  const char *text = ((struct writing *)work)->text;
  if (((struct writing *)work)->kept != NULL &&
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
  json_decref(writing->kept);
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
  if (generation->sink != NULL) {
    generation->sink->end(generation->sink,
                          generation->dialect->failure(generation, error));
    return;
  }
  if (generation->streaming) {
    send_events(generation, generation->dialect->failure(generation, error));
    end_stream(generation);
  } else {
    lls_api_error_reply(generation->exchange, error);
  }
  detach(generation);
}
