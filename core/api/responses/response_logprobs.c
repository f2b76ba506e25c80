/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log probabilities of a response's message. An answer's tokens come in one list, with
 * those of its reasoning before; a message has the tokens that its text consists of:
 *
 *   take   adds the tokens of a chunk, or of the whole answer, without the reasoning's
 *   give   goes on by as many of them as cover the text that is added
 *
 * Both work alike for a stream and for a whole answer, so that these agree.
 */
#include "core/api/responses/responses.h"

#include <string.h>

#include "core/api/openai/wire.h"

#define BLANK " \t\r\n"

void lls_response_tokens_free(struct lls_response_tokens *tokens)
{
  json_decref(tokens->list);
  *tokens = (struct lls_response_tokens){0};
}

/* Returns true for a token without text: a mark of reasoning or of a call. */
static bool is_special(const struct lls_choice *choice, size_t index)
{
  return lls_tokenizer_is_special(choice->detokenizer.tokenizer,
                                  choice->tokens[index].token);
}

void lls_response_tokens_take(struct lls_response_tokens *tokens,
                              const struct lls_choice *choice)
{
  size_t i;
  json_t *entry;
  if (choice->generation->params.logprobs == LLS_UNSET)
    return;
  json_t *more = lls_wire_chat_logprobs(choice);
  if (tokens->n_taken == 0)
    tokens->list = json_array();
  if (more == NULL)
    lls_json_add(&tokens->list, NULL);
  json_array_foreach(json_object_get(more, "content"), i, entry)
  {
    if (tokens->n_taken++ >= choice->n_reasoning && !is_special(choice, i))
      lls_json_add(&tokens->list, json_incref(entry));
  }
  json_decref(more);
  choice->generation->incomplete |= tokens->n_taken > 0 && tokens->list == NULL;
}

static char byte_of(const json_t *bytes, size_t index)
{
  return (char)json_integer_value(json_array_get(bytes, index));
}

/* Returns true if the text may begin with this token, whose own leading space may be
 * lost. */
static bool opens(const json_t *entry, const char *text)
{
  const json_t *bytes = json_object_get(entry, "bytes");
  size_t n = json_array_size(bytes), i = 0, k = 0;
  bool blank = strchr(BLANK, text[0]) != NULL;
  while (!blank && i < n && strchr(BLANK, (int)byte_of(bytes, i)) != NULL)
    i++;
  if (i == n)
    return false;
  while (i < n && text[k] != '\0')
    if (byte_of(bytes, i++) != text[k++])
      return false;
  return true;
}

void lls_response_tokens_begin(struct lls_response_tokens *tokens, const char *text)
{
  /* The space between the reasoning and the message belongs to neither, nor does a mark
   * of the reasoning's end that is text to the tokeniser. */
  size_t at = tokens->next, n = json_array_size(tokens->list);
  while (at < n && !opens(json_array_get(tokens->list, at), text))
    at++;
  if (at < n)
    tokens->next = at;
  tokens->first = tokens->next;
  tokens->text_bytes = tokens->given_bytes = 0;
}

/* Returns the tokens from index `from` up to the next one. */
static json_t *slice(const struct lls_response_tokens *tokens, size_t from)
{
  json_t *out = json_array();
  for (size_t i = from; i < tokens->next; i++)
    lls_json_add(&out, json_incref(json_array_get(tokens->list, i)));
  return out;
}

json_t *lls_response_tokens_give(struct lls_response_tokens *tokens, size_t bytes)
{
  size_t from = tokens->next;
  tokens->text_bytes += bytes;
  while (tokens->given_bytes < tokens->text_bytes &&
         tokens->next < json_array_size(tokens->list)) {
    const json_t *entry = json_array_get(tokens->list, tokens->next++);
    tokens->given_bytes += json_array_size(json_object_get(entry, "bytes"));
  }
  return slice(tokens, from);
}

json_t *lls_response_tokens_given(const struct lls_response_tokens *tokens)
{
  return slice(tokens, tokens->first);
}
