/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the chat template of a model; template.h lists the places. */
#include "core/base/file.h"
#include "text/template/compiled.h"
#include "text/tokenizer/gguf_tokenizer.h"
#include "text/tokenizer/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The template of models that bring none: ChatML, the format most chat models are
 * trained on. */
static const char default_template[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' "
    "}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

#define TEMPLATE_MAX (1 << 20) /* bytes; published templates have up to 30,000 */

/* Reads a file as text. Returns -ENOENT if it does not exist. */
static int read_file(const char *path, char **out, struct lls_error *err)
{
  FILE *file;
  int rc = lls_file_open(path, TEMPLATE_MAX, &file, err);
  if (rc < 0)
    return rc;
  char *text = malloc(TEMPLATE_MAX + 1);
  size_t length = text != NULL ? fread(text, 1, TEMPLATE_MAX + 1, file) : 0;
  bool failed = ferror(file) != 0;
  fclose(file);
  if (text == NULL || failed || length > TEMPLATE_MAX ||
      memchr(text, '\0', length) != NULL) {
    free(text);
    return lls_fail(err, -EINVAL,
                    "%s: cannot be read, is longer than %d bytes, or no text", path,
                    TEMPLATE_MAX);
  }
  text[length] = '\0';
  *out = text;
  return 0;
}

/* Compiles a file of the model folder. *there: the file exists. */
static int compile_file(const char *folder, const char *name, struct lls_compiled *out,
                        bool *there, struct lls_error *err)
{
  char path[4096], where[4096 + 2], *text = NULL;
  if (snprintf(path, sizeof path, "%s%s%s", folder, *folder != '\0' ? "/" : "", name) >=
      (int)sizeof path)
    return lls_fail(err, -ENAMETOOLONG, "%s: the path is too long", folder);
  int code = read_file(path, &text, err);
  if ((code == -ENOENT || code == -ENOTDIR) && *folder != '\0')
    return 0;
  snprintf(where, sizeof where, "%s: ", path);
  if (code == 0)
    code = lls_compile(text, where, out, err);
  *there = code == 0;
  free(text);
  return code;
}

/* Returns the template with that name in a list, or NULL. */
static const char *named(const json_t *list, const char *wanted)
{
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)list, i, item)
  {
    const char *name = json_string_value(json_object_get(item, "name"));
    if (name != NULL && strcmp(name, wanted) == 0)
      return json_string_value(json_object_get(item, "template"));
  }
  return NULL;
}

/* Compiles "chat_template" of a JSON file: a text, or a list of named templates. */
static int compile_member(const char *folder, const char *name, const json_t *config,
                          struct lls_chat_template *out, bool *there,
                          struct lls_error *err)
{
  char where[4096];
  const json_t *value = json_object_get(config, "chat_template");
  const char *source = json_string_value(value), *tools = named(value, "tool_use");
  int code = 0;
  snprintf(where, sizeof where, "%s/%s: ", folder, name);
  if (json_is_array(value))
    source = named(value, "default");
  if (source == NULL && json_array_size(value) > 0)
    source = json_string_value(json_object_get(json_array_get(value, 0), "template"));
  *there = source != NULL;
  if (source != NULL)
    code = lls_compile(source, where, &out->main, err);
  if (code == 0 && tools != NULL && !out->has_tool_use) {
    out->has_tool_use = true;
    code = lls_compile(tools, where, &out->tool_use, err);
  }
  return code;
}

/* Compiles the template in the folder's JSON files, in the order of Transformers. */
static int compile_members(const char *folder, const json_t *config,
                           struct lls_chat_template *out, bool *there,
                           struct lls_error *err)
{
  json_t *json = NULL;
  int code = compile_member(folder, "tokenizer_config.json", config, out, there, err);
  if (code < 0 || *there)
    return code;
  code = lls_folder_json(folder, "chat_template.json", &json, err);
  if (code == 0)
    code = compile_member(folder, "chat_template.json", json, out, there, err);
  json_decref(json);
  return code == -ENOENT ? 0 : code;
}

static int compile_folder(const char *folder, const json_t *config,
                          struct lls_chat_template *out, struct lls_error *err)
{
  bool there = false;
  int code = compile_file(folder, "chat_template.jinja", &out->main, &there, err);
  if (code == 0)
    code = compile_file(folder, "additional_chat_templates/tool_use.jinja",
                        &out->tool_use, &out->has_tool_use, err);
  if (code == 0 && !there)
    code = compile_members(folder, config, out, &there, err);
  if (code == 0 && !there)
    code = lls_compile(default_template, "", &out->main, err);
  return code;
}

/* Compiles the template of a GGUF file's metadata, or the default. */
static int compile_config(const char *path, const json_t *config,
                          struct lls_chat_template *out, struct lls_error *err)
{
  bool there = false;
  int code = compile_member(path, "tokenizer_config.json", config, out, &there, err);
  if (code == 0 && !there)
    code = lls_compile(default_template, "", &out->main, err);
  return code;
}

/* Returns the special tokens that a template may refer to. */
static json_t *special_tokens(const json_t *config)
{
  static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
  json_t *tokens = json_object();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = lls_config_token(config, names[i]);
    if (text != NULL)
      json_object_set_new(tokens, names[i], json_string(text));
  }
  return tokens;
}

/* Returns a template without sources; NULL if out of memory. */
static struct lls_chat_template *create(const json_t *config, struct lls_error *err)
{
  struct lls_chat_template *made = calloc(1, sizeof *made);
  if (made == NULL)
    lls_fail(err, -ENOMEM, "no memory for the chat template");
  else
    made->constants = special_tokens(config);
  return made;
}

/* Passes `made` to the caller, or frees it if code is an error. */
static int finish(int code, struct lls_chat_template *made,
                  struct lls_chat_template **out)
{
  if (code < 0)
    lls_chat_template_free(made);
  else
    *out = made;
  return code;
}

int lls_chat_template_load(const char *model_folder, const char *file,
                           struct lls_chat_template **out, struct lls_error *err)
{
  json_t *config = NULL;
  bool there = false;
  int code = lls_folder_json(model_folder, "tokenizer_config.json", &config, err);
  if (code < 0 && code != -ENOENT)
    return code;
  struct lls_chat_template *made = create(config, err);
  if (made == NULL)
    code = -ENOMEM;
  else if (file != NULL && *file != '\0')
    code = compile_file("", file, &made->main, &there, err);
  else
    code = compile_folder(model_folder, config, made, err);
  json_decref(config);
  return finish(code, made, out);
}

int lls_chat_template_load_gguf(const struct lls_gguf_metadata *metadata,
                                const char *file, struct lls_chat_template **out,
                                struct lls_error *err)
{
  json_t *config = NULL;
  bool there = false;
  int code = lls_gguf_tokenizer_config(metadata, &config, err);
  if (code < 0)
    return code;
  struct lls_chat_template *made = create(config, err);
  if (made == NULL)
    code = -ENOMEM;
  else if (file != NULL && *file != '\0')
    code = compile_file("", file, &made->main, &there, err);
  else
    code = compile_config(metadata->path, config, made, err);
  json_decref(config);
  return finish(code, made, out);
}
