/* SPDX-License-Identifier: Apache-2.0 */
/* The types that a parameter of a tool may have, from its schema. */
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

/* Bits of lls_tool_type, by type, enum, const, anyOf, oneOf, allOf and $ref within the
 * tool's parameters; LLS_TOOL_TYPE_ANY where the schema (may be NULL) says nothing. */
unsigned lls_tool_types(const json_t *parameters, const json_t *schema);

#endif
