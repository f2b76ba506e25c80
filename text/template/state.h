/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rendering in progress, and what the files of the interpreter offer each other.
 *
 * A rendering belongs to one thread; the compiled template it reads may be read by others
 * at the same time. Once code is negative everything returns quickly, and what it returns
 * does not matter.
 */
#ifndef LLS_TEMPLATE_STATE_H
#define LLS_TEMPLATE_STATE_H

#include "core/base/error.h"
#include "text/template/budget.h"
#include "text/template/tree.h"
#include "text/base/buffer.h"

#define LLS_WORK_OF_LOOP 16 /* one turn of a for, which has variables of its own */

enum lls_jump {
  LLS_JUMP_NONE,
  LLS_JUMP_BREAK,
  LLS_JUMP_CONTINUE,
};

/* Variables. Macros keep the scope in which they were defined. */
struct lls_scope {
  struct lls_scope *outer;
  struct lls_dict variables;
  bool kept; /* by a macro, so that it cannot be used again */
};

/* The variable "loop". */
struct lls_for_loop {
  const struct lls_node *node; /* the for */
  struct lls_scope *scope;     /* that the for stands in */
  struct lls_list *list;
  uint32_t index;
  unsigned depth;           /* of loop() in loop(), from 0 on */
  struct lls_list *changed; /* what loop.changed() was last called with, or NULL */
};

/* A macro, or the body of a call statement. */
struct lls_macro {
  const struct lls_node *node;
  struct lls_scope *scope; /* that it was defined in */
};

struct lls_render {
  const struct lls_tree *tree;
  struct lls_budget budget;
  struct lls_scope *scope; /* the innermost */
  int64_t unix_time;
  struct lls_bytes out;
  enum lls_jump jump;
  int code; /* the first failure */
  struct lls_error *err;
};

/* Records a failure at a node, which may be NULL; returns undefined. */
struct lls_value lls_render_fail(struct lls_render *render, const struct lls_node *node,
                                 const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what this interpreter does not know: the code is -ENOTSUP. */
struct lls_value lls_render_unknown(struct lls_render *render,
                                    const struct lls_node *node, const char *what,
                                    const char *name);

/* ---- scope.c ----------------------------------------------------------------------- */

struct lls_value lls_scope_get(struct lls_render *render, const char *name,
                               size_t length);
void lls_scope_set(struct lls_render *render, const char *name, struct lls_value value);
void lls_scope_push(struct lls_render *render, struct lls_scope *outer);

/* ---- execute.c --------------------------------------------------------------------- */

void lls_execute(struct lls_render *render, const struct lls_node *statements);
/* Executes statements; returns what they print, as a string. */
struct lls_value lls_execute_to_text(struct lls_render *render,
                                     const struct lls_node *statements);
/* Gives a name, a member of a namespace, or each of several their value. */
void lls_assign(struct lls_render *render, const struct lls_node *target,
                struct lls_value value);

/* ---- for_loop.c -------------------------------------------------------------------- */

void lls_execute_for(struct lls_render *render, const struct lls_node *node,
                     struct lls_value iterable, unsigned depth);
/* loop(iterable) in a recursive for: the text of the inner one. */
struct lls_value lls_loop_call(struct lls_render *render, const struct lls_node *node,
                               const struct lls_for_loop *loop,
                               struct lls_value iterable);

/* ---- macro.c ----------------------------------------------------------------------- */

struct lls_value lls_macro_new(struct lls_render *render, const struct lls_node *node);
struct lls_value lls_macro_call(struct lls_render *render, const struct lls_node *node,
                                const struct lls_macro *macro,
                                const struct lls_list *positional,
                                const struct lls_dict *keywords);

/* ---- evaluate.c -------------------------------------------------------------------- */

struct lls_value lls_evaluate(struct lls_render *render, const struct lls_node *node);
/* A call with "caller" among its arguments, for {% call %}. */
struct lls_value lls_evaluate_call(struct lls_render *render, const struct lls_node *node,
                                   struct lls_value caller);
/* A filter of a text, for {% filter %} and {% set x | filter %}. */
struct lls_value lls_evaluate_filters(struct lls_render *render,
                                      const struct lls_node *node,
                                      struct lls_value subject);

/* ---- operators.c ------------------------------------------------------------------- */

struct lls_value lls_binary(struct lls_render *render, const struct lls_node *node,
                            struct lls_value left, struct lls_value right);
bool lls_compare_values(struct lls_render *render, const struct lls_node *node,
                        enum lls_operation operation, struct lls_value left,
                        struct lls_value right);

/* ---- member.c ---------------------------------------------------------------------- */

/* object.name: a method, then an item of that name. */
struct lls_value lls_member(struct lls_render *render, const struct lls_node *node,
                            struct lls_value object, struct lls_value name);
/* object[index]: an item, then a member of that name. */
struct lls_value lls_index(struct lls_render *render, const struct lls_node *node,
                           struct lls_value object, struct lls_value index);
struct lls_value lls_slice(struct lls_render *render, const struct lls_node *node,
                           struct lls_value object,
                           const struct lls_value bounds[static 3]);

/* ---- print.c ----------------------------------------------------------------------- */

/* The value as it is printed, a string. */
struct lls_value lls_to_text(struct lls_render *render, const struct lls_node *node,
                             struct lls_value value);
/* Appends what Python's repr() says. */
void lls_put_repr(struct lls_builder *builder, const struct lls_node *node,
                  struct lls_value value, unsigned depth);
void lls_put_real(struct lls_builder *builder, double number);

/* ---- json_text.c ------------------------------------------------------------------- */

struct lls_json_style {
  struct lls_value indent; /* undefined: all on one line */
  struct lls_value item_separator, key_separator;
  bool ascii;
  bool sorted;
};

struct lls_value lls_to_json(struct lls_render *render, const struct lls_node *node,
                             struct lls_value value, const struct lls_json_style *style);
/* The value that a JSON text says; fails where it says none. */
struct lls_value lls_parse_json(struct lls_render *render, const struct lls_node *node,
                                struct lls_value text);

/* ---- format.c ---------------------------------------------------------------------- */

/* format % values, as C's printf has it. */
struct lls_value lls_format_percent(struct lls_render *render,
                                    const struct lls_node *node, struct lls_value format,
                                    struct lls_value values);
/* format.format(...) with {}. */
struct lls_value lls_format_braces(struct lls_render *render, const struct lls_node *node,
                                   struct lls_value format,
                                   const struct lls_list *positional,
                                   const struct lls_dict *keywords);

/* ---- sort.c ------------------------------------------------------------------------ */

/* Sorts items by keys, both of them, in place; equal ones stay in order. */
void lls_sort(struct lls_render *render, const struct lls_node *node,
              struct lls_value *keys, struct lls_value *items, size_t count,
              bool descending);

/* ---- string_operations.c ----------------------------------------------------------- */

size_t lls_characters(struct lls_render *render, struct lls_value string);
/* Where the character of that number begins; the string's end for numbers past it. */
size_t lls_character_offset(struct lls_value string, size_t number);
/* Where the first needle begins in text from `from` on; SIZE_MAX for nowhere. */
size_t lls_find(struct lls_value text, size_t from, struct lls_value needle);
/* Where the last needle begins in the first `end` bytes of text; SIZE_MAX for nowhere. */
size_t lls_find_last(struct lls_render *render, struct lls_value text, size_t end,
                     struct lls_value needle);
/* Without the given characters (white space unless it is a string) at its ends. */
struct lls_value lls_strip(struct lls_render *render, struct lls_value string,
                           struct lls_value characters, bool left, bool right);
struct lls_value lls_upper(struct lls_render *render, struct lls_value string);
struct lls_value lls_lower(struct lls_render *render, struct lls_value string);
/* The first character in upper case, the others in lower case. */
struct lls_value lls_capitalize(struct lls_render *render, struct lls_value string);
/* new_text for old_text, from the left, at most count times. */
struct lls_value lls_replace(struct lls_render *render, struct lls_value string,
                             struct lls_value old_text, struct lls_value new_text,
                             size_t count);
/* At runs of white space, or at a separator, at most `most` times. */
struct lls_list *lls_split_words(struct lls_render *render, struct lls_value string,
                                 size_t most, bool from_right);
struct lls_list *lls_split_at(struct lls_render *render, struct lls_value string,
                              struct lls_value separator, size_t most, bool from_right);
/* The line at *at without its end, past which *at moves; `end` says how long that is. */
struct lls_value lls_next_line(struct lls_value text, size_t *at, size_t *end);
/* With &, <, >, ' and " as HTML has them; what is Markup stays as it is. */
struct lls_value lls_escape(struct lls_render *render, struct lls_value string);
/* The string in a field of `width` characters. */
struct lls_value lls_pad(struct lls_render *render, struct lls_value string,
                         struct lls_value fill, int64_t width, bool left, bool right);
/* A string as safe as another. */
struct lls_value lls_like(struct lls_value string, struct lls_value other);

#endif
