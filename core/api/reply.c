/* SPDX-License-Identifier: Apache-2.0 */
/* When what is sent, and that nothing is after the client has gone; see reply.h. */
#include "core/api/reply.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/wire.h"
#include "core/http/sse.h"

/* The exchange is over: whatever comes now is for nobody. */
static void detach(struct lls_generation *generation)
{
  generation->exchange = NULL;
}

static void begin_stream(struct lls_generation *generation)
{
  generation->sent_ns = (int64_t)uv_hrtime();
  if (generation->streaming)
    return;
  generation->streaming = true;
  lls_sse_begin(generation->exchange);
}

/* Sends one event and releases it. */
static void send_event(struct lls_generation *generation, json_t *json)
{
  char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
  begin_stream(generation);
  if (text != NULL)
    lls_sse_data(generation->exchange, text, strlen(text));
  free(text);
  json_decref(json);
}

void lls_reply_chunk(struct lls_choice *choice)
{
  struct lls_generation *generation = choice->generation;
  if (generation->exchange == NULL || choice->ended)
    return;
  if (!choice->begun && generation->endpoint == LLS_CHAT)
    send_event(generation, lls_wire_role_chunk(choice));
  bool empty = choice->ready == 0 && choice->n_unreported == 0;
  if (!empty || choice->finish_reason != NULL)
    send_event(generation, lls_wire_chunk(choice));
  choice->text_offset += lls_wire_logprobs_characters(choice);
  choice->begun = true;
  choice->ended = choice->finish_reason != NULL;
  choice->n_unreported = 0;
  lls_text_consume(&choice->text, choice->ready);
  choice->ready = 0;
}

void lls_reply_silence(struct lls_generation *generation)
{
  begin_stream(generation);
  lls_sse_comment(generation->exchange);
}

void lls_reply_finish(struct lls_generation *generation)
{
  if (!generation->params.stream) {
    lls_api_reply_json(generation->exchange, 200, lls_wire_whole(generation));
  } else {
    if (generation->params.include_usage)
      send_event(generation, lls_wire_usage_chunk(generation));
    lls_sse_end(generation->exchange);
  }
  detach(generation);
}

void lls_reply_error(struct lls_generation *generation, const struct lls_api_error *error)
{
  if (generation->exchange == NULL)
    return;
  if (generation->streaming) {
    send_event(generation, lls_api_error_json(error));
    lls_sse_end(generation->exchange);
  } else {
    lls_api_error_reply(generation->exchange, error);
  }
  detach(generation);
}
