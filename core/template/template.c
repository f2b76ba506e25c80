/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling and rendering as the caller sees it. */
#include "core/template/template.h"

#include "core/template/parser.h"
#include "core/template/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lls_chat_template {
  struct lls_tree tree;
  json_t *constants; /* variables that every rendering has */
};

/* A copy with every line ending a newline, as Jinja has it before anything else. */
static char *copy_source(const char *source)
{
  char *copy = malloc(strlen(source) + 1), *out = copy;
  if (copy == NULL)
    return NULL;
  for (; *source != '\0'; source++) {
    if (*source == '\r' && source[1] == '\n')
      continue;
    *out++ = *source == '\r' ? '\n' : *source;
  }
  *out = '\0';
  return copy;
}

static json_t *make_constants(const char *bos, const char *eos)
{
  json_t *constants = json_object();
  if (bos != NULL)
    json_object_set_new(constants, "bos_token", json_string(bos));
  if (eos != NULL)
    json_object_set_new(constants, "eos_token", json_string(eos));
  return constants;
}

int lls_chat_template_compile(const char *source, const char *bos, const char *eos,
                              struct lls_chat_template **out, struct lls_error *err)
{
  struct lls_chat_template *chat_template = calloc(1, sizeof *chat_template);
  if (chat_template == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the chat template");
  chat_template->tree.source = copy_source(source);
  chat_template->constants = make_constants(bos, eos);
  int code = chat_template->tree.source != NULL && chat_template->constants != NULL
                 ? lls_parse(&chat_template->tree, err)
                 : lls_fail(err, -ENOMEM, "no memory for the chat template");
  if (code < 0) {
    lls_chat_template_free(chat_template);
    return lls_fail_at(err, code, "chat template");
  }
  *out = chat_template;
  return 0;
}

void lls_chat_template_free(struct lls_chat_template *chat_template)
{
  if (chat_template == NULL)
    return;
  lls_tree_free(&chat_template->tree);
  json_decref(chat_template->constants);
  free(chat_template);
}

static void take_text(struct lls_render *render, char **text, size_t *length)
{
  *length = render->out.length;
  lls_bytes_append(&render->out, "", 1);
  *text = render->out.data;
  if (render->out.failed)
    lls_render_made(render, NULL);
}

int lls_chat_template_render(const struct lls_chat_template *chat_template,
                             const json_t *messages, const json_t *variables,
                             bool add_generation_prompt, int64_t unix_time, char **text,
                             size_t *length, struct lls_error *err)
{
  struct lls_render render = {.tree = &chat_template->tree,
                              .namespaces = json_array(),
                              .undefined = json_object(),
                              .unix_time = unix_time,
                              .err = err};
  json_t *globals = json_copy(chat_template->constants);
  render.scopes = json_pack("[o]", globals);
  if (render.scopes == NULL || render.namespaces == NULL || render.undefined == NULL)
    lls_render_made(&render, NULL);
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)variables, name, value)
      lls_scope_set(&render, name, value);
  lls_scope_set(&render, "messages", (json_t *)messages);
  lls_scope_set(&render, "add_generation_prompt", json_boolean(add_generation_prompt));
  lls_execute(&render, chat_template->tree.root);
  json_decref(render.scopes);
  json_decref(render.namespaces);
  json_decref(render.undefined);
  if (render.code == 0)
    take_text(&render, text, length);
  if (render.code < 0)
    lls_bytes_free(&render.out);
  return render.code;
}
