/* SPDX-License-Identifier: Apache-2.0 */
/* Member names as filters such as selectattr and sort take them. */
#ifndef LLS_TEMPLATE_ATTRIBUTES_H
#define LLS_TEMPLATE_ATTRIBUTES_H

#include "text/template/state.h"

/* Returns the member of an item that a path such as "a.b.0", or a number, names. */
struct lls_value lls_attribute(struct lls_render *render, const struct lls_node *node,
                               struct lls_value item, struct lls_value name);
/* Copies as much of a string as fits, terminated, for messages. */
void lls_text_copy(struct lls_value string, char *out, size_t size);

#endif
