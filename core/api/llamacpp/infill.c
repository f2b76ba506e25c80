/* SPDX-License-Identifier: Apache-2.0 */
/* POST /infill: the model writes the text between two others, if its tokeniser has the
 * tokens for that; see llamacpp.h. */
#include "core/api/llamacpp/llamacpp.h"

#include <string.h>

/* The tokens of a model that fills in; each is named differently by several families. */
enum { PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE_NAME, N_MARKS };

static const char *const mark_names[N_MARKS][5] = {
    [PREFIX] = {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>",
                "<|fim\xe2\x96\x81"
                "begin|>"},
    [SUFFIX] = {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>",
                "<|fim\xe2\x96\x81hole|>"},
    [MIDDLE] = {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>",
                "<|fim\xe2\x96\x81"
                "end|>"},
    [REPOSITORY] = {"<|repo_name|>", "<reponame>", "<fim-repo>", "<repo_name>", "<REPO>"},
    [FILE_NAME] = {"<|file_sep|>", "<file_sep>", "<filename>", "<fim-file>", "<FILE>"},
};

static int32_t mark(const struct lls_tokenizer *tokenizer, int which)
{
  int32_t id = -1;
  for (size_t i = 0; id < 0 && i < sizeof *mark_names / sizeof **mark_names; i++)
    id = lls_tokenizer_find(tokenizer, mark_names[which][i]);
  return id;
}

/* Appends a token that the model has. */
static void add_mark(const struct lls_tokenizer *tokenizer, int which, json_t *pieces)
{
  json_array_append_new(pieces, json_integer(mark(tokenizer, which)));
}

static int check_marks(const struct lls_tokenizer *tokenizer, struct lls_api_error *error)
{
  for (int which = PREFIX; which <= MIDDLE; which++)
    if (mark(tokenizer, which) < 0)
      return lls_api_fail(error, 400, "unsupported_model", NULL,
                          "this model does not fill in texts: its tokeniser has no token "
                          "\"%s\", nor one of the other names of it; use /completion",
                          mark_names[which][0]);
  return 0;
}

/* Appends the member's text if there is one. */
static int add_text(const json_t *body, const char *name, json_t *pieces,
                    struct lls_api_error *error)
{
  json_t *text = json_object_get(body, name);
  if (text != NULL && !json_is_null(text) && !json_is_string(text))
    return lls_api_fail(error, 400, NULL, name, "'%s' must be a string", name);
  if (json_string_length(text) > 0)
    json_array_append(pieces, text);
  return 0;
}

static int add_file(const struct lls_tokenizer *tokenizer, const json_t *file,
                    json_t *pieces, struct lls_api_error *error)
{
  json_t *name = json_object_get(file, "filename"), *text = json_object_get(file, "text");
  if (!json_is_string(text) || (name != NULL && !json_is_string(name)))
    return lls_api_fail(error, 400, NULL, "input_extra",
                        "'input_extra' must be an array of objects with the strings "
                        "\"filename\" and \"text\"");
  add_mark(tokenizer, FILE_NAME, pieces);
  json_array_append_new(
      pieces, json_sprintf("%s\n", name != NULL ? json_string_value(name) : "tmp"));
  if (json_string_length(text) > 0)
    json_array_append(pieces, text);
  return 0;
}

/* Appends the other files of a project, by the tokens of models that know them. */
static int add_extra(const struct lls_tokenizer *tokenizer, const json_t *body,
                     json_t *pieces, struct lls_api_error *error)
{
  size_t i;
  const json_t *file, *extra = json_object_get(body, "input_extra");
  if (extra != NULL && !json_is_null(extra) && !json_is_array(extra))
    return lls_api_fail(error, 400, NULL, "input_extra",
                        "'input_extra' must be an array of files");
  if (json_array_size(extra) == 0)
    return 0;
  if (mark(tokenizer, REPOSITORY) < 0 || mark(tokenizer, FILE_NAME) < 0)
    return lls_api_fail(error, 400, "unsupported_parameter", "input_extra",
                        "'input_extra' is not supported: this model's tokeniser has no "
                        "tokens \"%s\" and \"%s\"",
                        mark_names[REPOSITORY][0], mark_names[FILE_NAME][0]);
  add_mark(tokenizer, REPOSITORY, pieces);
  json_array_append_new(pieces, json_string("myproject\n"));
  json_array_foreach((json_t *)extra, i, file)
  {
    if (add_file(tokenizer, file, pieces, error) != 0)
      return -1;
  }
  add_mark(tokenizer, FILE_NAME, pieces);
  json_array_append_new(pieces, json_string("filename\n"));
  return 0;
}

/* Appends what the tokeniser puts before a text, such as BOS: the prompt begins with a
 * token, to which nothing is added. */
static void add_frame(const struct lls_tokenizer *tokenizer, json_t *pieces)
{
  struct lls_tokenizer_frame frame = lls_tokenizer_frame(tokenizer);
  for (size_t i = 0; i < frame.n_before; i++)
    json_array_append_new(pieces, json_integer(frame.before[i]));
}

static int add_pieces(const struct lls_tokenizer *tokenizer, const json_t *body,
                      json_t *pieces, struct lls_api_error *error)
{
  if (check_marks(tokenizer, error) != 0)
    return -1;
  add_frame(tokenizer, pieces);
  if (add_extra(tokenizer, body, pieces, error) != 0)
    return -1;
  add_mark(tokenizer, PREFIX, pieces);
  if (add_text(body, "input_prefix", pieces, error) != 0)
    return -1;
  add_mark(tokenizer, SUFFIX, pieces);
  if (add_text(body, "input_suffix", pieces, error) != 0)
    return -1;
  add_mark(tokenizer, MIDDLE, pieces);
  return add_text(body, "prompt", pieces, error);
}

/* Converts the body to a completion's, whose "prompt" is an object of the texts. */
static json_t *translate(json_t *body, const struct lls_past *past, void **state,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  static const char *const names[] = {"input_prefix", "input_suffix", "input_extra",
                                      "prompt"};
  json_t *texts = json_object(), *rest = json_copy(body);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    json_t *value = json_object_get(rest, names[i]);
    if (value != NULL)
      json_object_set(texts, names[i], value);
    json_object_del(rest, names[i]);
  }
  json_t *form = lls_llamacpp_translate(rest, past, state, unknown, error);
  json_object_set_new(form, "prompt", texts);
  json_decref(rest);
  return form;
}

static int read_prompts(const struct lls_api_config *config, const json_t *body,
                        const struct lls_api_params *params,
                        struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  json_t *pieces = json_array();
  int status =
      add_pieces(config->tokenizer, json_object_get(body, "prompt"), pieces, error);
  if (status == 0)
    status = lls_prompts_read(config, pieces, "prompt", params, prompts, error);
  json_decref(pieces);
  return status;
}

static const struct lls_body_member members[] = {
    {"input_prefix", "string", false},   {"input_suffix", "string", false},
    {"input_extra", "array", false},     {"prompt", "string", false},
    {"n_probs", "integer", false},       {"repeat_penalty", "number", false},
    {"return_tokens", "boolean", false}, {"n_cmpl", "integer", false},
    {"cache_prompt", "boolean", false},  {"response_fields", "array", false},
    {"logprobs", NULL, false},           {"echo", NULL, false},
    {"prompt_logprobs", NULL, false},    {"stream_options", NULL, false},
    {"return_token_ids", NULL, false},   {"return_tokens_as_token_ids", NULL, false},
    {"repetition_penalty", NULL, false}, {NULL, NULL, false}};

const struct lls_dialect lls_llamacpp_infill = {
    .cuts_answers = true,
    .id_prefix = "infill-",
    .members = members,
    .params_of = LLS_COMPLETIONS,
    .framing = &lls_framing_unended,
    .translate = translate,
    .rename = lls_llamacpp_rename,
    .read_prompts = read_prompts,
    .whole = lls_llamacpp_whole,
    .chunk = lls_llamacpp_chunk,
    .progress = lls_llamacpp_progress,
    .end = lls_llamacpp_end,
    .failure = lls_llamacpp_failure,
    .error = lls_llamacpp_error,
    .free_state = lls_llamacpp_free,
};
