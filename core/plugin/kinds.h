/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that exist once for each kind of plugin: under the name of the kind where the
 * code means that kind, and in a row where it does the same for all. Another kind is
 * added here, and where its own callbacks are called.
 */
#ifndef LLS_PLUGIN_KINDS_H
#define LLS_PLUGIN_KINDS_H

#include "core/plugin/loader.h"

#define LLS_KINDS 3

/* Members of a struct: scheduler, cache, predictor, and by_kind[] with the same. */
#define LLS_EACH_KIND_OF(TYPE)                                                           \
  union {                                                                                \
    struct {                                                                             \
      TYPE scheduler, cache, predictor;                                                  \
    };                                                                                   \
    TYPE by_kind[LLS_KINDS];                                                             \
  }

/* Pointer to the one of this kind: enum lls_plugin_kind. */
#define LLS_OF_KIND(OWNER, KIND) (&(OWNER)->by_kind[(KIND)-LLS_KIND_SCHEDULER])

/* Callbacks that plugins of every kind may have, with the same arguments; NULL: it has
 * not. */
struct lls_plugin_common {
  void (*destroy)(void *self);
  int (*reconfigure)(void *self, const void *params);
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
  void (*stats)(void *self, const struct lls_sink *);
};

struct lls_plugin_common lls_plugin_common(const struct lls_plugin_module *);

#endif
