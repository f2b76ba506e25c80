/* SPDX-License-Identifier: Apache-2.0 */
/* Builds answers of /v1/messages block by block; see messages.h. */
#include "core/api/anthropic/messages.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/chat_answer.h"
#include "core/base/json_memory.h"

enum block_kind { NO_BLOCK, THINKING, TEXT, CALL };

struct lls_message {
  json_t *blocks; /* closed blocks of a whole answer */
  json_t *events; /* events of a stream not sent yet */
  bool begun, pinged;
  /* The open block: the one that the answer's text is added to. */
  enum block_kind open;
  json_int_t index;
  struct lls_text text; /* its text so far, for a whole answer */
  struct lls_sha256 sum;
  json_t *id, *name; /* only if the open block is a CALL */
};

struct lls_message *lls_message_create(void)
{
  struct lls_message *m = calloc(1, sizeof *m);
  if (m == NULL)
    return NULL;
  m->blocks = json_array();
  m->events = json_array();
  return m;
}

void lls_message_free(void *message)
{
  struct lls_message *m = message;
  if (m == NULL)
    return;
  json_decref(m->blocks);
  json_decref(m->events);
  json_decref(m->id);
  json_decref(m->name);
  lls_text_free(&m->text);
  free(m);
}

/* ---- events ------------------------------------------------------------------------ */

static void emit(struct lls_message *m, const char *type, json_t *members)
{
  lls_json_put(&members, "type", json_string(type));
  lls_json_add(&m->events, members);
}

/* Emits an event about the open block. */
static void emit_of_block(struct lls_message *m, const char *type, const char *member,
                          json_t *value)
{
  json_t *members = json_pack("{s:I}", "index", m->index);
  if (member != NULL)
    lls_json_put(&members, member, value);
  emit(m, type, members);
}

static void emit_delta(struct lls_message *m, const char *type, const char *member,
                       json_t *value)
{
  json_t *delta = json_pack("{s:s, s:o}", "type", type, member, value);
  emit_of_block(m, "content_block_delta", "delta", delta);
}

static json_t *take_events(struct lls_message *m)
{
  json_t *due = m->events;
  m->events = json_array();
  return due;
}

/* Drops the events and blocks after a part was lost for lack of memory: neither could be
 * complete. */
static void lose(struct lls_message *m)
{
  json_decref(m->events);
  json_decref(m->blocks);
  m->events = m->blocks = NULL;
}

/* ---- blocks ------------------------------------------------------------------------ */

static json_t *text_of(const struct lls_message *m)
{
  if (m->text.failed)
    return NULL;
  return json_stringn(m->text.length > 0 ? m->text.data : "", m->text.length);
}

/* Returns the input of the call. In a stream the block begins without any. */
static json_t *input_of(const struct lls_message *m)
{
  if (m->text.failed)
    return NULL;
  return m->text.length > 0 ? lls_partial_json(m->text.data, m->text.length)
                            : json_object();
}

/* Returns the open block as JSON, with the text so far. */
static json_t *block_of(const struct lls_message *m, const char *signature)
{
  if (m->open == CALL)
    return json_pack("{s:s, s:O, s:O, s:o}", "type", "tool_use", "id", m->id, "name",
                     m->name, "input", input_of(m));
  if (m->open == THINKING)
    return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", text_of(m),
                     "signature", signature);
  return json_pack("{s:s, s:o}", "type", "text", "text", text_of(m));
}

static void close_block(struct lls_message *m, bool streams)
{
  char signature[LLS_SIGNATURE_BYTES] = "";
  if (m->open == NO_BLOCK)
    return;
  if (m->open == THINKING)
    lls_thinking_sign(&m->sum, signature);
  if (!streams)
    lls_json_add(&m->blocks, block_of(m, signature));
  else if (m->open == THINKING)
    emit_delta(m, "signature_delta", "signature", json_string(signature));
  if (streams)
    emit_of_block(m, "content_block_stop", NULL, NULL);
  m->open = NO_BLOCK;
  m->index++;
}

static void open_block(struct lls_message *m, enum block_kind kind, bool streams)
{
  close_block(m, streams);
  lls_text_clear(&m->text);
  lls_sha256_begin(&m->sum);
  m->open = kind;
  if (!streams)
    return;
  emit_of_block(m, "content_block_start", "content_block", block_of(m, ""));
  if (!m->pinged)
    emit(m, "ping", json_object());
  m->pinged = true;
}

static void add_text(struct lls_message *m, json_t *text, bool streams)
{
  static const char *const names[][2] = {[THINKING] = {"thinking_delta", "thinking"},
                                         [TEXT] = {"text_delta", "text"},
                                         [CALL] = {"input_json_delta", "partial_json"}};
  size_t length = json_string_length(text);
  if (length == 0)
    return;
  if (m->open == THINKING)
    lls_sha256_add(&m->sum, json_string_value(text), length);
  if (streams)
    emit_delta(m, names[m->open][0], names[m->open][1], json_incref(text));
  else
    lls_text_append(&m->text, json_string_value(text), length);
}

/* ---- from the parts of a message --------------------------------------------------- */

static void take_text(struct lls_message *m, json_t *text, enum block_kind kind,
                      bool streams)
{
  if (json_string_length(text) == 0)
    return;
  if (m->open != kind)
    open_block(m, kind, streams);
  add_text(m, text, streams);
}

/* Takes a part of a tool call. The first part has the call's id and name. */
static void take_call(struct lls_message *m, json_t *part, bool streams)
{
  json_t *function = json_object_get(part, "function"), *id = json_object_get(part, "id");
  if (json_is_string(id)) {
    close_block(m, streams);
    json_decref(m->id);
    json_decref(m->name);
    m->id = json_incref(id);
    m->name = json_incref(json_object_get(function, "name"));
    open_block(m, CALL, streams);
  }
  add_text(m, json_object_get(function, "arguments"), streams);
}

/* Takes the parts that arrived together, first the rest of the open call, which precedes
 * what follows it. */
static void take(struct lls_message *m, json_t *delta, bool streams)
{
  size_t i;
  json_t *part, *calls = json_object_get(delta, "tool_calls");
  json_t *first = json_array_get(calls, 0);
  if (delta == NULL)
    lose(m);
  if (m->open == CALL && first != NULL && json_object_get(first, "id") == NULL) {
    take_call(m, first, streams);
    json_array_remove(calls, 0);
  }
  take_text(m, json_object_get(delta, "reasoning"), THINKING, streams);
  take_text(m, json_object_get(delta, "content"), TEXT, streams);
  json_array_foreach(calls, i, part)
  {
    take_call(m, part, streams);
  }
  json_decref(delta);
}

/* ---- the message ------------------------------------------------------------------- */

static json_t *counts(int64_t input, int64_t created, int64_t read, int64_t output)
{
  return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)input,
                   "cache_creation_input_tokens", (json_int_t)created,
                   "cache_read_input_tokens", (json_int_t)read, "output_tokens",
                   (json_int_t)output);
}

/* Tokens found in the cache, and those put into it, are counted apart from the input's:
 * the three together are the prompt's. */
static json_t *usage(const struct lls_generation *generation)
{
  struct lls_usage n = lls_generation_usage(generation);
  return counts(n.prompt - n.cached - n.created, n.created, n.cached, n.completion);
}

/* At the beginning of a stream the whole prompt is input, as in vLLM. Clients replace
 * this by the counts of message_delta. */
static json_t *first_usage(const struct lls_generation *generation)
{
  return counts(lls_generation_usage(generation).prompt, 0, 0, 0);
}

static const char *stop_reason(const struct lls_choice *choice)
{
  if (strcmp(choice->finish_reason, "tool_calls") == 0)
    return "tool_use";
  bool full = choice->n_tokens >= choice->generation->params.max_tokens;
  if (strcmp(choice->finish_reason, "length") == 0)
    return full ? "max_tokens" : "model_context_window_exceeded";
  return choice->stop_string != NULL ? "stop_sequence" : "end_turn";
}

/* Puts what ended the answer; null while it is generated. */
static void put_end(json_t **object, const struct lls_choice *choice)
{
  const char *reason = choice->finish_reason != NULL ? stop_reason(choice) : NULL;
  bool stopped = reason != NULL && strcmp(reason, "stop_sequence") == 0;
  lls_json_put(object, "stop_reason", reason != NULL ? json_string(reason) : json_null());
  lls_json_put(object, "stop_sequence",
               stopped
                   ? json_stringn(choice->stop_string->text, choice->stop_string->length)
                   : json_null());
}

static json_t *message(const struct lls_generation *generation, json_t *blocks,
                       json_t *tokens)
{
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "id", generation->id, "type",
                   "message", "role", "assistant", "model",
                   lls_generation_model(generation), "content", blocks, "usage", tokens);
}

json_t *lls_message_whole(const struct lls_generation *generation)
{
  struct lls_message *m = generation->state;
  close_block(m, false);
  json_t *object = message(generation, json_incref(m->blocks), usage(generation));
  put_end(&object, &generation->choices[0]);
  return object;
}

static void begin(struct lls_message *m, const struct lls_generation *generation)
{
  if (m->begun)
    return;
  m->begun = true;
  json_t *object = message(generation, json_array(), first_usage(generation));
  lls_json_put(&object, "stop_reason", json_null());
  lls_json_put(&object, "stop_sequence", json_null());
  emit(m, "message_start", json_pack("{s:o}", "message", object));
}

json_t *lls_message_chunk(struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  struct lls_message *m = generation->state;
  bool streams = generation->params.stream;
  if (streams)
    begin(m, generation);
  take(m, lls_chat_answer_delta(choice), streams);
  return take_events(m);
}

json_t *lls_message_end(const struct lls_generation *generation)
{
  struct lls_message *m = generation->state;
  json_t *delta = json_object();
  begin(m, generation);
  close_block(m, true);
  put_end(&delta, &generation->choices[0]);
  emit(m, "message_delta",
       json_pack("{s:o, s:o}", "delta", delta, "usage", usage(generation)));
  emit(m, "message_stop", json_object());
  return take_events(m);
}

json_t *lls_message_failure(const struct lls_generation *generation,
                            const struct lls_api_error *error)
{
  json_t *event = lls_messages_error(error);
  lls_json_put(&event, "request_id", json_string(generation->label));
  return json_pack("[o]", event);
}
