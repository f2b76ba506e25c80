/* SPDX-License-Identifier: Apache-2.0 */
/* Members of items by a path; see attributes.h. */
#include "text/template/attributes.h"

#include <string.h>

void lls_text_copy(struct lls_value string, char *out, size_t size)
{
  size_t length = string.length < size - 1 ? string.length : size - 1;
  memcpy(out, string.text, length);
  out[length] = '\0';
}

static struct lls_value part_of(struct lls_value part)
{
  int64_t number = 0;
  if (part.length == 0 || part.length > 9)
    return part;
  for (size_t i = 0; i < part.length; i++) {
    if (part.text[i] < '0' || part.text[i] > '9')
      return part;
    number = number * 10 + (part.text[i] - '0');
  }
  return lls_integer(number);
}

struct lls_value lls_attribute(struct lls_render *render, const struct lls_node *node,
                               struct lls_value item, struct lls_value name)
{
  if (!lls_is_string(name))
    return lls_index(render, node, item, name);
  for (size_t at = 0; at <= name.length && render->code == 0;) {
    size_t dot = lls_find(name, at, lls_view(".", 1));
    size_t end = dot != SIZE_MAX ? dot : name.length;
    item = lls_index(render, node, item, part_of(lls_view(name.text + at, end - at)));
    lls_render_charge(render, node, 1);
    at = end + 1;
  }
  return item;
}
