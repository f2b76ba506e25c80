/* SPDX-License-Identifier: Apache-2.0 */
/* See labels.h. */
#include "core/model/labels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/model/json.h"

/* Appends the name of class i: that of "id2label", or transformers' default. */
static void add_name(json_t *names, const json_t *given, uint32_t i)
{
  char key[16];
  snprintf(key, sizeof key, "%u", i);
  json_t *name = json_object_get(given, key);
  json_array_append_new(names, json_is_string(name) ? json_incref(name)
                                                    : json_sprintf("LABEL_%u", i));
}

static int read_kind(const struct lls_json *json, bool *independent,
                     struct lls_error *err)
{
  const char *type;
  int rc = lls_json_string_or(json, "problem_type", "", &type, err);
  *independent = rc == 0 && strcmp(type, "multi_label_classification") == 0;
  return rc;
}

int lls_labels_read(const char *folder, uint32_t n, struct lls_labels *out,
                    struct lls_error *err)
{
  struct lls_json json = {0};
  *out = (struct lls_labels){.names = json_array()};
  int rc = lls_json_read(folder, "config.json", &json, err);
  bool is_file = rc == -ENOENT || rc == -ENOTDIR;
  if (rc == 0)
    rc = read_kind(&json, &out->independent, err);
  const json_t *given = rc == 0 ? lls_json_get(&json, "id2label") : NULL;
  for (uint32_t i = 0; (rc == 0 || is_file) && i < n; i++)
    add_name(out->names, given, i);
  lls_json_close(&json);
  if ((rc == 0 || is_file) && json_array_size(out->names) == n)
    return 0;
  lls_labels_free(out);
  return rc < 0 && !is_file ? rc : lls_fail(err, -ENOMEM, "out of memory");
}

void lls_labels_free(struct lls_labels *labels)
{
  json_decref(labels->names);
  *labels = (struct lls_labels){0};
}
