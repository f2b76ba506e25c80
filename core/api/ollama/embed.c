/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/embed and the older /api/embeddings: vectors of texts; see ollama.h. */
#include "core/api/ollama/ollama.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/openai/vectors.h"

/* Converts the body to that of embeddings. `input`: the member that has the texts. */
static json_t *form_of(json_t *body, const char *input, struct lls_unknown_names *unknown,
                       struct lls_api_error *error)
{
  json_t *form = json_copy(body), *texts = json_object_get(body, input);
  if (texts != NULL)
    json_object_set(form, "input", texts);
  if (strcmp(input, "input") != 0)
    json_object_del(form, input);
  if (!json_is_false(json_object_get(form, "truncate")))
    json_object_set_new(form, "truncate_prompt_tokens", json_integer(-1));
  json_object_del(form, "truncate");
  if (form != NULL && lls_ollama_common(form, unknown, error) == 0)
    return form;
  if (form == NULL)
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
  json_decref(form);
  return NULL;
}

static json_t *translate_list(json_t *body, const struct lls_past *past, void **state,
                              struct lls_unknown_names *unknown,
                              struct lls_api_error *error)
{
  (void)past;
  (void)state;
  return form_of(body, "input", unknown, error);
}

static json_t *translate_one(json_t *body, const struct lls_past *past, void **state,
                             struct lls_unknown_names *unknown,
                             struct lls_api_error *error)
{
  (void)past;
  (void)state;
  const json_t *prompt = json_object_get(body, "prompt");
  if (json_is_string(prompt))
    return form_of(body, "prompt", unknown, error);
  lls_api_fail(error, 400, NULL, "prompt", "'prompt' must be a string");
  return NULL;
}

static int read_input(const struct lls_api_config *config, const json_t *body,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "input"), "input", params,
                          prompts, error);
}

/* Appends the name of the model and the figures, and ends the object. */
static void put_rest(struct lls_text *text, const struct lls_generation *generation)
{
  struct lls_usage usage = lls_generation_usage(generation);
  json_t *json = json_pack(
      "{s:s, s:I, s:I, s:I}", "model", lls_generation_model(generation), "total_duration",
      (json_int_t)((int64_t)uv_hrtime() - generation->arrival_ns), "load_duration",
      (json_int_t)0, "prompt_eval_count", (json_int_t)usage.prompt);
  char *rest = lls_json_text(json, JSON_COMPACT);
  text->failed |= rest == NULL;
  lls_text_puts(text, rest != NULL ? rest + 1 : "");
  free(rest);
  json_decref(json);
}

static char *finished(struct lls_text *text)
{
  if (text->failed)
    lls_text_free(text);
  return text->data;
}

static char *write_list(const struct lls_generation *generation)
{
  struct lls_text text = {0};
  lls_text_puts(&text, "{\"embeddings\":[");
  lls_vectors_put(&text, generation);
  lls_text_puts(&text, "],");
  put_rest(&text, generation);
  return finished(&text);
}

static char *write_one(const struct lls_generation *generation)
{
  struct lls_text text = {0};
  lls_text_puts(&text, "{\"embedding\":");
  lls_vectors_put(&text, generation);
  lls_text_puts(&text, "}");
  return finished(&text);
}

static const struct lls_body_member list_members[] = {
    {"model", "string", false},     {"input", "string|array", true},
    {"truncate", "boolean", false}, {"dimensions", "integer", false},
    {"options", "object", false},   {NULL, NULL, false}};

const struct lls_dialect lls_ollama_embed = {
    .id_prefix = "embd-",
    .members = list_members,
    .alone = true,
    .params_of = LLS_EMBEDDINGS,
    .translate = translate_list,
    .read_prompts = read_input,
    .write = write_list,
    .error = lls_ollama_error,
};

static const struct lls_body_member one_members[] = {{"model", "string", false},
                                                     {"prompt", "string", true},
                                                     {"options", "object", false},
                                                     {NULL, NULL, false}};

const struct lls_dialect lls_ollama_embedding = {
    .id_prefix = "embd-",
    .members = one_members,
    .alone = true,
    .params_of = LLS_EMBEDDINGS,
    .translate = translate_one,
    .read_prompts = read_input,
    .write = write_one,
    .error = lls_ollama_error,
};
