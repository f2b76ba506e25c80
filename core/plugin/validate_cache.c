/* SPDX-License-Identifier: Apache-2.0 */
/* What a cache manager must have. */
#include "core/plugin/callbacks.h"

#define CALLBACK(MEMBER) LLS_CALLBACK(struct lls_cache_vtable, MEMBER)
#define PAIR(A, B)       LLS_CALLBACK_PAIR(struct lls_cache_vtable, A, B)

static const struct lls_callback required[] = {
    CALLBACK(create),        CALLBACK(destroy), CALLBACK(capacity), CALLBACK(need),
    CALLBACK(begin),         CALLBACK(mark),    CALLBACK(rollback), CALLBACK(commit),
    CALLBACK(reserve),       CALLBACK(preempt), CALLBACK(admit),    CALLBACK(release),
    CALLBACK(info),          CALLBACK(table),   CALLBACK(copies),   CALLBACK(computed),
    CALLBACK(preempt_modes), CALLBACK(audit),
};

/* Whoever starts a transfer hears of its end; what goes to the host comes back. */
static const struct lls_callback_pair pairs[] = {
    PAIR(offload, upload),
    PAIR(upload, offload),
    PAIR(offload, on_transfer),
    PAIR(export_state, import_state),
    PAIR(import_state, export_state),
};

const struct lls_vtable_rules lls_cache_rules = {
    .name = "struct lls_cache_vtable",
    .version_1_size = LLS_SIZE_UP_TO(struct lls_cache_vtable, import_state),
    .size = sizeof(struct lls_cache_vtable),
    .required = required,
    .n_required = sizeof required / sizeof *required,
    .pairs = pairs,
    .n_pairs = sizeof pairs / sizeof *pairs,
};
