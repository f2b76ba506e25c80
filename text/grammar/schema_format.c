/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema's formats as regular expressions for the whole text, after the RFCs that
 * it cites. Dates must exist, times have no leap seconds, and labels of host names have
 * at most 63 bytes.
 */
#include "text/grammar/schema_compile.h"

#include <string.h>

#define LEAP_CENTURY "(?:0[48]|[2468][048]|[13579][26])00"
#define LEAP_YEAR    "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|" LEAP_CENTURY ")"
#define YEAR         "(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])"
#define DATE                                                                             \
  "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"                          \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME                                                                             \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]" \
  "\\d)"
#define DURATION_TIME "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION                                                                         \
  "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:" DURATION_TIME       \
  ")?|" DURATION_TIME ")"

#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST  LABEL "(?:\\." LABEL ")*"
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define BYTE  "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  BYTE "(?:\\." BYTE "){3}"

/* RFC 3986, appendix A. */
#define H16 "[0-9A-Fa-f]{1,4}"
#define L32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                             \
  "(?:(?:" H16 ":){6}" L32 "|::(?:" H16 ":){5}" L32 "|(?:" H16 ")?::(?:" H16 ":){4}" L32 \
  "|(?:(?:" H16 ":)?" H16 ")?::(?:" H16 ":){3}" L32 "|(?:(?:" H16 ":){0,2}" H16          \
  ")?::(?:" H16 ":){2}" L32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" L32 "|(?:(?:" H16 \
  ":){0,4}" H16 ")?::" L32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16          \
  ":){0,6}" H16 ")?::)"
#define PCT       "%[0-9A-Fa-f]{2}"
#define PCHAR     "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define REG_NAME  "(?:[A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")*"
#define USER      "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@"
#define AUTHORITY "(?:" USER ")?(?:\\[" IPV6 "\\]|" REG_NAME ")(?::\\d*)?"
#define ABEMPTY   "(?:/" PCHAR "*)*"
#define ROOTLESS  PCHAR "+" ABEMPTY
#define NOSCHEME  "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")+" ABEMPTY
#define ABSOLUTE  "/(?:" ROOTLESS ")?"
#define TAIL      "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define SCHEME    "[A-Za-z][A-Za-z0-9+.-]*:"
#define HIER(R)   "(?:(?://" AUTHORITY ABEMPTY "|" ABSOLUTE "|" R ")?" TAIL ")"
#define URI       SCHEME HIER(ROOTLESS)
#define POINTER   "(?:/(?:[^~/]|~[01])*)*"

/* Expressions for some of a format's texts, with few states or with parts of usual
 * length, so that their length can be bounded. */
#define FEW_LABELS  LABEL "(?:\\." LABEL "){0,3}"
#define SHORT_ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
#define SHORT_EMAIL SHORT_ATOM "(?:\\." SHORT_ATOM "){0,2}@" FEW_LABELS
#define SEGMENTS    "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|" PCT ")*"
#define QUERY       "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" PCT ")*"
#define SIMPLE_TAIL "(?:\\?" QUERY ")?(?:#" QUERY ")?"
#define SIMPLE_URI  SCHEME "//[A-Za-z0-9.-]+(?::\\d*)?(?:/" SEGMENTS ")?" SIMPLE_TAIL
#define PLAIN       "[A-Za-z0-9._~!$&'()*+,;=:@/-]*"
#define SHORT_URI                                                                        \
  "[A-Za-z][A-Za-z0-9+.-]{0,9}://[A-Za-z0-9.-]{1,100}(?::\\d{0,5})?(?:/" PLAIN           \
  "(?:" PCT PLAIN "){0,3})?(?:\\?" PLAIN "(?:" PCT PLAIN "){0,3})?(?:#" PLAIN ")?"

static const struct {
  const char *name, *expression;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[Tt]" TIME},
    {"duration", DURATION},
    {"email", ATOM "(?:\\." ATOM ")*@(?:" HOST "|\\[" IPV4 "\\])"},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI},
    {"uri-reference", "(?:" URI "|" HIER(NOSCHEME) ")"},
    {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")"},
    /* defined by JSON Schema, but without an expression here */
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"regex", NULL},
    {"uri-template", NULL},
};

static const struct {
  const char *name, *simple, *brief;
} some[] = {{"email", NULL, SHORT_EMAIL},
            {"hostname", NULL, FEW_LABELS},
            {"uri", SIMPLE_URI, SHORT_URI}};

const char *lls_schema_format_some(const char *expression, bool brief)
{
  bool standard;
  for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
    if (lls_schema_format(some[i].name, &standard) == expression)
      return brief ? some[i].brief : some[i].simple;
  return NULL;
}

const char *lls_schema_format(const char *name, bool *standard)
{
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
    if (strcmp(formats[i].name, name) == 0) {
      *standard = true;
      return formats[i].expression;
    }
  *standard = false;
  return NULL;
}
