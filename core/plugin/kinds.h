/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that exist once for each kind of plugin: named for code about that kind, and
 * as an array for code that treats all kinds alike. To add a kind, extend this file,
 * and call its callbacks where they apply.
 */
#ifndef LLS_PLUGIN_KINDS_H
#define LLS_PLUGIN_KINDS_H

#include "core/plugin/loader.h"

#define LLS_KINDS 4

/* Members of a struct: scheduler, cache, predictor, drafter; and by_kind[] with the same
 * memory. */
#define LLS_EACH_KIND_OF(TYPE)                                                           \
  union {                                                                                \
    struct {                                                                             \
      TYPE scheduler, cache, predictor, drafter;                                         \
    };                                                                                   \
    TYPE by_kind[LLS_KINDS];                                                             \
  }

/* Pointer to the member of this kind: enum lls_plugin_kind. */
#define LLS_OF_KIND(OWNER, KIND) (&(OWNER)->by_kind[(KIND)-LLS_KIND_SCHEDULER])

/* Callbacks that plugins of every kind may have, with the same arguments; NULL: the
 * plugin does not have it. */
struct lls_plugin_common {
  void (*destroy)(void *self);
  int (*reconfigure)(void *self, const void *params);
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
  void (*stats)(void *self, const struct lls_sink *);
};

struct lls_plugin_common lls_plugin_common(const struct lls_plugin_module *);

#endif
