/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats in which models write tool calls and reasoning: a constant table, which
 * the parser (tool_parser.h) uses to read answers, and tool_grammar.c to constrain
 * required calls. The format of a model is detected in its chat template.
 */
#ifndef LLS_TOOLS_TOOL_FORMAT_H
#define LLS_TOOLS_TOOL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

enum lls_tool_shape {
  LLS_TOOL_JSON,   /* {"name": ..., "arguments": {...}}, alone or in an array */
  LLS_TOOL_NAMED,  /* the name, name_end, and the arguments as JSON */
  LLS_TOOL_KEYED,  /* the name, and each argument with its key, between marks */
  LLS_TOOL_TAGGED, /* the name, and each argument as an element of its own name */
  LLS_TOOL_LOOSE,  /* the name, and arguments in brackets that are nearly JSON */
  LLS_TOOL_CHANNEL /* gpt-oss' messages, whose headers name the recipient */
};

#define LLS_TOOL_MARKS  4
#define LLS_TOOL_AROUND 5

/* Headers of gpt-oss' messages: of reasoning, and of the answer. */
#define LLS_TOOL_ANALYSIS "<|channel|>analysis"
#define LLS_TOOL_FINAL    "<|channel|>final"
#define LLS_TOOL_MESSAGE  "<|message|>"

/* How a required call is written: begin, before, name, middle, arguments, after, end. */
struct lls_tool_syntax {
  const char *begin;   /* text before the first call */
  const char *before;  /* text before each call's name */
  const char *middle;  /* text between name and arguments */
  const char *after;   /* text after each call's arguments */
  const char *between; /* text between two calls; NULL: only one call is possible */
  const char *end;     /* text after the last call */
};

struct lls_tool_format {
  const char *name; /* value of [model] tool_format */
  enum lls_tool_shape shape;
  const char *open[LLS_TOOL_MARKS]; /* marks at which calls begin; NULL-terminated
                                     * unless full */
  const char *close; /* the mark at which a call, or a list of calls, ends; or
                      * NULL */
  const char *around[LLS_TOOL_AROUND]; /* marks around all calls, which have no other
                                        * meaning; NULL-terminated unless full */
  bool framed;  /* answers without calls have marks of `around`, too */
  bool bare;    /* an answer may also begin with a call without a mark */
  bool lasting; /* further calls follow without a mark */
  const char
      *name_begin;       /* NAMED, KEYED, LOOSE: optional mark before the name; or NULL */
  const char *name_end;  /* NAMED, LOOSE: mark after the name; KEYED: the same, or
                          * NULL */
  const char *name_over; /* KEYED: mark after name_end and other text, or NULL */
  bool name_is_key;      /* JSON: a call is {"NAME": {arguments}} */
  const char *not_a_name;  /* NAMED: a name that introduces content instead of a call,
                            * or NULL */
  const char *key_begin;   /* KEYED; TAGGED: beginning of a tag */
  const char *key_end;     /* KEYED; TAGGED: end of a tag */
  const char *value_begin; /* KEYED: mark after key_end and white space, or NULL;
                            * LOOSE: mark around strings, or NULL: quotes */
  const char *value_end;   /* KEYED */
  bool exact;              /* KEYED: line breaks beside the marks belong to values */
  bool escaped;            /* KEYED: & and " in keys are &amp; and &quot; */
  const char *call_end;    /* KEYED, TAGGED: mark after the last argument */
  const char *signs[LLS_TOOL_MARKS]; /* a template that contains all of these has this
                                      * format */
  bool short_ids;                    /* the template requires ids of 9 letters and
                                      * digits */
  struct lls_tool_syntax syntax;     /* begin is NULL: GENERIC's syntax is used */
};

/* The marks around the reasoning of an answer. */
struct lls_reasoning_format {
  const char *name; /* value of [model] reasoning_format */
  const char *open, *close;
  const char *sign; /* a template that contains this, too, has the format; or NULL */
};

/* The names of all formats, for messages; test_tools.c compares them with the tables. */
#define LLS_TOOL_FORMAT_NAMES                                                            \
  "harmony, functionary_v3.2, qwen3_coder, seed_oss, minimax_m2, minimax_m3, glm4, "     \
  "hunyuan, hy3, "                                                                       \
  "deepseek_v3.2, minicpm5, kimi_k2, kimi_k3, solar_open, deepseek_r1, deepseek_v3.1, "  \
  "mistral_v11, mistral, phi4, granite, command_r7b, command_r_plus, gigachat3, "        \
  "nemotron_v2, apertus, apriel, functools, functionary_v3.1, gemma4, lfm2, hermes, "    \
  "llama3_json, generic"
#define LLS_REASONING_FORMAT_NAMES                                                       \
  "kimi_k3, hunyuan, minimax_m3, think, mistral, command, seed, gemma4, apertus"

/* Finds a format by its name in [model] tool_format; NULL if there is none. */
const struct lls_tool_format *lls_tool_format_find(const char *name);
/* Finds the format of a chat template's source; the generic one if no signs of another
 * are found. */
const struct lls_tool_format *lls_tool_format_detect(const char *source);
/* Returns the format in which required calls are written: this one, or the generic one
 * if this has no syntax. */
const struct lls_tool_format *lls_tool_format_written(const struct lls_tool_format *);

const struct lls_reasoning_format *lls_reasoning_format_find(const char *name);
/* Returns NULL if the template shows no reasoning marks. */
const struct lls_reasoning_format *lls_reasoning_format_detect(const char *source);

/* Returns true if the text (of a special token) is a mark of either format; both may be
 * NULL. */
bool lls_tool_mark(const struct lls_tool_format *format,
                   const struct lls_reasoning_format *reasoning, const char *text);

#endif
