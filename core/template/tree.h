/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a template. All nodes have one shape, and the comment beside each kind says
 * which members it uses; lists are chained by next. Nodes live and die with their tree.
 */
#ifndef LLS_TEMPLATE_TREE_H
#define LLS_TEMPLATE_TREE_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Literals are shared by all threads that render, and so are their reference counts. */
#if !JSON_HAVE_ATOMIC_BUILTINS && !JSON_HAVE_SYNC_BUILTINS
#error "jansson without atomic reference counts"
#endif

enum lls_node_kind {
  /* statements */
  LLS_NODE_TEXT,  /* value */
  LLS_NODE_PRINT, /* left */
  LLS_NODE_IF,    /* left: condition, body, otherwise */
  LLS_NODE_FOR,   /* names, left: what to go through, right: condition, body, otherwise */
  LLS_NODE_SET,   /* name, member or NULL, left: value */
  LLS_NODE_SET_BLOCK, /* name, body */
  LLS_NODE_GROUP,     /* body */
  LLS_NODE_BREAK,
  LLS_NODE_CONTINUE,
  /* expressions */
  LLS_NODE_LITERAL,  /* value */
  LLS_NODE_NAME,     /* name */
  LLS_NODE_LIST,     /* body: items */
  LLS_NODE_DICT,     /* body: ARGUMENT with left: key, right: value */
  LLS_NODE_MEMBER,   /* left, name */
  LLS_NODE_INDEX,    /* left, right */
  LLS_NODE_SLICE,    /* left, body: three ARGUMENT, left: bound or NULL */
  LLS_NODE_CHOICE,   /* left: condition, right, third or NULL */
  LLS_NODE_AND,      /* left, right */
  LLS_NODE_OR,       /* left, right */
  LLS_NODE_NOT,      /* left */
  LLS_NODE_NEGATE,   /* left */
  LLS_NODE_COMPARE,  /* left, body: ARGUMENT with operation, left */
  LLS_NODE_BINARY,   /* operation, left, right */
  LLS_NODE_FILTER,   /* function, left: value, body: arguments */
  LLS_NODE_TEST,     /* function, left: value, body: arguments */
  LLS_NODE_METHOD,   /* function, left: object, body: arguments */
  LLS_NODE_CALL,     /* function, body: arguments */
  LLS_NODE_ARGUMENT, /* part of others; in calls: position or name, left */
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
  LLS_OP_DIVIDE_FLOOR,
  LLS_OP_MODULO,
  LLS_OP_CONCATENATE,
};

struct lls_function;

struct lls_node {
  enum lls_node_kind kind;
  enum lls_operation operation;
  size_t offset; /* in the source */
  size_t position;
  const char *name;
  const char *member;
  json_t *value;
  const struct lls_function *function;
  struct lls_node *left;
  struct lls_node *right;
  struct lls_node *third;
  struct lls_node *names; /* NAME, chained */
  struct lls_node *body;
  struct lls_node *otherwise;
  struct lls_node *next;
};

/* Owner of nodes and names. */
struct lls_tree {
  char *source;
  struct lls_node *root; /* statements, chained */
  struct lls_tree_cell *cells;
};

/* A zeroed node, or NULL without memory. */
struct lls_node *lls_tree_node(struct lls_tree *tree, enum lls_node_kind kind,
                               size_t offset);
/* A terminated copy of a name, or NULL without memory. */
const char *lls_tree_name(struct lls_tree *tree, const char *text, size_t length);
void lls_tree_free(struct lls_tree *tree);

#endif
