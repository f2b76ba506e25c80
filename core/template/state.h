/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rendering in progress, and what the files of the interpreter offer each other.
 *
 * A json_t pointer is a value; NULL is Jinja's undefined. "New" values belong to the
 * caller. Once code is negative everything returns quickly, and what it returns does not
 * matter. No value contains a namespace and none nests deeper than LLS_VALUE_DEPTH, so
 * that values have no cycles and can be compared, printed and freed by recursion.
 */
#ifndef LLS_TEMPLATE_STATE_H
#define LLS_TEMPLATE_STATE_H

#include "core/base/error.h"
#include "core/template/tree.h"
#include "core/template/lexer.h"
#include "core/tokenizer/buffer.h"

#include <stdint.h>

#define LLS_VALUE_DEPTH    100
#define LLS_EVALUATE_DEPTH 500
/*
 * Work is counted in visited nodes and values, which take some 0.2 us each, and in bytes
 * of text that are read or made. A chat of 1,000 messages takes about 75,000 with the
 * template of Llama-3.1; the limit is reached in one to four seconds.
 */
#define LLS_WORK_MAX             5000000
#define LLS_WORK_OF_LOOP         16 /* one turn of a for, which makes the variable "loop" */
#define LLS_WORK_OF_TEXT(length) ((length) / 64)
#define LLS_OUTPUT_MAX           (64 << 20) /* bytes of text or of one string */

enum lls_jump {
  LLS_JUMP_NONE,
  LLS_JUMP_BREAK,
  LLS_JUMP_CONTINUE,
};

struct lls_render {
  const struct lls_tree *tree;
  json_t *scopes;     /* array of objects, name -> value, the innermost last */
  json_t *namespaces; /* array of the objects that namespace() made */
  json_t *undefined;  /* stands for undefined in a scope */
  int64_t unix_time;
  struct lls_bytes out;
  uint64_t work;
  unsigned depth;
  enum lls_jump jump;
  int code; /* the first failure */
  struct lls_error *err;
};

/* Records a failure at a node, which may be NULL; returns NULL. */
void *lls_render_fail(struct lls_render *render, const struct lls_node *node,
                      const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Counts work; false, and a failure, when the limit is reached. */
bool lls_render_charge(struct lls_render *render, const struct lls_node *node,
                       size_t work);
/* Counts what it takes to read a value with all that is in it. */
bool lls_render_charge_value(struct lls_render *render, const struct lls_node *node,
                             const json_t *value);
/* A new string, charged; takes over nothing. */
json_t *lls_render_string(struct lls_render *render, const char *text, size_t length);
/* A failure if value is NULL for want of memory; returns value. */
json_t *lls_render_made(struct lls_render *render, json_t *value);
/* Returns a container that was made of other values, or a failure if it nests
 * too deep. */
json_t *lls_render_check(struct lls_render *render, const struct lls_node *node,
                         json_t *value);

/* render.c: statements, chained. */
void lls_execute(struct lls_render *render, const struct lls_node *statements);
/* scope.c: variables. */
json_t *lls_scope_get(const struct lls_render *render, const char *name); /* borrowed */
void lls_scope_set(struct lls_render *render, const char *name, json_t *value);
void lls_scope_push(struct lls_render *render);
void lls_scope_pop(struct lls_render *render);

/* evaluate.c: the new value of an expression. */
json_t *lls_evaluate(struct lls_render *render, const struct lls_node *node);

/* operators.c */
json_t *lls_binary(struct lls_render *render, const struct lls_node *node, json_t *left,
                   json_t *right);
bool lls_compare(struct lls_render *render, const struct lls_node *node,
                 enum lls_operation operation, const json_t *left, const json_t *right);
json_t *lls_index(struct lls_render *render, const struct lls_node *node, json_t *object,
                  const json_t *index);
json_t *lls_slice(struct lls_render *render, const struct lls_node *node, json_t *object,
                  const json_t *const bounds[static 3]);

/* value.c */
const char *lls_type_name(const json_t *value); /* as Jinja's user knows it */
bool lls_truth(const json_t *value);
bool lls_equal(const json_t *left, const json_t *right);
size_t lls_characters(const json_t *string);
/* Where the character of that number begins; the string's end for numbers past it. */
size_t lls_character_offset(const json_t *string, size_t number);
/* A new string: the value as it is printed. */
json_t *lls_to_string(struct lls_render *render, const struct lls_node *node,
                      json_t *value);
/* A new list of what a for goes through: items, keys or characters. */
json_t *lls_to_list(struct lls_render *render, const struct lls_node *node,
                    json_t *value);
/* A new string without the given characters (white space for NULL) at its ends. */
json_t *lls_strip(struct lls_render *render, const json_t *string, const char *characters,
                  bool left, bool right);
json_t *lls_upper(struct lls_render *render, const json_t *string);
json_t *lls_lower(struct lls_render *render, const json_t *string);
/* The first letter (of every word) in upper case, the others in lower case. */
json_t *lls_capitalize(struct lls_render *render, const json_t *string, bool every_word);
/* A new string with new_text for old_text, from the left, at most count times. */
json_t *lls_replace(struct lls_render *render, const struct lls_node *node,
                    const json_t *string, const json_t *old_text, const json_t *new_text,
                    size_t count);
/* A new list of [key, value]. */
json_t *lls_pairs(struct lls_render *render, const struct lls_node *node,
                  const json_t *object);

#endif
