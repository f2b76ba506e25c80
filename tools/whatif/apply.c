/* SPDX-License-Identifier: Apache-2.0 */
/* --apply: reloads the server with the best candidate, through the same request that
 * its owner could send. The configuration file is not changed. See question.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/whatif/question.h"
#include "tools/whatif/running.h"

/* Adds a line of SECTION.KEY=VALUE; a section's name may contain a dot. */
static int add_line(json_t *set, const char *line, size_t length)
{
  const char *equals = memchr(line, '=', length);
  const char *dot = equals != NULL ? memrchr(line, '.', (size_t)(equals - line)) : NULL;
  char section[128], key[128];
  if (dot == NULL)
    return -EINVAL;
  snprintf(section, sizeof section, "%.*s", (int)(dot - line), line);
  snprintf(key, sizeof key, "%.*s", (int)(equals - dot - 1), dot + 1);
  json_t *keys = json_object_get(set, section);
  if (keys == NULL) {
    keys = json_object();
    json_object_set_new(set, section, keys);
  }
  return json_object_set_new(
             keys, key, json_stringn(equals + 1, length - (size_t)(equals + 1 - line))) <
                 0
             ? -ENOMEM
             : 0;
}

/* Returns {"set": {SECTION: {KEY: VALUE}}}; NULL if out of memory. */
static json_t *change_of(const char *settings)
{
  json_t *set = json_object();
  int rc = 0;
  for (const char *at = settings; rc == 0 && *at != '\0';) {
    size_t length = strcspn(at, "\n");
    if (length > 0)
      rc = add_line(set, at, length);
    at += length + (at[length] == '\n');
  }
  if (rc == 0)
    return json_pack("{s:o}", "set", set);
  json_decref(set);
  return NULL;
}

int question_apply(const struct whatif_options *o, const char *settings,
                   struct lls_error *err)
{
  struct whom w;
  json_t *answer = NULL, *change = change_of(settings);
  if (change == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the change");
  int rc = whom_find(o, &w, err);
  if (rc == 0) {
    rc = whom_ask(&w, "POST", "/admin/reload", change, &answer, err);
    whom_free(&w);
  }
  if (rc == 0)
    printf("\nApplied: %s\n", json_string_value(json_object_get(answer, "message")));
  json_decref(answer);
  json_decref(change);
  return rc;
}
