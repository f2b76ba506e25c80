/* SPDX-License-Identifier: Apache-2.0 */
/* Reads OpenAI's `prediction`: the text that the client expects as the answer, or much of
 * it, such as the file that is to be edited. A drafter guesses by it; without one it has
 * no effect. */
#include <string.h>

#include "core/api/params_internal.h"
#include "core/base/text.h"

/* Puts the text of a part of the content, {"type": "text", "text": "..."}. */
static bool put_part(const json_t *part, struct lls_text *out)
{
  const char *type = json_string_value(json_object_get(part, "type"));
  const char *text = json_string_value(json_object_get(part, "text"));
  if (text == NULL || (type != NULL && strcmp(type, "text") != 0))
    return false;
  lls_text_puts(out, text);
  return true;
}

/* Puts the content: a string, or an array of parts. */
static bool put_content(const json_t *content, struct lls_text *out)
{
  size_t i;
  const json_t *part;
  if (json_is_string(content)) {
    lls_text_puts(out, json_string_value(content));
    return true;
  }
  json_array_foreach((json_t *)content, i, part)
  {
    if (!put_part(part, out))
      return false;
  }
  return json_is_array(content);
}

int lls_param_prediction(const json_t *value, const char *name,
                         const struct lls_params_context *context,
                         struct lls_api_params *out, struct lls_api_error *error)
{
  const json_t *type = json_object_get(value, "type");
  struct lls_text text = {0};
  int rc = 0;
  if (type != NULL && !json_is_null(type) &&
      (!json_is_string(type) || strcmp(json_string_value(type), "content") != 0))
    return lls_api_fail(error, 400, NULL, name, "'%s.type' must be 'content'", name);
  if (!put_content(json_object_get(value, "content"), &text))
    rc = lls_api_fail(error, 400, NULL, name,
                      "'%s.content' must be a string, or an array of parts with a text",
                      name);
  else if (text.failed)
    rc = lls_api_fail(error, 503, NULL, NULL, "out of memory");
  else if (!context->drafts && context->on_unknown != NULL)
    context->on_unknown(context->on_unknown_context, name);
  else if (text.length > 0)
    rc = lls_param_encode(text.data, text.length, name, context, &out->expected,
                          &out->n_expected, error);
  lls_text_free(&text);
  return rc;
}
