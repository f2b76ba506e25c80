/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text part of models that also read images. Folders have its keys in "text_config",
 * or, if they are older, among the keys of the whole model. Positions of such models
 * have three numbers, which are equal for tokens of text, so that their rotation is the
 * ordinary one.
 */
#include <errno.h>

#include "core/model/architecture.h"
#include "core/model/config_keys.h"

/* Keys that may be beside "text_config" only, and belong to the text. */
static int take_from_above(const struct lls_json *json, json_t *text)
{
  static const char *const keys[] = {"tie_word_embeddings"};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof keys / sizeof keys[0]; i++) {
    json_t *value = lls_json_get(json, keys[i]);
    if (value != NULL && json_object_get(text, keys[i]) == NULL)
      rc = json_object_set(text, keys[i], value);
  }
  return rc;
}

int lls_config_text_part(const struct lls_json *json, json_t *defaults,
                         struct lls_model_config *out,
                         int (*configure)(const struct lls_json *,
                                          struct lls_model_config *, struct lls_error *),
                         struct lls_error *err)
{
  json_t *part = lls_json_get(json, "text_config");
  struct lls_json text = lls_json_inside(json, defaults);
  out->text_part = part != NULL || lls_json_get(json, "vision_config") != NULL;
  if (part == NULL) {
    lls_json_close(&text);
    return configure(json, out, err);
  }
  int rc = lls_json_watch(&text, err);
  if (rc == 0 && !json_is_object(part))
    rc = lls_fail(err, -EINVAL, "%s: \"text_config\" should be an object", json->file);
  if (rc == 0 &&
      (json_object_update(text.root, part) != 0 || take_from_above(json, text.root) != 0))
    rc = lls_fail(err, -ENOMEM, "out of memory");
  if (rc == 0)
    rc = configure(&text, out, err);
  if (rc == 0)
    rc = lls_config_check_keys(&text, out, err);
  lls_json_close(&text);
  return rc;
}
