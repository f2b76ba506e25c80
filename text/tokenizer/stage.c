/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the members that every stage has; see stage.h. */
#include "text/tokenizer/stage.h"

#include <errno.h>

const char *lls_stage_type(const json_t *node, struct lls_error *err)
{
  const char *type = json_string_value(json_object_get(node, "type"));
  if (type == NULL)
    lls_fail(err, -EINVAL, "\"type\" is missing");
  return type;
}

int lls_stage_sequence(const json_t *node, const char *member,
                       int (*load)(void *stage, const json_t *item,
                                   struct lls_error *err),
                       void *stage, struct lls_error *err)
{
  const json_t *list = json_object_get(node, member);
  if (!json_is_array(list))
    return lls_fail(err, -EINVAL, "\"%s\" is not a list", member);
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)list, i, item)
  {
    int code = load(stage, item, err);
    if (code < 0)
      return code;
  }
  return 0;
}

int lls_stage_unknown(const char *type, struct lls_error *err)
{
  return lls_fail(err, -ENOTSUP, "type \"%s\" is not supported", type);
}
