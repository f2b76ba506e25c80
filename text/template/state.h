/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rendering in progress, and the functions that the interpreter's files offer each
 * other.
 *
 * A rendering belongs to one thread; other threads may read the compiled template at
 * the same time. Once code is negative every function returns quickly, and its result
 * has no meaning.
 */
#ifndef LLS_TEMPLATE_STATE_H
#define LLS_TEMPLATE_STATE_H

#include "core/base/error.h"
#include "text/template/budget.h"
#include "text/template/tree.h"
#include "text/base/buffer.h"

#define LLS_WORK_OF_LOOP 16 /* one iteration of a for, which has its own variables */

enum lls_jump {
  LLS_JUMP_NONE,
  LLS_JUMP_BREAK,
  LLS_JUMP_CONTINUE,
};

/* Variables. A macro keeps the scope in which it was defined. */
struct lls_scope {
  struct lls_scope *outer;
  struct lls_dict variables;
  bool kept; /* used by a macro, so its memory cannot be reused */
};

/* The variable "loop". */
struct lls_for_loop {
  const struct lls_node *node; /* the for statement */
  struct lls_scope *scope;     /* scope around the for statement */
  struct lls_list *list;
  uint32_t index;
  unsigned depth;           /* nesting of loop() inside loop(), from 0 on */
  struct lls_list *changed; /* arguments of the previous loop.changed(), or NULL */
};

/* A macro, or the body of a call statement. */
struct lls_macro {
  const struct lls_node *node;
  struct lls_scope *scope; /* scope in which it was defined */
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

/* Records a failure at a node, which may be NULL. Returns undefined. */
struct lls_value lls_render_fail(struct lls_render *render, const struct lls_node *node,
                                 const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Like lls_render_fail, for a construct that this interpreter does not support: the
 * code is -ENOTSUP. */
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
/* Executes statements. Returns the text that they print. */
struct lls_value lls_execute_to_text(struct lls_render *render,
                                     const struct lls_node *statements);
/* Assigns a value to a name, to a member of a namespace, or its items to several
 * targets. */
void lls_assign(struct lls_render *render, const struct lls_node *target,
                struct lls_value value);

/* ---- for_loop.c -------------------------------------------------------------------- */

void lls_execute_for(struct lls_render *render, const struct lls_node *node,
                     struct lls_value iterable, unsigned depth);
/* Executes loop(iterable) in a recursive for. Returns the text of the inner loop. */
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
/* Evaluates a call with `caller` among its arguments, for {% call %}. */
struct lls_value lls_evaluate_call(struct lls_render *render, const struct lls_node *node,
                                   struct lls_value caller);
/* Applies the node's filters to a text, for {% filter %} and {% set x | filter %}. */
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

/* object.name: a method of that name, or else an item. */
struct lls_value lls_member(struct lls_render *render, const struct lls_node *node,
                            struct lls_value object, struct lls_value name);
/* object[index]: the item with this index or key; if there is none, the member of that
 * name. */
struct lls_value lls_index(struct lls_render *render, const struct lls_node *node,
                           struct lls_value object, struct lls_value index);
struct lls_value lls_slice(struct lls_render *render, const struct lls_node *node,
                           struct lls_value object,
                           const struct lls_value bounds[static 3]);

/* ---- print.c ----------------------------------------------------------------------- */

/* Returns the value as a string, as it is printed. */
struct lls_value lls_to_text(struct lls_render *render, const struct lls_node *node,
                             struct lls_value value);
/* Appends the value as Python's repr() writes it. */
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
/* Parses a JSON text to a value; fails if it is malformed. */
struct lls_value lls_parse_json(struct lls_render *render, const struct lls_node *node,
                                struct lls_value text);

/* ---- format.c ---------------------------------------------------------------------- */

/* format % values, like C's printf. */
struct lls_value lls_format_percent(struct lls_render *render,
                                    const struct lls_node *node, struct lls_value format,
                                    struct lls_value values);
/* format.format(...), with fields in {}. */
struct lls_value lls_format_braces(struct lls_render *render, const struct lls_node *node,
                                   struct lls_value format,
                                   const struct lls_list *positional,
                                   const struct lls_dict *keywords);

/* ---- sort.c ------------------------------------------------------------------------ */

/* Sorts items, and the keys with them, in place by the keys; equal keys keep their
 * order. */
void lls_sort(struct lls_render *render, const struct lls_node *node,
              struct lls_value *keys, struct lls_value *items, size_t count,
              bool descending);

/* ---- string_operations.c ----------------------------------------------------------- */

size_t lls_characters(struct lls_render *render, struct lls_value string);
/* Returns the byte offset of a character; the string's length if there are fewer
 * characters. */
size_t lls_character_offset(struct lls_value string, size_t number);
/* Returns the offset of the first occurrence of needle from `from` on; SIZE_MAX if
 * there is none. */
size_t lls_find(struct lls_value text, size_t from, struct lls_value needle);
/* Returns the offset of the last occurrence of needle in the first `end` bytes;
 * SIZE_MAX if there is none. */
size_t lls_find_last(struct lls_render *render, struct lls_value text, size_t end,
                     struct lls_value needle);
/* Returns the string without leading (left) and trailing (right) characters of the
 * given set; without white space if `characters` is not a string. */
struct lls_value lls_strip(struct lls_render *render, struct lls_value string,
                           struct lls_value characters, bool left, bool right);
struct lls_value lls_upper(struct lls_render *render, struct lls_value string);
struct lls_value lls_lower(struct lls_render *render, struct lls_value string);
/* Returns the string with its first character in upper case and all later ones in lower
 * case. */
struct lls_value lls_capitalize(struct lls_render *render, struct lls_value string);
/* Replaces old_text by new_text from the left, at most count times. */
struct lls_value lls_replace(struct lls_render *render, struct lls_value string,
                             struct lls_value old_text, struct lls_value new_text,
                             size_t count);
/* Split at runs of white space, or at a separator, at most `most` times. */
struct lls_list *lls_split_words(struct lls_render *render, struct lls_value string,
                                 size_t most, bool from_right);
struct lls_list *lls_split_at(struct lls_render *render, struct lls_value string,
                              struct lls_value separator, size_t most, bool from_right);
/* Returns the line at *at without its line end, and moves *at after it; *end is the
 * length of the line end. */
struct lls_value lls_next_line(struct lls_value text, size_t *at, size_t *end);
/* Escapes & < > ' and " for HTML; Markup stays unchanged. */
struct lls_value lls_escape(struct lls_render *render, struct lls_value string);
/* Returns the string padded to `width` characters. */
struct lls_value lls_pad(struct lls_render *render, struct lls_value string,
                         struct lls_value fill, int64_t width, bool left, bool right);
/* Returns the string with the safe flag of another one. */
struct lls_value lls_like(struct lls_value string, struct lls_value other);

#endif
