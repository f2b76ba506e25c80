/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the answer of /v1/responses item by item; see responses.h. */
#include "core/api/responses/responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/chat_answer.h"
#include "core/api/openai/wire.h"
#include "core/batch/response_item.h"
#include "core/base/json_memory.h"

enum item_kind { NO_ITEM, REASONING, MESSAGE, CALL, CUSTOM_CALL };

struct lls_response {
  json_t *echo;
  char *input;    /* JSON, to be stored with the answer; or NULL, if it is not stored */
  json_t *output; /* closed items */
  json_t *events; /* events not sent yet */
  json_int_t n_events;
  bool silent; /* the answer is sent whole: it has no events */
  bool queued; /* its first events were sent before it began */
  bool begun;
  /* The open item: the one that the answer's text is added to. */
  enum item_kind open;
  char id[LLS_RESPONSE_ITEM_BYTES];
  const char *answer;   /* id of the response: the generation has it */
  struct lls_text text; /* text of the open item so far */
  struct lls_response_tokens tokens;
  json_t *call_id, *name; /* only if the open item is a call */
};

struct lls_response *lls_response_create(json_t *echo, char *input)
{
  struct lls_response *r = calloc(1, sizeof *r);
  if (r == NULL) {
    json_decref(echo);
    free(input);
    return NULL;
  }
  r->echo = echo;
  r->input = input;
  r->output = json_array();
  r->events = json_array();
  return r;
}

void lls_response_free(void *response)
{
  struct lls_response *r = response;
  if (r == NULL)
    return;
  json_decref(r->echo);
  free(r->input);
  json_decref(r->output);
  json_decref(r->events);
  json_decref(r->call_id);
  json_decref(r->name);
  lls_text_free(&r->text);
  lls_response_tokens_free(&r->tokens);
  free(r);
}

const char *lls_response_input(const struct lls_response *r)
{
  return r->input;
}

const char *lls_response_previous(const struct lls_response *r)
{
  return json_string_value(json_object_get(r->echo, "previous_response_id"));
}

const char *lls_response_belongs(const struct lls_response *r)
{
  return lls_response_conversation(r->echo);
}

bool lls_response_is_background(const struct lls_response *r)
{
  return json_is_true(json_object_get(r->echo, "background"));
}

bool lls_response_truncates(const struct lls_response *r)
{
  const char *mode = json_string_value(json_object_get(r->echo, "truncation"));
  return mode != NULL && strcmp(mode, "auto") == 0;
}

/* ---- events ------------------------------------------------------------------------ */

static void emit(struct lls_response *r, const char *type, json_t *members)
{
  if (r->silent) {
    json_decref(members);
    return;
  }
  lls_json_put(&members, "type", json_string(type));
  lls_json_put(&members, "sequence_number", json_integer(r->n_events++));
  lls_json_add(&r->events, members);
}

static bool is_call(const struct lls_response *r)
{
  return r->open == CALL || r->open == CUSTOM_CALL;
}

/* Emits an event about the open item. */
static void emit_of_item(struct lls_response *r, const char *type, json_t *members)
{
  lls_json_put(&members, "item_id", json_string(r->id));
  lls_json_put(&members, "output_index",
               json_integer((json_int_t)json_array_size(r->output)));
  if (!is_call(r))
    lls_json_put(&members, "content_index", json_integer(0));
  emit(r, type, members);
}

/* Drops the events and items after a part was lost for lack of memory: neither could be
 * complete. */
static void lose(struct lls_response *r)
{
  json_decref(r->events);
  json_decref(r->output);
  r->events = r->output = NULL;
}

static json_t *take_events(struct lls_response *r)
{
  json_t *due = r->events;
  r->events = json_array();
  return due;
}

/* ---- items ------------------------------------------------------------------------- */

static json_t *text_of(const struct lls_response *r)
{
  if (r->text.failed)
    return NULL;
  return json_stringn(r->text.length > 0 ? r->text.data : "", r->text.length);
}

static json_t *part_of(const struct lls_response *r)
{
  if (r->open == REASONING)
    return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text_of(r));
  return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text_of(r),
                   "annotations", "logprobs", lls_response_tokens_given(&r->tokens));
}

/* Returns what a custom tool is called with; "" until the arguments are complete. */
static json_t *custom_input(const struct lls_response *r, bool over)
{
  if (!over)
    return json_string("");
  return r->text.failed ? NULL : lls_response_custom_input(r->text.data, r->text.length);
}

/* Returns the open item, a call, as JSON. */
static json_t *call_of(const struct lls_response *r, const char *status, bool over)
{
  bool custom = r->open == CUSTOM_CALL;
  return json_pack("{s:s, s:s, s:s, s:O, s:O, s:o}", "id", r->id, "type",
                   custom ? "custom_tool_call" : "function_call", "status", status,
                   "call_id", r->call_id, "name", r->name, custom ? "input" : "arguments",
                   custom ? custom_input(r, over) : text_of(r));
}

/* Returns the open item as JSON. A message or reasoning has its content only when it is
 * complete. */
static json_t *item_of(const struct lls_response *r, const char *status)
{
  bool over = strcmp(status, "in_progress") != 0;
  if (is_call(r))
    return call_of(r, status, over);
  json_t *content = over ? json_pack("[o]", part_of(r)) : json_array();
  if (r->open == REASONING)
    return json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", r->id, "type", "reasoning",
                     "status", status, "summary", "content", content);
  return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", r->id, "type", "message", "status",
                   status, "role", "assistant", "content", content);
}

static void emit_item(struct lls_response *r, const char *type, json_t *item)
{
  emit(r, type,
       json_pack("{s:I, s:o}", "output_index", (json_int_t)json_array_size(r->output),
                 "item", item));
}

static void emit_text(struct lls_response *r, bool over, const char *member, json_t *text)
{
  static const char *const types[][2] = {
      [REASONING] = {"response.reasoning_text.delta", "response.reasoning_text.done"},
      [MESSAGE] = {"response.output_text.delta", "response.output_text.done"},
      [CALL] = {"response.function_call_arguments.delta",
                "response.function_call_arguments.done"},
      [CUSTOM_CALL] = {"response.custom_tool_call_input.delta",
                       "response.custom_tool_call_input.done"},
  };
  size_t bytes = json_string_length(text);
  json_t *members = json_pack("{s:o}", member, text);
  if (r->open == MESSAGE)
    lls_json_put(&members, "logprobs",
                 over ? lls_response_tokens_given(&r->tokens)
                      : lls_response_tokens_give(&r->tokens, bytes));
  if (r->open == CALL && over)
    lls_json_put(&members, "name", json_incref(r->name));
  emit_of_item(r, types[r->open][over], members);
}

static void close_item(struct lls_response *r, const char *status)
{
  if (r->open == NO_ITEM)
    return;
  if (r->open == CUSTOM_CALL) {
    /* the text is known once its JSON is complete, so it is one delta */
    emit_text(r, false, "delta", custom_input(r, true));
    emit_text(r, true, "input", custom_input(r, true));
  } else {
    emit_text(r, true, r->open == CALL ? "arguments" : "text", text_of(r));
  }
  if (!is_call(r))
    emit_of_item(r, "response.content_part.done", json_pack("{s:o}", "part", part_of(r)));
  json_t *item = item_of(r, status);
  emit_item(r, "response.output_item.done", json_incref(item));
  lls_json_add(&r->output, item);
  r->open = NO_ITEM;
}

static void open_item(struct lls_response *r, enum item_kind kind, const char *prefix)
{
  close_item(r, "completed");
  lls_response_item_id(r->id, prefix, r->answer, json_array_size(r->output));
  lls_text_clear(&r->text);
  r->open = kind;
  emit_item(r, "response.output_item.added", item_of(r, "in_progress"));
  if (!is_call(r))
    emit_of_item(r, "response.content_part.added",
                 json_pack("{s:o}", "part", part_of(r)));
}

static void add_text(struct lls_response *r, json_t *text)
{
  if (json_string_length(text) == 0)
    return;
  lls_text_append(&r->text, json_string_value(text), json_string_length(text));
  if (r->open != CUSTOM_CALL)
    emit_text(r, false, "delta", json_incref(text));
}

/* ---- from the parts of a message --------------------------------------------------- */

static void take_text(struct lls_response *r, json_t *text, enum item_kind kind,
                      const char *prefix)
{
  if (json_string_length(text) == 0)
    return;
  if (r->open != kind) {
    close_item(r, "completed");
    lls_response_tokens_begin(&r->tokens, json_string_value(text));
    open_item(r, kind, prefix);
  }
  add_text(r, text);
}

/* Takes a part of a tool call. The first part has the call's id and name. */
static void take_call(struct lls_response *r, json_t *part)
{
  json_t *function = json_object_get(part, "function"), *id = json_object_get(part, "id");
  if (json_is_string(id)) {
    close_item(r, "completed");
    json_decref(r->call_id);
    json_decref(r->name);
    r->call_id = json_incref(id);
    r->name = json_incref(json_object_get(function, "name"));
    if (lls_response_is_custom(json_object_get(r->echo, "tools"), r->name))
      open_item(r, CUSTOM_CALL, "ctc");
    else
      open_item(r, CALL, "fc");
  }
  add_text(r, json_object_get(function, "arguments"));
}

/* Takes the parts that arrived together, first the rest of the open call, which precedes
 * what follows it. */
static void take(struct lls_response *r, const struct lls_choice *choice, json_t *message)
{
  size_t i;
  json_t *part, *calls = json_object_get(message, "tool_calls");
  json_t *first = json_array_get(calls, 0);
  if (message == NULL)
    lose(r);
  r->answer = choice->generation->id;
  lls_response_tokens_take(&r->tokens, choice);
  if (is_call(r) && first != NULL && json_object_get(first, "id") == NULL) {
    take_call(r, first);
    json_array_remove(calls, 0);
  }
  take_text(r, json_object_get(message, "reasoning"), REASONING, "rs");
  take_text(r, json_object_get(message, "content"), MESSAGE, "msg");
  json_array_foreach(calls, i, part)
  {
    take_call(r, part);
  }
  json_decref(message);
}

static bool is_cut(const struct lls_generation *generation)
{
  const char *reason = generation->choices[0].finish_reason;
  return reason != NULL && strcmp(reason, "length") == 0;
}

/* Closes the open item. An answer without items gets one without text. */
static void finish(struct lls_response *r, const struct lls_generation *generation)
{
  r->answer = generation->id;
  if (r->open == NO_ITEM && json_array_size(r->output) == 0)
    open_item(r, MESSAGE, "msg");
  close_item(r, is_cut(generation) ? "incomplete" : "completed");
}

/* ---- the response ------------------------------------------------------------------ */

static json_t *usage(const struct lls_generation *generation)
{
  struct lls_usage n = lls_generation_usage(generation);
  return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens",
                   (json_int_t)n.prompt, "input_tokens_details", "cached_tokens",
                   (json_int_t)n.cached, "output_tokens", (json_int_t)n.completion,
                   "output_tokens_details", "reasoning_tokens", (json_int_t)n.reasoning,
                   "total_tokens", (json_int_t)(n.prompt + n.completion));
}

/* Returns the response in its current state, with the closed items. */
static json_t *response(const struct lls_generation *generation, const char *status)
{
  const struct lls_response *r = generation->state;
  bool over = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
  json_t *object = json_copy(r->echo);
  const struct lls_api_params *params = &generation->params;
  json_t *more = json_pack(
      "{s:s, s:s, s:I, s:s, s:s, s:o, s:n, s:f, s:f, s:o, s:o}", "id", generation->id,
      "object", "response", "created_at", (json_int_t)generation->created_s, "status",
      status, "model", lls_generation_model(generation), "output", json_copy(r->output),
      "error", "temperature", params->temperature, "top_p", params->top_p,
      "incomplete_details",
      strcmp(status, "incomplete") == 0
          ? json_pack("{s:s}", "reason", "max_output_tokens")
          : json_null(),
      "usage", over ? usage(generation) : json_null());
  lls_json_put(&more, "service_tier",
               json_string(lls_service_tier(params->request_class)));
  bool whole =
      json_object_size(object) == json_object_size(r->echo) &&
      json_array_size(json_object_get(more, "output")) == json_array_size(r->output) &&
      json_object_update(object, more) == 0;
  json_decref(more);
  if (whole)
    return object;
  json_decref(object);
  return NULL;
}

static const char *end_status(const struct lls_generation *generation)
{
  return is_cut(generation) ? "incomplete" : "completed";
}

json_t *lls_response_whole(const struct lls_generation *generation)
{
  struct lls_response *r = generation->state;
  r->silent = true;
  finish(r, generation);
  json_t *object = response(generation, end_status(generation));
  lls_wire_put_timings(&object, &generation->choices[0]);
  return object;
}

static void emit_response(struct lls_response *r, const char *type, json_t *object)
{
  emit(r, type, json_pack("{s:o}", "response", object));
}

static void begin(struct lls_response *r, const struct lls_generation *generation)
{
  if (r->begun)
    return;
  r->begun = true;
  if (r->silent)
    return;
  if (!r->queued)
    emit_response(r, "response.created", response(generation, "in_progress"));
  emit_response(r, "response.in_progress", response(generation, "in_progress"));
}

/* Puts llama.cpp's timings into the last of the events. */
static void time_events(json_t *events, const struct lls_choice *choice)
{
  size_t n = json_array_size(events);
  json_t *last = n > 0 ? json_incref(json_array_get(events, n - 1)) : NULL;
  if (last != NULL)
    lls_wire_put_timings(&last, choice);
  json_decref(last);
}

json_t *lls_response_progress(struct lls_choice *choice)
{
  struct lls_response *r = choice->generation->state;
  bool fresh = !r->begun;
  begin(r, choice->generation);
  if (!fresh)
    emit_response(r, "response.in_progress", response(choice->generation, "in_progress"));
  json_t *events = take_events(r);
  json_t *last = json_array_get(events, json_array_size(events) - 1);
  json_object_set_new(last, "prompt_progress", lls_wire_progress(choice));
  time_events(events, choice);
  return events;
}

/* The events so far hold the items as they were: later ones change the list. */
json_t *lls_response_chunk(struct lls_choice *choice)
{
  struct lls_response *r = choice->generation->state;
  r->silent = !choice->generation->params.stream;
  begin(r, choice->generation);
  take(r, choice, lls_chat_answer_delta(choice));
  json_t *events = take_events(r);
  time_events(events, choice);
  return events;
}

json_t *lls_response_end(const struct lls_generation *generation)
{
  struct lls_response *r = generation->state;
  const char *status = end_status(generation);
  begin(r, generation);
  finish(r, generation);
  emit_response(r, is_cut(generation) ? "response.incomplete" : "response.completed",
                response(generation, status));
  json_t *events = take_events(r);
  time_events(events, &generation->choices[0]);
  return events;
}

json_t *lls_response_failure(const struct lls_generation *generation,
                             const struct lls_api_error *error)
{
  struct lls_response *r = generation->state;
  begin(r, generation);
  json_t *object = response(generation, "failed");
  lls_json_put(
      &object, "error",
      json_pack("{s:s, s:s}", "code", "server_error", "message", error->message.text));
  emit_response(r, "response.failed", object);
  return take_events(r);
}

/* ---- in the background ------------------------------------------------------------- */

json_t *lls_response_of(const json_t *events)
{
  size_t n = json_array_size(events);
  return n > 0 ? json_object_get(json_array_get(events, n - 1), "response") : NULL;
}

json_t *lls_response_queued(const struct lls_generation *generation)
{
  struct lls_response *r = generation->state;
  r->queued = true;
  emit_response(r, "response.created", response(generation, "queued"));
  emit_response(r, "response.queued", response(generation, "queued"));
  return take_events(r);
}

json_t *lls_response_now(const struct lls_generation *generation)
{
  const struct lls_response *r = generation->state;
  return response(generation, r->begun ? "in_progress" : "queued");
}

/* No event of OpenAI's is for a cancelled response: response.incomplete has it. */
json_t *lls_response_cancelled(const struct lls_generation *generation)
{
  struct lls_response *r = generation->state;
  begin(r, generation);
  close_item(r, "incomplete");
  emit_response(r, "response.incomplete", response(generation, "cancelled"));
  return take_events(r);
}
