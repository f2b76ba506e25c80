/* SPDX-License-Identifier: Apache-2.0 */
/* What a predictor must have. */
#include "core/plugin/callbacks.h"

#define CALLBACK(MEMBER) LLS_CALLBACK(struct lls_predictor_vtable, MEMBER)
#define PAIR(A, B)       LLS_CALLBACK_PAIR(struct lls_predictor_vtable, A, B)

static const struct lls_callback required[] = {
    CALLBACK(create),
    CALLBACK(destroy),
    CALLBACK(flags),
    CALLBACK(predict),
};

static const struct lls_callback_pair pairs[] = {
    PAIR(export_state, import_state),
    PAIR(import_state, export_state),
};

const struct lls_vtable_rules lls_predictor_rules = {
    .name = "struct lls_predictor_vtable",
    .version_1_size = LLS_SIZE_UP_TO(struct lls_predictor_vtable, on_end),
    .size = sizeof(struct lls_predictor_vtable),
    .required = required,
    .n_required = sizeof required / sizeof *required,
    .pairs = pairs,
    .n_pairs = sizeof pairs / sizeof *pairs,
};
