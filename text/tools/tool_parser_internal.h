/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parser's files. Each mode has a step function, which takes bytes from
 * the front of `held`, or returns false if it needs more. The bytes of `held` before
 * `at` were examined; they become content if they turn out not to be a call.
 */
#ifndef LLS_TOOLS_TOOL_PARSER_INTERNAL_H
#define LLS_TOOLS_TOOL_PARSER_INTERNAL_H

#include "core/base/stop_strings.h"
#include "text/tools/json_repair.h"
#include "text/tools/json_scan.h"
#include "text/tools/tool_parser.h"

#define LLS_TOOL_NAME_BYTES 512 /* bytes of a name and the marks around it */

enum lls_tool_mode {
  LLS_TOOL_AT_START,     /* before any reasoning */
  LLS_TOOL_IN_REASONING, /* between the marks of reasoning */
  LLS_TOOL_IN_CONTENT,
  LLS_TOOL_AT_CALL,      /* after a mark: a call, or an array of calls, follows */
  LLS_TOOL_IN_OBJECT,    /* {"name": ..., "arguments": ...} */
  LLS_TOOL_IN_NAME,      /* reads the name of a call that is not written as an object */
  LLS_TOOL_IN_ARGUMENTS, /* after the name: JSON arguments */
  LLS_TOOL_IN_LOOSE,     /* after the name: arguments that are nearly JSON */
  LLS_TOOL_IN_KEYS,      /* after the name: arguments with keys */
  LLS_TOOL_IN_TAGS,      /* after the name: arguments as elements */
  LLS_TOOL_AFTER_CALL,
  LLS_TOOL_AT_MESSAGE, /* gpt-oss: before a header */
  LLS_TOOL_IN_HEADER,
  LLS_TOOL_IN_MESSAGE,
  LLS_TOOL_OVER /* remaining text is left out */
};

enum lls_tool_place { /* position in an object */
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
  enum lls_tool_role role;         /* role of the member being read */
  bool streamed;                   /* the member's value is reported while it arrives */
  unsigned depth;                  /* 1 within {"function": {...}} */
  size_t begin;                    /* offset of the key or value in held */
  size_t arguments, arguments_end; /* offsets in held of arguments that precede the
                                    * name */
  size_t name, name_end; /* format with a form: place of the name in held, complete once
                            arguments follow; 0: none */
};

enum lls_tool_loose_place { /* position in arguments that are nearly JSON; loose.c */
                            LLS_LOOSE_KEY,
                            LLS_LOOSE_VALUE,
                            LLS_LOOSE_ELEMENT, /* of an array */
                            LLS_LOOSE_STRING,
                            LLS_LOOSE_AFTER
};

struct lls_tool_loose {
  enum lls_tool_loose_place place;
  uint32_t depth;   /* open brackets, at most 64 */
  uint64_t objects; /* a bit for each: an object, not an array */
  bool first;       /* nothing stands in the innermost bracket yet */
  const char *mark; /* around the open string */
};

struct lls_tool_parser {
  struct lls_tool_parser_options options;
  struct lls_tool_answer *answer;
  struct lls_stop_set marks; /* marks that end content; for gpt-oss: that end a message */
  enum lls_tool_mode mode;
  struct lls_text held;
  size_t at;
  bool begun;                 /* content or a call has begun */
  bool has_content;           /* content has begun */
  bool bare;                  /* the call has no mark, so it must name one of the tools */
  bool in_list;               /* the parser is in an array of calls */
  bool calling;               /* a call was reported and is not complete */
  bool trimming;              /* skip the white space that comes next */
  bool has_arguments;         /* a part of the call's arguments was reported */
  enum lls_tool_role message; /* gpt-oss: ARGUMENTS; WRAPPER: reasoning; else content */
  struct lls_json_scan scan;
  struct lls_json_repair repair; /* for the call's arguments */
  struct lls_text repaired;      /* buffer for a repaired piece of arguments */
  struct lls_tool_object object;
  struct lls_tool_loose loose;
};

bool lls_tool_is_space(char byte);
/* Returns 1 if the text begins with `with`; 0 if it may, once more text arrives; -1 if
 * not. */
int lls_tool_begins(const char *text, size_t n, const char *with);
/* Finds the first mark that ends within the first `most` bytes. Returns 1 and its
 * place; 0 if it may still arrive; -1 if there is none. The result for a whole text
 * does not depend on the pieces in which it arrives. */
int lls_tool_find_near(const char *text, size_t n, const char *mark, size_t most,
                       const char **place);

/* Removes the bytes before `at` from held, and sets `at` to 0. */
void lls_tool_take(struct lls_tool_parser *parser);
void lls_tool_emit_content(struct lls_tool_parser *parser, const char *bytes, size_t n);
/* Emits the bytes before `at` as content. */
bool lls_tool_give_up(struct lls_tool_parser *parser);

/* Reports a new call. Returns false if a call without a mark names none of the tools. */
bool lls_tool_begin_call(struct lls_tool_parser *parser, const char *name, size_t n);
void lls_tool_emit_arguments(struct lls_tool_parser *parser, const char *bytes, size_t n);
/* Ends the call; counts it as complete if its arguments are. */
void lls_tool_end_call(struct lls_tool_parser *parser);

bool lls_tool_step_call(struct lls_tool_parser *parser);      /* tool_calls.c */
bool lls_tool_step_name(struct lls_tool_parser *parser);      /* tool_calls.c */
bool lls_tool_step_arguments(struct lls_tool_parser *parser); /* tool_calls.c */
bool lls_tool_step_after(struct lls_tool_parser *parser);     /* tool_calls.c */
bool lls_tool_step_object(struct lls_tool_parser *parser);    /* tool_objects.c */
/* loose.c: begins arguments behind their opening bracket. */
void lls_tool_begin_loose(struct lls_tool_parser *parser);
bool lls_tool_step_loose(struct lls_tool_parser *parser);
bool lls_tool_step_keys(struct lls_tool_parser *parser); /* tool_keys.c */
bool lls_tool_step_tags(struct lls_tool_parser *parser); /* tagged.c */
/* Like lls_tool_finish_keys, but an argument that was cut is left out. */
void lls_tool_finish_tags(struct lls_tool_parser *parser, bool cut);
/* Returns the schema of the arguments of the call, or NULL (tool_keys.c). */
const json_t *lls_tool_parameters(const struct lls_tool_parser *parser);
/* Emits a text as a value of one of these types (bits of lls_tool_type): as a string if
 * that type is allowed, except null if that is allowed, too (tool_keys.c). */
void lls_tool_emit_value(struct lls_tool_parser *parser, unsigned types, const char *text,
                         size_t n);
/* Ends an answer within a call (tool_keys.c): takes the arguments that arrived, and
 * closes them unless the answer was cut. */
void lls_tool_finish_keys(struct lls_tool_parser *parser, bool cut);
bool lls_tool_step_message(struct lls_tool_parser *parser); /* channel.c */

#endif
