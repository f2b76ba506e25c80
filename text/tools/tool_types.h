/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON types that a tool's parameter may have, from its schema. */
#ifndef LLS_TOOLS_TOOL_TYPES_H
#define LLS_TOOLS_TOOL_TYPES_H

#include <jansson.h>

enum lls_tool_type {
  LLS_TOOL_TYPE_STRING = 1,
  LLS_TOOL_TYPE_NUMBER = 2,
  LLS_TOOL_TYPE_BOOLEAN = 4,
  LLS_TOOL_TYPE_NULL = 8,
  LLS_TOOL_TYPE_STRUCTURE = 16, /* an object or an array */
  LLS_TOOL_TYPE_ANY = 31
};

/* Returns bits of lls_tool_type, from type, enum, const, anyOf, oneOf, allOf and $ref
 * within the tool's parameters; LLS_TOOL_TYPE_ANY if the schema, which may be NULL,
 * sets none of them. */
unsigned lls_tool_types(const json_t *parameters, const json_t *schema);

#endif
