/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the parts of the parser. Each mode has a step, which takes bytes from the front
 * of `held` or returns false where it needs more of them. What lies in `held` before `at`
 * was looked at, and becomes content if it turns out to be no call.
 */
#ifndef LLS_TOOLS_TOOL_PARSER_INTERNAL_H
#define LLS_TOOLS_TOOL_PARSER_INTERNAL_H

#include "core/base/stop_strings.h"
#include "text/tools/json_repair.h"
#include "text/tools/json_scan.h"
#include "text/tools/tool_parser.h"

#define LLS_TOOL_NAME_BYTES 512 /* of a name with what stands around it */

enum lls_tool_mode {
  LLS_TOOL_AT_START,     /* before reasoning, if there is any */
  LLS_TOOL_IN_REASONING, /* between its marks */
  LLS_TOOL_IN_CONTENT,
  LLS_TOOL_AT_CALL,      /* after a mark: a call, or an array of them, follows */
  LLS_TOOL_IN_OBJECT,    /* {"name": ..., "arguments": ...} */
  LLS_TOOL_IN_NAME,      /* of a call that is not written as an object */
  LLS_TOOL_IN_ARGUMENTS, /* after such a name */
  LLS_TOOL_IN_KEYS,      /* likewise, argument by argument */
  LLS_TOOL_AFTER_CALL,
  LLS_TOOL_AT_MESSAGE, /* of gpt-oss: before a header */
  LLS_TOOL_IN_HEADER,
  LLS_TOOL_IN_MESSAGE,
  LLS_TOOL_OVER /* the rest is left out */
};

enum lls_tool_place { /* in an object */
                      LLS_TOOL_BEFORE_OBJECT,
                      LLS_TOOL_BEFORE_KEY,
                      LLS_TOOL_IN_KEY,
                      LLS_TOOL_BEFORE_COLON,
                      LLS_TOOL_BEFORE_VALUE,
                      LLS_TOOL_IN_VALUE,
                      LLS_TOOL_AFTER_VALUE
};

enum lls_tool_role {
  LLS_TOOL_OTHER,
  LLS_TOOL_NAME,
  LLS_TOOL_ARGUMENTS,
  LLS_TOOL_WRAPPER
};

struct lls_tool_object {
  enum lls_tool_place place;
  enum lls_tool_role role;         /* of the member that is read */
  bool streamed;                   /* its value goes out as it comes */
  unsigned depth;                  /* 1 within {"function": {...}} */
  size_t begin;                    /* of the key or value, in held */
  size_t arguments, arguments_end; /* seen before the name, in held */
  size_t name,
      name_end; /* beside a form, in held: a call once arguments follow; 0: none */
};

struct lls_tool_parser {
  struct lls_tool_parser_options options;
  struct lls_tool_answer *answer;
  struct lls_stop_set marks; /* that end content; of gpt-oss: that end a message */
  enum lls_tool_mode mode;
  struct lls_text held;
  size_t at;
  bool begun;                 /* content, or a call, has been there */
  bool has_content;           /* content has */
  bool bare;                  /* the call has no mark: it must name one of the tools */
  bool in_list;               /* calls in an array */
  bool calling;               /* a call was reported and is not complete */
  bool trimming;              /* white space that comes next is left out */
  bool has_arguments;         /* of the call, some were reported */
  enum lls_tool_role message; /* of gpt-oss: ARGUMENTS, WRAPPER: reasoning, or content */
  struct lls_json_scan scan;
  struct lls_json_repair repair; /* of the call's arguments */
  struct lls_text repaired;      /* room for a piece of them */
  struct lls_tool_object object;
};

bool lls_tool_is_space(char byte);
/* 1: the text begins with it; 0: it may, when there is more of it; -1: it does not. */
int lls_tool_begins(const char *text, size_t n, const char *with);
/* The first such mark: 1 with its place, where it ends within the first `most` bytes; 0:
 * it may still come; -1: it is farther away. What it says of the whole of a text does not
 * depend on the pieces in which that comes. */
int lls_tool_find_near(const char *text, size_t n, const char *mark, size_t most,
                       const char **place);

/* Drops what was looked at, and looks at the rest from its beginning. */
void lls_tool_take(struct lls_tool_parser *parser);
void lls_tool_emit_content(struct lls_tool_parser *parser, const char *bytes, size_t n);
/* Makes content of all that was looked at. */
bool lls_tool_give_up(struct lls_tool_parser *parser);

/* A call begins: false where a call without mark names no tool. */
bool lls_tool_begin_call(struct lls_tool_parser *parser, const char *name, size_t n);
void lls_tool_emit_arguments(struct lls_tool_parser *parser, const char *bytes, size_t n);
/* Counts the call as whole if its arguments are. */
void lls_tool_end_call(struct lls_tool_parser *parser);

bool lls_tool_step_call(struct lls_tool_parser *parser);      /* tool_calls.c */
bool lls_tool_step_name(struct lls_tool_parser *parser);      /* tool_calls.c */
bool lls_tool_step_arguments(struct lls_tool_parser *parser); /* tool_calls.c */
bool lls_tool_step_after(struct lls_tool_parser *parser);     /* tool_calls.c */
bool lls_tool_step_object(struct lls_tool_parser *parser);    /* tool_objects.c */
bool lls_tool_step_keys(struct lls_tool_parser *parser);      /* tool_keys.c */
/* The answer ended within a call: takes the arguments that are there; and their end, if
 * it was not cut. tool_keys.c */
void lls_tool_finish_keys(struct lls_tool_parser *parser, bool cut);
bool lls_tool_step_message(struct lls_tool_parser *parser); /* channel.c */

#endif
