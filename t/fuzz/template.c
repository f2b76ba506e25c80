/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes chat templates: a compiled one must render or reject messages, and must
 * end. */
#include "text/template/template.h"
#include "text/base/utf8.h"
#include "t/fuzz/fuzz.h"

static const char conversation[] =
    "[{'role': 'system', 'content': ' Be kind. '}, {'role': 'user', 'content': 'Hi \\n'},"
    " {'role': 'assistant', 'content': '<b>', 'tool_calls': [{'id': 'c1', 'function':"
    " {'name': 'look', 'arguments': {'b': 1.5, 'a': [1, null, {'é': true}]}}}]},"
    " {'role': 'tool', 'content': '{\\'x\\': 1}', 'tool_call_id': 'c1'}]";
static const char tools[] =
    "{'tools': [{'type': 'function', 'function': {'name': 'look', 'parameters':"
    " {'type': 'object', 'properties': {'a': {'type': ['string', 'null'], 'enum': "
    "['x']}},"
    " 'required': ['a']}}}], 'thinking': true, 'number': 3}";

/* JSON with ' for ", which is what C needs no escape for. */
static json_t *read_json(const char *text)
{
  char copy[1024];
  size_t length = 0;
  for (const char *at = text; *at != '\0'; at++)
    copy[length++] = *at == '\'' ? '"' : *at;
  json_t *json = json_loadb(copy, length, 0, NULL);
  assert(json != NULL);
  return json;
}

static void render(const struct lls_chat_template *compiled, const json_t *messages,
                   const json_t *variables)
{
  struct lls_error err = {0};
  char *text = NULL;
  size_t length;
  int rc = lls_chat_template_render(compiled, messages, variables, true, 0, &text,
                                    &length, &err);
  if (rc == 0)
    assert(text[length] == '\0' && lls_utf8_is_valid(text, length));
  else
    assert(err.text[0] != '\0');
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static json_t *messages, *variables;
  struct lls_chat_template *compiled = NULL;
  struct lls_error err = {0};
  if (messages == NULL) {
    messages = read_json(conversation);
    variables = read_json(tools);
  }
  char *source = malloc(size + 1);
  assert(source != NULL);
  memcpy(source, data, size);
  source[size] = '\0';
  if (lls_chat_template_compile(source, "<s>", "</s>", &compiled, &err) == 0) {
    render(compiled, messages, variables);
    render(compiled, messages, NULL);
    lls_chat_template_free(compiled);
  } else {
    assert(err.text[0] != '\0');
  }
  free(source);
  return 0;
}
