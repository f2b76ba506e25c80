/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: whatever compiles must render or reject messages, and come to an end.
 */
#include "core/template/template.h"
#include "t/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static json_t *messages;
  struct lls_chat_template *compiled = NULL;
  struct lls_error err = {0};
  char *text = NULL;
  size_t length;
  if (messages == NULL)
    messages = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "system",
                         "content", " Be kind. ", "role", "user", "content", "Hi \n",
                         "role", "assistant", "content", "<b>");
  char *source = malloc(size + 1);
  assert(source != NULL);
  memcpy(source, data, size);
  source[size] = '\0';
  if (lls_chat_template_compile(source, "<s>", "</s>", &compiled, &err) == 0) {
    if (lls_chat_template_render(compiled, messages, NULL, true, 0, &text, &length,
                                 &err) == 0)
      assert(text[length] == '\0');
    else
      assert(err.text[0] != '\0');
    free(text);
    lls_chat_template_free(compiled);
  } else {
    assert(err.text[0] != '\0');
  }
  free(source);
  return 0;
}
