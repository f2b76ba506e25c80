/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a template. All nodes have the same struct; the comment at each kind
 * lists the members that it uses. Lists are chained by next. Nodes are freed with their
 * tree, which is immutable once it is parsed.
 */
#ifndef LLS_TEMPLATE_TREE_H
#define LLS_TEMPLATE_TREE_H

#include "core/base/error.h"
#include "text/template/value.h"

enum lls_node_kind {
  /* statements */
  LLS_NODE_TEXT,  /* value */
  LLS_NODE_PRINT, /* left */
  LLS_NODE_IF,    /* left: condition, or NULL for else; body; third: the next branch */
  LLS_NODE_FOR,   /* names: target, left: the iterable, right: condition, body,
                   * otherwise, flag: recursive */
  LLS_NODE_SET,   /* names: target, left: value */
  LLS_NODE_SET_BLOCK,  /* names: target, left: filters of SUBJECT, or NULL, body */
  LLS_NODE_FILTERED,   /* left: filters of SUBJECT, body */
  LLS_NODE_SCOPE,      /* body; names: SET, for with; flag: it spans the whole template */
  LLS_NODE_MACRO,      /* value: name; names: NAME with left: default or NULL; body */
  LLS_NODE_CALL_BLOCK, /* left: CALL, right: MACRO */
  LLS_NODE_DO,         /* left */
  LLS_NODE_BREAK,
  LLS_NODE_CONTINUE,
  LLS_NODE_UNKNOWN, /* value: the statement's name; fails when it is executed */
  /* expressions */
  LLS_NODE_LITERAL,  /* value */
  LLS_NODE_NAME,     /* value: name */
  LLS_NODE_LIST,     /* body: items; flag: a tuple */
  LLS_NODE_DICT,     /* body: ARGUMENT with left: key, right: value */
  LLS_NODE_MEMBER,   /* left, value: name */
  LLS_NODE_INDEX,    /* left, right */
  LLS_NODE_SLICE,    /* left, body: three ARGUMENT, left: bound or NULL */
  LLS_NODE_CHOICE,   /* left: condition, right, third or NULL */
  LLS_NODE_AND,      /* left, right */
  LLS_NODE_OR,       /* left, right */
  LLS_NODE_NOT,      /* left */
  LLS_NODE_NEGATE,   /* left */
  LLS_NODE_PLUS,     /* left */
  LLS_NODE_COMPARE,  /* left, body: ARGUMENT with operation, left */
  LLS_NODE_BINARY,   /* operation, left, right */
  LLS_NODE_FILTER,   /* value: name, function or NULL, left: value, body: arguments */
  LLS_NODE_TEST,     /* members as of FILTER */
  LLS_NODE_CALL,     /* left: the callee, body: arguments */
  LLS_NODE_SUBJECT,  /* the text of a filter statement */
  LLS_NODE_ARGUMENT, /* an element of other nodes; in calls: value: name if any, left,
                      * stars */
};

enum lls_operation {
  LLS_OP_EQUAL,
  LLS_OP_NOT_EQUAL,
  LLS_OP_LESS,
  LLS_OP_LESS_EQUAL,
  LLS_OP_GREATER,
  LLS_OP_GREATER_EQUAL,
  LLS_OP_IN,
  LLS_OP_NOT_IN,
  LLS_OP_ADD,
  LLS_OP_SUBTRACT,
  LLS_OP_MULTIPLY,
  LLS_OP_DIVIDE,
  LLS_OP_DIVIDE_FLOOR,
  LLS_OP_MODULO,
  LLS_OP_POWER,
  LLS_OP_CONCATENATE,
};

/* Special variables; a macro receives those that its body reads. */
enum lls_special {
  LLS_VARARGS = 1,
  LLS_KWARGS = 2,
  LLS_CALLER = 4,
};

struct lls_function;

struct lls_node {
  enum lls_node_kind kind;
  enum lls_operation operation;
  uint32_t offset;  /* offset in the source */
  uint8_t stars;    /* for an argument: 1 for *list, 2 for **mapping */
  uint8_t specials; /* for a macro: enum lls_special */
  bool flag;
  struct lls_value value; /* a literal; or a name, as a string */
  const struct lls_function *function;
  struct lls_node *left;
  struct lls_node *right;
  struct lls_node *third;
  struct lls_node *names;
  struct lls_node *body;
  struct lls_node *otherwise;
  struct lls_node *next;
};

/* Owns nodes and texts. */
struct lls_tree {
  char *source;
  struct lls_node *root; /* statements, chained */
  struct lls_tree_cell *cells;
  struct lls_error unknown; /* the first construct that fails when executed, or "" */
};

/* Returns a zeroed node, or NULL if out of memory. */
struct lls_node *lls_tree_node(struct lls_tree *tree, enum lls_node_kind kind,
                               size_t offset);
/* Returns a terminated copy of a text that lives as long as the tree, or NULL if out of
 * memory. */
const char *lls_tree_text(struct lls_tree *tree, const char *text, size_t length);
void lls_tree_free(struct lls_tree *tree);

#endif
