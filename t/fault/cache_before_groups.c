/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache manager that was built before 0.1.0, when a block had a unit of K and one of V:
 * its vtable had no caps, and a function in their place. SIZE: what it says it is long;
 * ID: its name.
 */
#include "t/fault/fixture.h"

typedef void (*any_callback)(void);

static void nothing(void)
{
}

struct vtable_before_groups {
  uint32_t api_version, size;
  any_callback create, destroy, capacity, need, begin, mark, rollback, commit, reserve;
  any_callback preempt, admit, release, info, table, copies, computed, preempt_modes;
  any_callback audit, prefix, forms, offload, upload, on_transfer, stats, reconfigure;
  any_callback export_state, import_state;
  bool gives_back;
  any_callback kept, adopt;
  bool makes_int8;
};

/* Where this version's vtable is longer there is nothing. */
static const struct {
  struct vtable_before_groups before;
  any_callback later[16];
} vtable = {.before = {
                .api_version = 1,
                .size = SIZE,
                .create = nothing,
                .destroy = nothing,
                .capacity = nothing,
                .need = nothing,
                .begin = nothing,
                .mark = nothing,
                .rollback = nothing,
                .commit = nothing,
                .reserve = nothing,
                .preempt = nothing,
                .admit = nothing,
                .release = nothing,
                .info = nothing,
                .table = nothing,
                .copies = nothing,
                .computed = nothing,
                .preempt_modes = nothing,
                .audit = nothing,
                .prefix = nothing, /* where audit is now */
            }};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    FIXTURE_HEAD(LLS_KIND_CACHE),
    FIXTURE_TEXTS(ID),
    .vtable = &vtable.before,
};
