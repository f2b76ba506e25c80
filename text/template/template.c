/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles and renders templates: the public functions. */
#include "text/template/template.h"

#include "text/template/compiled.h"
#include "text/template/grammar.h"
#include "text/template/state.h"
#include "text/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Copies a source, with every line end replaced by a newline, which is Jinja's first
 * step. */
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

int lls_compile(const char *source, const char *where, struct lls_compiled *out,
                struct lls_error *err)
{
  int code;
  out->tree.source = copy_source(source);
  if (out->tree.source == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the chat template");
  if (lls_utf8_is_valid(source, strlen(source)))
    code = lls_parse(&out->tree, &out->problem);
  else
    code = lls_fail(&out->problem, -EINVAL, "this text is not valid UTF-8");
  if (code == -ENOMEM)
    return lls_fail(err, code, "no memory for the chat template");
  if (code < 0)
    lls_fail_at(&out->problem, code, "%schat template", where);
  else if (out->tree.unknown.text[0] != '\0')
    lls_fail(&out->warning, -ENOTSUP, "%schat template: %s", where,
             out->tree.unknown.text);
  return 0;
}

int lls_chat_template_compile(const char *source, const char *bos, const char *eos,
                              struct lls_chat_template **out, struct lls_error *err)
{
  struct lls_chat_template *made = calloc(1, sizeof *made);
  if (made == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the chat template");
  made->constants = json_object();
  if (bos != NULL)
    json_object_set_new(made->constants, "bos_token", json_string(bos));
  if (eos != NULL)
    json_object_set_new(made->constants, "eos_token", json_string(eos));
  int code = made->constants != NULL
                 ? lls_compile(source, "", &made->main, err)
                 : lls_fail(err, -ENOMEM, "no memory for the chat template");
  if (code == 0 && made->main.problem.text[0] != '\0')
    code = lls_fail(err, -ENOTSUP, "%s", made->main.problem.text);
  if (code < 0) {
    lls_chat_template_free(made);
    return code;
  }
  *out = made;
  return 0;
}

void lls_chat_template_free(struct lls_chat_template *chat_template)
{
  if (chat_template == NULL)
    return;
  lls_tree_free(&chat_template->main.tree);
  lls_tree_free(&chat_template->tool_use.tree);
  json_decref(chat_template->constants);
  free(chat_template);
}

static const char *text_or_null(const struct lls_error *error)
{
  return error->text[0] != '\0' ? error->text : NULL;
}

const char *lls_chat_template_problem(const struct lls_chat_template *chat_template)
{
  return text_or_null(&chat_template->main.problem);
}

const char *lls_chat_template_source(const struct lls_chat_template *chat_template,
                                     bool tools)
{
  const struct lls_compiled *compiled = tools && chat_template->has_tool_use
                                            ? &chat_template->tool_use
                                            : &chat_template->main;
  return compiled->tree.source != NULL ? compiled->tree.source : "";
}

const char *lls_chat_template_warning(const struct lls_chat_template *chat_template)
{
  const struct lls_error *const sentences[] = {&chat_template->main.warning,
                                               &chat_template->tool_use.problem,
                                               &chat_template->tool_use.warning};
  const char *text = NULL;
  for (size_t i = 0; i < sizeof sentences / sizeof *sentences && text == NULL; i++)
    text = text_or_null(sentences[i]);
  return text;
}

/* ---- rendering --------------------------------------------------------------------- */

static void set_all(struct lls_render *render, const json_t *variables)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)variables, name, value)
      lls_scope_set(render, name, lls_from_json(render, value, false));
}

static void execute(struct lls_render *render,
                    const struct lls_chat_template *chat_template, const json_t *messages,
                    const json_t *variables, bool add_generation_prompt)
{
  lls_scope_push(render, NULL);
  if (render->code < 0)
    return;
  set_all(render, chat_template->constants);
  lls_scope_set(render, "tools", lls_none());
  lls_scope_set(render, "documents", lls_none());
  set_all(render, variables);
  lls_scope_set(render, "messages", lls_from_json(render, messages, false));
  lls_scope_set(render, "add_generation_prompt", lls_boolean(add_generation_prompt));
  lls_execute(render, render->tree->root);
}

static void take_text(struct lls_render *render, char **text, size_t *length)
{
  *length = render->out.length;
  lls_bytes_append(&render->out, "", 1);
  *text = render->out.data;
  if (render->out.failed)
    render->code = lls_fail(render->err, -ENOMEM, "chat template: no memory");
}

int lls_chat_template_render(const struct lls_chat_template *chat_template,
                             const json_t *messages, const json_t *variables,
                             bool add_generation_prompt, int64_t unix_time, char **text,
                             size_t *length, struct lls_error *err)
{
  bool tools = json_array_size(json_object_get(variables, "tools")) > 0;
  const struct lls_compiled *compiled = tools && chat_template->has_tool_use
                                            ? &chat_template->tool_use
                                            : &chat_template->main;
  struct lls_render render = {
      .tree = &compiled->tree, .unix_time = unix_time, .err = err};
  if (compiled->problem.text[0] != '\0')
    return lls_fail(err, -ENOTSUP, "%s", compiled->problem.text);
  execute(&render, chat_template, messages, variables, add_generation_prompt);
  lls_budget_free(&render.budget);
  if (render.code == 0)
    take_text(&render, text, length);
  if (render.code < 0)
    lls_bytes_free(&render.out);
  return render.code;
}
