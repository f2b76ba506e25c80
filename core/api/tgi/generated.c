/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the answers of TGI's endpoints, whole and as events; see tgi.h. */
#include "core/api/tgi/tgi.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/openai/wire.h"

/* ---- parts ------------------------------------------------------------------------- */

static bool is_special(const struct lls_choice *choice, int32_t id)
{
  return lls_tokenizer_is_special(choice->generation->api->config.tokenizer, id);
}

/* Returns a token with its own text, or with `text` unless that is NULL. */
static json_t *token_json(const struct lls_choice *choice,
                          const struct lls_sampled *sampled, json_t *text)
{
  json_t *scored = lls_wire_chat_token(choice, sampled);
  if (text == NULL)
    text = json_incref(json_object_get(scored, "token"));
  json_t *token = json_pack("{s:i, s:o, s:O, s:b}", "id", sampled->token, "text", text,
                            "logprob", json_object_get(scored, "logprob"), "special",
                            (int)is_special(choice, sampled->token));
  json_decref(scored);
  return token;
}

static json_t *tokens_json(const struct lls_choice *choice)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++)
    lls_json_add(&list, token_json(choice, &choice->tokens[i], NULL));
  return list;
}

/* Returns the alternatives of each token. */
static json_t *top_tokens(const struct lls_choice *choice)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < choice->n_unreported; i++) {
    const struct lls_sampled *sampled = &choice->tokens[i];
    json_t *top = json_array();
    for (uint32_t k = 0; k < sampled->n_top; k++) {
      const struct lls_sampled one = {.token = sampled->top_token[k],
                                      .logprob = sampled->top_logprob[k]};
      lls_json_add(&top, token_json(choice, &one, NULL));
    }
    lls_json_add(&list, top);
  }
  return list;
}

static const char *finish_reason(const struct lls_choice *choice)
{
  if (choice->finish_reason != NULL && strcmp(choice->finish_reason, "length") == 0)
    return "length";
  return choice->stop_string != NULL ? "stop_sequence" : "eos_token";
}

static json_t *details_json(const struct lls_choice *choice)
{
  const struct lls_api_params *params = &choice->generation->params;
  json_t *seed = params->has_seed ? json_integer((json_int_t)params->seed) : json_null();
  return json_pack("{s:s, s:I, s:o, s:I}", "finish_reason", finish_reason(choice),
                   "generated_tokens", (json_int_t)choice->n_tokens, "seed", seed,
                   "input_length", (json_int_t)choice->prompt->n_tokens);
}

/* Returns the text of the answer, after that of the prompt if the client wants it. */
static json_t *generated_text(const struct lls_choice *choice, const char *text,
                              size_t length)
{
  const struct lls_tgi_answer *answer = choice->generation->state;
  const struct lls_api_prompt *prompt = choice->prompt;
  struct lls_text whole = {0};
  if (answer->full)
    lls_text_append(&whole, prompt->text, prompt->text_bytes);
  lls_text_append(&whole, text, length);
  json_t *string = whole.failed ? NULL : json_stringn(whole.data, whole.length);
  lls_text_free(&whole);
  return string;
}

/* ---- answers ----------------------------------------------------------------------- */

json_t *lls_tgi_whole(const struct lls_generation *generation)
{
  const struct lls_choice *choice = &generation->choices[0];
  const struct lls_tgi_answer *answer = generation->state;
  const char *text = choice->ready > 0 ? choice->text.data : "";
  json_t *object =
      json_pack("{s:o}", "generated_text", generated_text(choice, text, choice->ready));
  if (answer->details) {
    json_t *details = details_json(choice);
    lls_json_put(&details, "prefill", json_array());
    lls_json_put(&details, "tokens", tokens_json(choice));
    if (generation->params.logprobs > 0)
      lls_json_put(&details, "top_tokens", top_tokens(choice));
    lls_json_put(&object, "details", details);
  }
  return answer->in_list ? json_pack("[o]", object) : object;
}

/* Returns the event of the ready text, under the last token that it has: tokens that
 * arrive together share an event. */
static json_t *event_json(const struct lls_choice *choice)
{
  struct lls_tgi_answer *answer = choice->generation->state;
  struct lls_sampled sampled = {.token = answer->last};
  if (choice->n_unreported > 0)
    sampled = choice->tokens[choice->n_unreported - 1];
  answer->last = sampled.token;
  json_t *token = token_json(choice, &sampled, lls_choice_text(choice));
  json_t *event =
      json_pack("{s:I, s:o, s:n, s:n}", "index", (json_int_t)++answer->n_events, "token",
                token, "generated_text", "details");
  if (choice->generation->params.logprobs > 0) {
    json_t *tops = top_tokens(choice);
    size_t n = json_array_size(tops);
    lls_json_put(&event, "top_tokens",
                 n > 0 ? json_incref(json_array_get(tops, n - 1)) : json_array());
    json_decref(tops);
  }
  return event;
}

json_t *lls_tgi_chunk(struct lls_choice *choice)
{
  struct lls_tgi_answer *answer = choice->generation->state;
  json_t *events = json_array();
  bool over = choice->finish_reason != NULL;
  if (choice->ready == 0 && choice->n_unreported == 0 && !over)
    return events;
  if (choice->ready > 0)
    lls_text_append(&answer->text, choice->text.data, choice->ready);
  json_t *event = event_json(choice);
  if (over) {
    const char *text = answer->text.length > 0 ? answer->text.data : "";
    lls_json_put(&event, "generated_text",
                 generated_text(choice, text, answer->text.length));
    lls_json_put(&event, "details", details_json(choice));
  }
  choice->generation->incomplete |= answer->text.failed;
  lls_json_add(&events, event);
  return events;
}

json_t *lls_tgi_end(const struct lls_generation *generation)
{
  (void)generation;
  return json_array();
}

/* ---- errors ------------------------------------------------------------------------ */

static const char *error_kind(unsigned status)
{
  if (status == 429 || status == 503)
    return "overloaded";
  return status < 500 ? "validation" : "generation";
}

json_t *lls_tgi_error(const struct lls_api_error *error)
{
  json_t *whole = lls_api_error_json(error);
  json_t *message = json_object_get(json_object_get(whole, "error"), "message");
  json_t *object =
      json_pack("{s:O, s:s}", "error", message, "error_type", error_kind(error->status));
  json_decref(whole);
  return object;
}

json_t *lls_tgi_failure(const struct lls_generation *generation,
                        const struct lls_api_error *error)
{
  (void)generation;
  return json_pack("[o]", lls_tgi_error(error));
}

void lls_tgi_free(void *state)
{
  struct lls_tgi_answer *answer = state;
  if (answer == NULL)
    return;
  lls_text_free(&answer->text);
  free(answer);
}
