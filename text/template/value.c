/* SPDX-License-Identifier: Apache-2.0 */
/* Types and truth of values; this file uses no other part of the interpreter. */
#include "text/template/state.h"

#include <string.h>

#include <string.h>

const char *lls_type_name(struct lls_value value)
{
  static const char *const names[] = {
      [LLS_UNDEFINED] = "undefined",   [LLS_NONE] = "none",
      [LLS_BOOLEAN] = "a boolean",     [LLS_INTEGER] = "a number",
      [LLS_REAL] = "a number",         [LLS_STRING] = "a string",
      [LLS_LIST] = "a list",           [LLS_DICT] = "a mapping",
      [LLS_NAMESPACE] = "a namespace", [LLS_GENERATOR] = "a generator",
      [LLS_LOOP] = "a loop",           [LLS_MACRO] = "a macro",
      [LLS_FUNCTION] = "a function",   [LLS_METHOD] = "a method",
  };
  if (value.kind == LLS_LIST && value.list->form != LLS_FORM_LIST)
    return value.list->form <= LLS_FORM_GROUP ? "a tuple" : "a view of a mapping";
  return names[value.kind];
}

bool lls_truth(struct lls_value value)
{
  switch (value.kind) {
  case LLS_UNDEFINED:
  case LLS_NONE:
    return false;
  case LLS_BOOLEAN:
    return value.boolean;
  case LLS_INTEGER:
    return value.integer != 0;
  case LLS_REAL:
    return value.real != 0;
  case LLS_STRING:
    return value.length > 0;
  case LLS_LIST:
    return value.list->count > 0;
  case LLS_DICT:
    return value.dict->count > 0;
  case LLS_LOOP:
    return value.loop->list->count > 0;
  default:
    return true;
  }
}

bool lls_text_is(struct lls_value value, const char *text)
{
  return value.kind == LLS_STRING && value.length == strlen(text) &&
         memcmp(value.text, text, value.length) == 0;
}
