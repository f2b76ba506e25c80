/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the chat template of a model folder. */
#include "core/template/template.h"

#include "core/base/file.h"
#include "core/tokenizer/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For a model that brings none: ChatML, the form most chat models are trained on. */
static const char default_template[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' "
    "}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

#define TEMPLATE_MAX (1 << 20) /* bytes; published templates have up to 20,000 */

/* The text of chat_template.jinja; *out stays NULL where there is no such file. */
static int read_file(const char *folder, char **out, struct lls_error *err)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s/chat_template.jinja", folder) >= (int)sizeof path)
    return lls_fail(err, -ENAMETOOLONG, "%s: the path is too long", folder);
  FILE *file;
  struct lls_error why;
  int rc = lls_file_open(path, TEMPLATE_MAX, &file, &why);
  if (rc < 0)
    return rc == -ENOENT ? 0 : lls_fail(err, rc, "%s", why.text);
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

/* The template in tokenizer_config.json, or NULL. */
static const char *configured(const json_t *config)
{
  const json_t *value = json_object_get(config, "chat_template");
  const char *only = NULL;
  size_t i;
  json_t *item;
  if (!json_is_array(value))
    return json_string_value(value);
  json_array_foreach((json_t *)value, i, item)
  {
    const char *name = json_string_value(json_object_get(item, "name"));
    if (name != NULL && strcmp(name, "default") == 0)
      only = json_string_value(json_object_get(item, "template"));
  }
  return only;
}

int lls_chat_template_load(const char *model_folder, struct lls_chat_template **out,
                           struct lls_error *err)
{
  json_t *config = NULL;
  char *text = NULL;
  int code = lls_folder_json(model_folder, "tokenizer_config.json", &config, err);
  if (code < 0 && code != -ENOENT)
    return code;
  code = read_file(model_folder, &text, err);
  if (code == 0) {
    const char *source = text != NULL ? text : configured(config);
    code = lls_chat_template_compile(source != NULL ? source : default_template,
                                     lls_config_token(config, "bos_token"),
                                     lls_config_token(config, "eos_token"), out, err);
    if (code < 0)
      lls_fail_at(err, code, "%s/%s", model_folder,
                  text != NULL ? "chat_template.jinja" : "tokenizer_config.json");
  }
  free(text);
  json_decref(config);
  return code;
}
