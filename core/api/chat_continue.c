/* SPDX-License-Identifier: Apache-2.0 */
/*
 * continue_final_message, as in vLLM and transformers: the prompt ends with the last
 * message's content, without the template's end of a message, so that the model
 * continues the content.
 *
 * The end of the content can't be found by searching for the content, which a template
 * may print twice, trimmed or not at all. So a mark with a final blank is appended to
 * the content before rendering. If the blank is missing afterwards, the template trims
 * contents; then white space before the mark is removed too.
 */
#include <string.h>

#include "core/api/chat_continue.h"
#include "core/base/text.h"

#define MARK    "llmserve-goes-on-here"
#define TRIMMED (sizeof MARK - 1)

int lls_chat_mark_end(json_t *messages, struct lls_api_error *error)
{
  json_t *last = json_array_get(messages, json_array_size(messages) - 1);
  const json_t *content = json_object_get(last, "content");
  struct lls_text marked = {0};
  lls_text_append(&marked, json_string_value(content), json_string_length(content));
  lls_text_puts(&marked, MARK " ");
  int rc = marked.failed ? -1
                         : json_object_set_new(last, "content",
                                               json_stringn(marked.data, marked.length));
  lls_text_free(&marked);
  return rc == 0 ? 0 : lls_api_fail(error, 503, NULL, NULL, "out of memory");
}

/* Returns the last mark in the text, or NULL. */
static char *find_mark(char *text, size_t length)
{
  char *found = NULL, *end = text + length;
  for (char *at = text; (at = memmem(at, (size_t)(end - at), MARK, TRIMMED)) != NULL;
       at += TRIMMED)
    found = at;
  return found;
}

int lls_chat_cut_at_end(char *text, size_t *length, struct lls_api_error *error)
{
  char *end = find_mark(text, *length);
  if (end == NULL)
    return lls_api_fail(error, 400, NULL, "continue_final_message",
                        "the model's chat template does not show the last message's "
                        "content, so it cannot be continued");
  bool trimmed = end[TRIMMED] != ' ';
  while (trimmed && end > text && strchr(" \t\r\n", end[-1]) != NULL)
    end--;
  *end = '\0';
  *length = (size_t)(end - text);
  return 0;
}
