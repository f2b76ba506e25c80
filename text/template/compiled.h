/* SPDX-License-Identifier: Apache-2.0 */
/* A chat template as model_template.c makes it and template.c renders it. */
#ifndef LLS_TEMPLATE_COMPILED_H
#define LLS_TEMPLATE_COMPILED_H

#include "text/template/template.h"
#include "text/template/tree.h"

/* One compiled source. If problem is not "", it cannot be rendered. */
struct lls_compiled {
  struct lls_tree tree;
  struct lls_error problem;
  struct lls_error warning;
};

struct lls_chat_template {
  struct lls_compiled main;
  struct lls_compiled tool_use; /* for messages with tools, if there is one */
  bool has_tool_use;
  json_t *constants; /* variables that every rendering has */
};

/* Compiles source into *out. `where` names its origin, for messages. Returns 0 or
 * -ENOMEM; any other fault becomes out->problem. */
int lls_compile(const char *source, const char *where, struct lls_compiled *out,
                struct lls_error *err);

#endif
