/* SPDX-License-Identifier: Apache-2.0 */
/* Lark's common terminals; see lark_common.h. The Lark project documents what each one
 * matches (lark/grammars/common.lark, version 1.2). */
#include "text/grammar/lark_common.h"

#include <string.h>

#define EXPONENT "[eE][+-]?[0-9]+"
#define DECIMAL  "([0-9]+\\.[0-9]*|\\.[0-9]+)"
#define FLOAT    "([0-9]+" EXPONENT "|" DECIMAL "(" EXPONENT ")?)"
#define NUMBER   "(" FLOAT "|[0-9]+)"

static const struct {
  const char *name, *pattern;
} terminals[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[a-fA-F0-9]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", DECIMAL},
    {"_EXP", EXPONENT},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+-]?" FLOAT},
    {"NUMBER", NUMBER},
    {"SIGNED_NUMBER", "[+-]?" NUMBER},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

const char *lls_lark_common(const char *name, size_t length)
{
  for (size_t i = 0; i < sizeof terminals / sizeof terminals[0]; i++)
    if (strlen(terminals[i].name) == length &&
        memcmp(terminals[i].name, name, length) == 0)
      return terminals[i].pattern;
  return NULL;
}
