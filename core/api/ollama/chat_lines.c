/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the answers of /api/chat and /api/generate, whole and in lines; see ollama.h. */
#include "core/api/ollama/ollama.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/api/openai/wire.h"
#include "core/base/json_cost.h"

/* ---- lines ------------------------------------------------------------------------- */

static void begin_lines(struct lls_http_exchange *exchange)
{
  lls_http_add_header(exchange, "cache-control", "no-cache");
  lls_http_add_header(exchange, "x-accel-buffering", "no"); /* stops nginx's buffering */
  lls_http_stream_begin(exchange, 200, "application/x-ndjson");
}

static void send_line(struct lls_http_exchange *exchange, const json_t *event,
                      const char *text, size_t length)
{
  (void)event;
  char end[] = "\n";
  uv_buf_t pieces[] = {uv_buf_init((char *)text, (unsigned)length), uv_buf_init(end, 1)};
  lls_http_stream_write(exchange, pieces, 2);
}

/* Sends a blank, which may begin a line of JSON: clients would take an empty line for a
 * broken one. */
static void send_blank(struct lls_http_exchange *exchange)
{
  char blank[] = " ";
  uv_buf_t piece = uv_buf_init(blank, 1);
  lls_http_stream_write(exchange, &piece, 1);
}

const struct lls_framing lls_ollama_lines = {
    .begin = begin_lines,
    .send = send_line,
    .keep_alive = send_blank,
    .end = lls_http_stream_end,
};

/* ---- calls ------------------------------------------------------------------------- */

/* Adds a call to a message unless its arguments are incomplete: they are an object, not
 * text. Takes over id and name. */
static void add_call(json_t **calls, json_t *id, json_t *name,
                     const struct lls_text *arguments)
{
  json_t *object =
      lls_json_load(arguments->length > 0 ? arguments->data : "{}",
                    arguments->length > 0 ? arguments->length : 2, JSON_ALLOW_NUL, NULL);
  if (json_is_object(object)) {
    lls_json_add(calls, json_pack("{s:o, s:{s:i, s:o, s:o}}", "id", id, "function",
                                  "index", (int)json_array_size(*calls), "name", name,
                                  "arguments", object));
    return;
  }
  json_decref(object);
  json_decref(id);
  json_decref(name);
}

static json_t *whole_calls(const struct lls_choice *choice)
{
  const struct lls_tool_answer *answer = &choice->answer;
  json_t *calls = json_array();
  for (uint32_t i = 0; i < answer->n_calls; i++)
    add_call(&calls, json_string(answer->calls[i].id), json_string(answer->calls[i].name),
             &answer->calls[i].arguments);
  return calls;
}

/* Returns a new call of a stream, or NULL if out of memory. */
static struct lls_ollama_call *new_call(struct lls_ollama_answer *answer,
                                        const struct lls_tool_call *from)
{
  if (answer->n_calls == answer->call_capacity) {
    uint32_t capacity = answer->call_capacity > 0 ? answer->call_capacity * 2 : 4;
    struct lls_ollama_call *more =
        realloc(answer->calls, capacity * sizeof *answer->calls);
    if (more == NULL)
      return NULL;
    answer->calls = more;
    answer->call_capacity = capacity;
  }
  struct lls_ollama_call *call = &answer->calls[answer->n_calls++];
  *call = (struct lls_ollama_call){.id = json_string(from->id),
                                   .name = json_string(from->name)};
  return call;
}

/* Keeps the parts of calls that have arrived since the last line. */
static void keep_calls(const struct lls_choice *choice)
{
  struct lls_ollama_answer *answer = choice->generation->state;
  const struct lls_tool_answer *from = &choice->answer;
  uint32_t first = from->n_announced > 0 ? from->n_announced - 1 : 0;
  for (uint32_t i = first; i < from->n_calls; i++) {
    struct lls_ollama_call *call =
        i < answer->n_calls ? &answer->calls[i] : new_call(answer, &from->calls[i]);
    const struct lls_text *part = &from->calls[i].arguments;
    if (call != NULL && part->length > 0)
      lls_text_append(&call->arguments, part->data, part->length);
    choice->generation->incomplete |= call == NULL || call->arguments.failed;
  }
}

static json_t *kept_calls(const struct lls_ollama_answer *answer)
{
  json_t *calls = json_array();
  for (uint32_t i = 0; i < answer->n_calls; i++)
    add_call(&calls, json_incref(answer->calls[i].id), json_incref(answer->calls[i].name),
             &answer->calls[i].arguments);
  return calls;
}

/* ---- parts of an answer ------------------------------------------------------------ */

static json_t *text_json(const struct lls_text *text)
{
  return json_stringn(text->length > 0 ? text->data : "", text->length);
}

static json_t *content_of(const struct lls_choice *choice)
{
  const struct lls_ollama_answer *answer = choice->generation->state;
  if (answer->loads != NULL)
    return json_string("");
  return choice->parser != NULL ? text_json(&choice->answer.content)
                                : lls_choice_text(choice);
}

/* Returns the thoughts, or NULL if there are none or the client wants none. */
static json_t *thoughts_of(const struct lls_choice *choice)
{
  const struct lls_ollama_answer *answer = choice->generation->state;
  const struct lls_text *thoughts = &choice->answer.reasoning;
  bool shown = choice->generation->params.include_reasoning && answer->loads == NULL;
  return shown && thoughts->length > 0 ? text_json(thoughts) : NULL;
}

/* Returns a line or a whole answer with these parts, which are taken over; thoughts and
 * calls may be NULL. */
static json_t *line(const struct lls_choice *choice, json_t *content, json_t *thoughts,
                    json_t *calls, bool done)
{
  const struct lls_ollama_answer *answer = choice->generation->state;
  char when[32];
  struct tm parts;
  time_t now = time(NULL);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  json_t *object =
      json_pack("{s:s, s:s, s:b}", "model", lls_generation_model(choice->generation),
                "created_at", when, "done", (int)done);
  json_t *part =
      answer->has_message ? json_pack("{s:s}", "role", "assistant") : json_incref(object);
  lls_json_put(&part, answer->has_message ? "content" : "response", content);
  if (thoughts != NULL)
    lls_json_put(&part, "thinking", thoughts);
  if (calls != NULL)
    lls_json_put(&part, "tool_calls", calls);
  if (answer->has_message)
    lls_json_put(&object, "message", part);
  else
    json_decref(part);
  return object;
}

/* Puts the log probabilities of the tokens not reported yet, if the client wants them. */
static void put_logprobs(json_t **object, const struct lls_choice *choice)
{
  if (choice->generation->params.logprobs == LLS_UNSET || choice->n_unreported == 0)
    return;
  json_t *list = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++)
    lls_json_add(&list, lls_wire_chat_token(choice, &choice->tokens[i]));
  lls_json_put(object, "logprobs", list);
}

static json_int_t nanoseconds(int64_t from_ns, int64_t to_ns)
{
  return from_ns > 0 && to_ns > from_ns ? (json_int_t)(to_ns - from_ns) : 0;
}

/* Puts the reason of the end, and the figures. */
static void put_end(json_t **object, const struct lls_choice *choice)
{
  const struct lls_generation *generation = choice->generation;
  const struct lls_ollama_answer *answer = generation->state;
  bool cut =
      choice->finish_reason != NULL && strcmp(choice->finish_reason, "length") == 0;
  const char *reason = answer->loads != NULL ? answer->loads : cut ? "length" : "stop";
  lls_json_put(object, "done_reason", json_string(reason));
  if (answer->loads != NULL)
    return;
  const struct {
    const char *name;
    json_int_t value;
  } figures[] = {
      {"total_duration", nanoseconds(generation->arrival_ns, choice->last_token_ns)},
      {"load_duration", 0},
      {"prompt_eval_count", (json_int_t)choice->prompt->n_tokens},
      {"prompt_eval_duration",
       nanoseconds(generation->arrival_ns, choice->first_token_ns)},
      {"eval_count", choice->n_tokens},
      {"eval_duration", nanoseconds(choice->first_token_ns, choice->last_token_ns)}};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    lls_json_put(object, figures[i].name, json_integer(figures[i].value));
}

/* ---- whole and streamed ------------------------------------------------------------ */

json_t *lls_ollama_whole(const struct lls_generation *generation)
{
  const struct lls_choice *choice = &generation->choices[0];
  json_t *calls = choice->answer.n_calls > 0 ? whole_calls(choice) : NULL;
  json_t *object = line(choice, content_of(choice), thoughts_of(choice), calls, true);
  put_logprobs(&object, choice);
  put_end(&object, choice);
  return object;
}

json_t *lls_ollama_chunk(struct lls_choice *choice)
{
  const struct lls_ollama_answer *answer = choice->generation->state;
  json_t *events = json_array(), *content = content_of(choice);
  json_t *thoughts = thoughts_of(choice);
  keep_calls(choice);
  if (json_string_length(content) > 0 || thoughts != NULL || choice->n_unreported > 0) {
    json_t *part = line(choice, content, thoughts, NULL, false);
    put_logprobs(&part, choice);
    lls_json_add(&events, part);
  } else {
    json_decref(content);
  }
  if (choice->finish_reason == NULL)
    return events;
  if (answer->n_calls > 0)
    lls_json_add(&events, line(choice, json_string(""), NULL, kept_calls(answer), false));
  json_t *last = line(choice, json_string(""), NULL, NULL, true);
  put_end(&last, choice);
  lls_json_add(&events, last);
  return events;
}

json_t *lls_ollama_end(const struct lls_generation *generation)
{
  (void)generation;
  return json_array();
}

/* ---- errors ------------------------------------------------------------------------ */

json_t *lls_ollama_error(const struct lls_api_error *error)
{
  json_t *whole = lls_api_error_json(error);
  json_t *message = json_object_get(json_object_get(whole, "error"), "message");
  json_t *object = json_pack("{s:O}", "error", message);
  json_decref(whole);
  return object;
}

json_t *lls_ollama_failure(const struct lls_generation *generation,
                           const struct lls_api_error *error)
{
  (void)generation;
  return json_pack("[o]", lls_ollama_error(error));
}

void lls_ollama_free(void *state)
{
  struct lls_ollama_answer *answer = state;
  if (answer == NULL)
    return;
  for (uint32_t i = 0; i < answer->n_calls; i++) {
    json_decref(answer->calls[i].id);
    json_decref(answer->calls[i].name);
    lls_text_free(&answer->calls[i].arguments);
  }
  free(answer->calls);
  free(answer);
}
