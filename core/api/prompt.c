/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenises prompts, truncates them, and refuses a prompt that does not fit the context
 * together with the requested answer; see prompt.h.
 */
#include "core/api/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "core/api/api_params.h"
#include "core/api/plain_text.h"
#include "core/model/reranker.h"

/* State shared by all prompts of a request. */
struct reading {
  const struct lls_api_config *config;
  const struct lls_api_params *params;
  const char *param; /* the parameter that has the prompts */
  struct lls_api_error *error;
  /* a chat template made the text, which may have barriers (plain_text.h) */
  bool rendered;
};

static int out_of_memory(struct lls_api_error *error)
{
  return lls_api_fail(error, 503, NULL, NULL, "out of memory");
}

/* ---- length --------------------------------------------------------------------- */

/* Returns the tokens of answer that must fit: the requested number, or one. */
static size_t completion_tokens(const struct lls_api_params *params)
{
  if (params->pooling != LLS_POOLING_NONE)
    return 0;
  bool asked =
      params->max_tokens > 0 && params->max_tokens != LLS_ENDLESS && !params->cut_answer;
  return asked ? (size_t)params->max_tokens : 1;
}

/* Fails with the words that clients search for. `at_least` is not empty if the prompt was
 * not tokenised to its end. */
static int too_long(const struct reading *r, const char *at_least, size_t n_tokens)
{
  size_t completion = completion_tokens(r->params);
  const char *where = strcmp(r->param, "messages") == 0 ? "messages" : "prompt";
  if (r->params->pooling != LLS_POOLING_NONE)
    lls_api_fail(r->error, 400, "context_length_exceeded", r->param,
                 "This model's maximum context length is %u tokens. However, you "
                 "requested %s%zu tokens in the input. Please reduce its length, or send "
                 "'truncate_prompt_tokens': -1.",
                 r->config->max_context, at_least, n_tokens);
  else
    lls_api_fail(
        r->error, 400, "context_length_exceeded", r->param,
        "This model's maximum context length is %u tokens. However, you "
        "requested %s%zu tokens (%s%zu in the %s, %zu in the completion). Please "
        "reduce the length of the %s or of the completion.",
        r->config->max_context, at_least, n_tokens + completion, at_least, n_tokens,
        where, completion, where);
  r->error->hopeless = true;
  r->error->prompt_tokens = n_tokens;
  r->error->context_tokens = r->config->max_context;
  return -1;
}

/* Returns truncate_prompt_tokens as a number of prompt tokens. */
static size_t most_tokens(const struct reading *r)
{
  size_t context = r->config->max_context, answer = completion_tokens(r->params);
  int64_t wanted = r->params->truncate_prompt_tokens;
  if (wanted == LLS_UNSET)
    return SIZE_MAX;
  if (wanted != LLS_ENDLESS)
    return (size_t)wanted;
  return context > answer ? context - answer : 0;
}

/* Cuts the end of a prompt, as encoders' tokenisers do, and keeps the tokens that
 * encoding or a reranker's form appends. */
static void cut_end(struct lls_api_prompt *prompt, size_t most)
{
  memmove(prompt->tokens + most - prompt->n_after,
          prompt->tokens + prompt->n_tokens - prompt->n_after,
          prompt->n_after * sizeof *prompt->tokens);
  prompt->n_tokens = most;
  prompt->from_ids = true;
}

/* Keeps only the last tokens of the prompt, and the tokens that encoding has added. */
static void cut(const struct reading *r, struct lls_api_prompt *prompt)
{
  size_t most = most_tokens(r);
  if (most <= prompt->n_added + prompt->n_after || most >= prompt->n_tokens)
    return;
  bool ends = r->config->encoder.is_one || r->config->encoder.form != NULL;
  if (ends || r->params->cut_end) {
    cut_end(prompt, most);
    return;
  }
  size_t kept = most - prompt->n_added;
  memmove(prompt->tokens + prompt->n_added, prompt->tokens + prompt->n_tokens - kept,
          kept * sizeof *prompt->tokens);
  prompt->n_tokens = most;
  prompt->from_ids = true;
}

static int check_length(const struct reading *r, struct lls_api_prompt *prompt)
{
  if (prompt->n_tokens == 0)
    return lls_api_fail(r->error, 400, NULL, r->param, "'%s' must not be empty",
                        r->param);
  cut(r, prompt);
  if (prompt->n_tokens + completion_tokens(r->params) > r->config->max_context)
    return too_long(r, "", prompt->n_tokens);
  return 0;
}

/* ---- texts and ids --------------------------------------------------------------- */

/* Tokenises a text, unless it is so long that it can't fit the context. */
static int encode(const struct reading *r, const char *text, size_t length,
                  bool add_special, int32_t **ids, size_t *count)
{
  struct lls_error why;
  const struct lls_tokenizer *tokenizer = r->config->tokenizer;
  size_t least = length / lls_detokenizer_room(tokenizer);
  bool is_cut = r->params->truncate_prompt_tokens != LLS_UNSET;
  /* an encoder's [UNK] stands for a word of any length */
  bool may_fit = is_cut || r->config->encoder.is_one;
  if (least >= r->config->max_context && (!may_fit || length > LLS_MAX_TEXT))
    return too_long(r, "at least ", least);
  int status =
      r->rendered
          ? lls_plain_encode(tokenizer, text, length, add_special, ids, count, &why)
          : lls_tokenizer_encode(tokenizer, text, length, add_special, ids, count, &why);
  return status == 0
             ? 0
             : lls_api_fail(r->error, 500, NULL, r->param, "'%s' can't be tokenised: %s",
                            r->param, lls_error_text(&why, status));
}

/* Fills in the prompt's text from its token ids, without the tokens that encoding puts
 * before a text. Predictors read it. */
static int decode(const struct reading *r, struct lls_api_prompt *prompt)
{
  struct lls_text text = {0};
  bool begins = prompt->tokens[0] == lls_tokenizer_bos(r->config->tokenizer);
  lls_api_decode(r->config, prompt->tokens + begins, prompt->n_tokens - begins, false,
                 &text);
  prompt->text = text.data;
  prompt->text_bytes = text.length;
  return text.failed ? out_of_memory(r->error) : 0;
}

static int copy(const struct reading *r, const char *text, size_t length,
                struct lls_api_prompt *out)
{
  out->text = malloc(length + 1);
  if (out->text == NULL)
    return out_of_memory(r->error);
  memcpy(out->text, text, length);
  out->text[length] = '\0';
  out->text_bytes = r->rendered ? lls_plain_strip(out->text, length) : length;
  return 0;
}

static void set_frame(const struct reading *r, struct lls_api_prompt *out)
{
  struct lls_tokenizer_frame frame = lls_tokenizer_frame(r->config->tokenizer);
  out->n_added = frame.n_before;
  out->n_after = frame.n_after;
}

static int read_text(const struct reading *r, const char *text, size_t length,
                     struct lls_api_prompt *out)
{
  bool special = r->params->add_special_tokens;
  if (encode(r, text, length, special, &out->tokens, &out->n_tokens) != 0)
    return -1;
  int32_t bos = lls_tokenizer_bos(r->config->tokenizer);
  out->n_added = special && out->n_tokens > 0 && out->tokens[0] == bos;
  if (special && r->config->encoder.is_one)
    set_frame(r, out);
  if (check_length(r, out) != 0)
    return -1;
  return out->from_ids ? decode(r, out) : copy(r, text, length, out);
}

static int finish_ids(const struct reading *r, struct lls_api_prompt *prompt)
{
  prompt->from_ids = true;
  return check_length(r, prompt) == 0 ? decode(r, prompt) : -1;
}

static int append(const struct reading *r, struct lls_api_prompt *out, const int32_t *ids,
                  size_t count)
{
  int32_t *more = realloc(out->tokens, (out->n_tokens + count + 1) * sizeof *more);
  if (more == NULL)
    return out_of_memory(r->error);
  out->tokens = more;
  if (count > 0)
    memcpy(out->tokens + out->n_tokens, ids, count * sizeof *ids);
  out->n_tokens += count;
  return 0;
}

/* Reads an array of ids and texts, as llama.cpp takes it: one prompt, in which only a
 * text at the beginning gets special tokens. */
static int read_mixed(const struct reading *r, const json_t *array,
                      struct lls_api_prompt *out)
{
  size_t i;
  const json_t *item;
  json_array_foreach((json_t *)array, i, item)
  {
    int32_t *ids = NULL, id;
    size_t count = 1;
    int status =
        json_is_string(item)
            ? encode(r, json_string_value(item), json_string_length(item),
                     i == 0 && r->params->add_special_tokens, &ids, &count)
            : lls_json_token_id(item, i, r->param, r->config->vocab, &id, r->error);
    if (status == 0)
      status = append(r, out, json_is_string(item) ? ids : &id, count);
    free(ids);
    if (status != 0)
      return -1;
  }
  return finish_ids(r, out);
}

static bool has(const json_t *array, bool (*is)(const json_t *))
{
  for (size_t i = 0; i < json_array_size(array); i++)
    if (is(json_array_get(array, i)))
      return true;
  return false;
}

static bool is_number(const json_t *value)
{
  return json_is_number(value);
}

static bool is_string(const json_t *value)
{
  return json_is_string(value);
}

static int read_one(const struct reading *r, const json_t *value,
                    struct lls_api_prompt *out)
{
  if (json_is_string(value))
    return read_text(r, json_string_value(value), json_string_length(value), out);
  if (!json_is_array(value))
    return lls_api_fail(r->error, 400, NULL, r->param,
                        "'%s' must be a string, an array of token ids, or an array of "
                        "these",
                        r->param);
  if (has(value, is_number) && has(value, is_string))
    return read_mixed(r, value, out);
  if (lls_json_token_ids(value, r->param, r->config->vocab, &out->tokens, &out->n_tokens,
                         r->error) != 0)
    return -1;
  return finish_ids(r, out);
}

/* ---- lists ---------------------------------------------------------------------- */

/* True if the value is one prompt, not a list: no array, or an array with a number in
 * it. */
static bool is_one_prompt(const json_t *value)
{
  return !json_is_array(value) || json_array_size(value) == 0 || has(value, is_number);
}

size_t lls_prompts_most(const struct lls_api_config *config,
                        const struct lls_api_params *params)
{
  return params->pooling != LLS_POOLING_NONE ? (size_t)config->limits.max_inputs
                                             : (size_t)config->limits.max_choices;
}

/* Allocates a list of `count` empty prompts. */
static int make_list(const struct reading *r, size_t count,
                     struct lls_api_prompt_list *out)
{
  size_t most = lls_prompts_most(r->config, r->params);
  *out = (struct lls_api_prompt_list){0};
  if (count > most)
    return lls_api_fail(r->error, 400, NULL, r->param,
                        "'%s' has %zu items; at most %zu are possible", r->param, count,
                        most);
  out->prompts = calloc(count, sizeof *out->prompts);
  return out->prompts != NULL ? 0 : out_of_memory(r->error);
}

int lls_prompts_read(const struct lls_api_config *config, const json_t *value,
                     const char *param, const struct lls_api_params *params,
                     struct lls_api_prompt_list *out, struct lls_api_error *error)
{
  const struct reading r = {config, params, param, error, false};
  if (value == NULL || json_is_null(value))
    return lls_api_fail(error, 400, NULL, param, "'%s' is missing", param);
  bool one = is_one_prompt(value);
  size_t count = one ? 1 : json_array_size(value);
  if (make_list(&r, count, out) != 0)
    return -1;
  for (; out->count < count; out->count++) {
    const json_t *item = one ? value : json_array_get(value, out->count);
    if (read_one(&r, item, &out->prompts[out->count]) != 0) {
      out->count++;
      lls_prompts_free(out);
      return -1;
    }
  }
  return 0;
}

int lls_prompts_from_text(const struct lls_api_config *config, const char *text,
                          size_t length, const struct lls_api_params *params,
                          const char *param, struct lls_api_prompt_list *out,
                          struct lls_api_error *error)
{
  const struct reading r = {config, params, param, error, true};
  out->count = 1;
  out->prompts = calloc(1, sizeof *out->prompts);
  if (out->prompts == NULL)
    return out_of_memory(error);
  int status = read_text(&r, text, length, out->prompts);
  if (status != 0)
    lls_prompts_free(out);
  return status;
}

/* ---- pairs ------------------------------------------------------------------------- */

/* Shortens two texts to `most` tokens together: first the longer one until both are
 * equal, then both. */
static void cut_pair(size_t most, size_t *first, size_t *second)
{
  size_t *shorter = *first <= *second ? first : second;
  size_t *longer = shorter == first ? second : first;
  if (*shorter + *longer <= most)
    return;
  if (*shorter > most / 2)
    *shorter = most / 2;
  *longer = most - *shorter;
}

static int32_t *copy_ids(int32_t *to, const int32_t *ids, size_t n)
{
  if (n > 0)
    memcpy(to, ids, n * sizeof *to);
  return to + n;
}

/* Joins two texts with the tokens that the tokeniser puts around and between them. */
static int join(const struct reading *r, const int32_t *first, size_t n_first,
                const int32_t *second, size_t n_second, struct lls_api_prompt *out)
{
  struct lls_tokenizer_frame f = lls_tokenizer_frame(r->config->tokenizer);
  size_t n_frame = f.n_before + f.n_between + f.n_after, most = most_tokens(r);
  cut_pair(most > n_frame ? most - n_frame : 0, &n_first, &n_second);
  out->n_tokens = n_first + n_second + n_frame;
  out->tokens = malloc(out->n_tokens * sizeof *out->tokens);
  if (out->tokens == NULL)
    return out_of_memory(r->error);
  int32_t *end = copy_ids(out->tokens, f.before, f.n_before);
  end = copy_ids(end, first, n_first);
  end = copy_ids(end, f.between, f.n_between);
  out->second_text =
      f.second_type && r->config->encoder.tells_texts ? (size_t)(end - out->tokens) : 0;
  end = copy_ids(end, second, n_second);
  copy_ids(end, f.after, f.n_after);
  return out->n_tokens > r->config->max_context ? too_long(r, "", out->n_tokens) : 0;
}

static int read_pair(const struct reading *r, const struct lls_api_pair *pair,
                     struct lls_api_prompt *out)
{
  int32_t *first = NULL, *second = NULL;
  size_t n_first = 0, n_second = 0;
  int rc = encode(r, pair->first, pair->first_bytes, false, &first, &n_first);
  if (rc == 0)
    rc = encode(r, pair->second, pair->second_bytes, false, &second, &n_second);
  if (rc == 0)
    rc = join(r, first, n_first, second, n_second, out);
  if (rc == 0)
    rc = copy(r, pair->second, pair->second_bytes, out);
  free(first);
  free(second);
  return rc;
}

/* Appends a text with barriers in the names of special tokens. */
static void append_plain(const struct reading *r, const char *text, size_t bytes,
                         struct lls_text *out)
{
  json_t *value = json_stringn(text, bytes), *plain = NULL;
  if (value != NULL)
    plain = lls_plain_guard(r->config, value);
  if (plain != NULL)
    lls_text_append(out, json_string_value(plain), json_string_length(plain));
  else
    out->failed = true;
  json_decref(value);
  json_decref(plain);
}

/* Appends the form with the texts in it. */
static void fill_form(const struct reading *r, const struct lls_api_pair *pair,
                      struct lls_text *out)
{
  const bool own = json_is_string(pair->instruction);
  const struct {
    const char *name, *text;
    size_t bytes;
  } parts[] = {
      {"{instruction}",
       own ? json_string_value(pair->instruction) : LLS_RERANK_INSTRUCTION,
       own ? json_string_length(pair->instruction) : strlen(LLS_RERANK_INSTRUCTION)},
      {"{query}", pair->first, pair->first_bytes},
      {"{document}", pair->second, pair->second_bytes}};
  const size_t n = sizeof parts / sizeof parts[0];
  for (const char *at = r->config->encoder.form; *at != '\0';) {
    size_t plain = strcspn(at, "{"), i = 0;
    lls_text_append(out, at, plain);
    at += plain;
    while (i < n && strncmp(at, parts[i].name, strlen(parts[i].name)) != 0)
      i++;
    if (i < n)
      append_plain(r, parts[i].text, parts[i].bytes, out);
    else if (*at != '\0')
      lls_text_append(out, at, 1);
    at += i < n ? strlen(parts[i].name) : *at != '\0';
  }
}

/* True if the client has put its texts into the form already, as vLLM's examples do. */
static bool is_formed(const struct reading *r, const struct lls_api_pair *pair)
{
  size_t same = strcspn(r->config->encoder.form, "{"), enough = 40;
  same = same < enough ? same : enough;
  return pair->first_bytes >= same &&
         memcmp(pair->first, r->config->encoder.form, same) == 0;
}

static int read_formed(const struct reading *r, const struct lls_api_pair *pair,
                       struct lls_api_prompt *out)
{
  const struct reading rendered = {r->config, r->params, r->param, r->error, true};
  const char *tail = strstr(r->config->encoder.form, "{document}");
  struct lls_text text = {0};
  int32_t *ids = NULL;
  tail = tail != NULL ? tail + strlen("{document}") : "";
  if (is_formed(r, pair)) {
    lls_text_append(&text, pair->first, pair->first_bytes);
    lls_text_append(&text, pair->second, pair->second_bytes);
  } else {
    fill_form(r, pair, &text);
  }
  int rc = text.failed ? out_of_memory(r->error)
                       : encode(&rendered, text.data, text.length, false, &out->tokens,
                                &out->n_tokens);
  if (rc == 0)
    rc = encode(&rendered, tail, strlen(tail), false, &ids, &out->n_after);
  free(ids);
  lls_text_free(&text);
  if (rc == 0)
    rc = check_length(r, out);
  return rc == 0 ? copy(r, pair->second, pair->second_bytes, out) : rc;
}

int lls_prompts_pairs(const struct lls_api_config *config,
                      const struct lls_api_pair *pairs, size_t count, const char *param,
                      const struct lls_api_params *params,
                      struct lls_api_prompt_list *out, struct lls_api_error *error)
{
  const struct reading r = {config, params, param, error, false};
  if (make_list(&r, count, out) != 0)
    return -1;
  for (; out->count < count; out->count++)
    if ((config->encoder.form != NULL ? read_formed : read_pair)(
            &r, &pairs[out->count], &out->prompts[out->count]) != 0) {
      out->count++;
      lls_prompts_free(out);
      return -1;
    }
  return 0;
}

void lls_prompts_free(struct lls_api_prompt_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    free(list->prompts[i].tokens);
    free(list->prompts[i].text);
    json_decref(list->prompts[i].begun);
  }
  free(list->prompts);
  *list = (struct lls_api_prompt_list){0};
}
