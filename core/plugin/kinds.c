/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of policies: the callbacks that each kind must have (callbacks.h), and
 * those that all kinds have in common.
 */
#include "core/plugin/kinds.h"

#include "core/plugin/callbacks.h"

#include <assert.h>

static_assert(LLS_KINDS == LLS_KIND_DRAFTER - LLS_KIND_SCHEDULER + 1, "a row for each");

/* ---- a scheduler ------------------------------------------------------------------- */

#define SCHEDULER(MEMBER)    LLS_CALLBACK(struct lls_scheduler_vtable, MEMBER)
#define SCHEDULER_PAIR(A, B) LLS_CALLBACK_PAIR(struct lls_scheduler_vtable, A, B)

static const struct lls_callback scheduler_required[] = {
    SCHEDULER(create),
    SCHEDULER(destroy),
    SCHEDULER(caps),
    SCHEDULER(plan),
};

static const struct lls_callback_pair scheduler_pairs[] = {
    SCHEDULER_PAIR(export_state, import_state),
    SCHEDULER_PAIR(import_state, export_state),
};

const struct lls_vtable_rules lls_scheduler_rules = {
    .name = "struct lls_scheduler_vtable",
    .version_1_size = LLS_SIZE_UP_TO(struct lls_scheduler_vtable, on_session_end),
    .size = sizeof(struct lls_scheduler_vtable),
    .required = scheduler_required,
    .n_required = sizeof scheduler_required / sizeof *scheduler_required,
    .pairs = scheduler_pairs,
    .n_pairs = sizeof scheduler_pairs / sizeof *scheduler_pairs,
};

/* ---- a cache manager --------------------------------------------------------------- */

#define CACHE(MEMBER)    LLS_CALLBACK(struct lls_cache_vtable, MEMBER)
#define CACHE_PAIR(A, B) LLS_CALLBACK_PAIR(struct lls_cache_vtable, A, B)

static const struct lls_callback cache_required[] = {
    CACHE(caps),     CACHE(create),        CACHE(destroy), CACHE(capacity),
    CACHE(need),     CACHE(begin),         CACHE(mark),    CACHE(rollback),
    CACHE(commit),   CACHE(reserve),       CACHE(preempt), CACHE(admit),
    CACHE(release),  CACHE(info),          CACHE(table),   CACHE(copies),
    CACHE(computed), CACHE(preempt_modes), CACHE(audit),
};

/* A manager that starts transfers must handle their end; one that moves to the host
 * must move back. */
static const struct lls_callback_pair cache_pairs[] = {
    CACHE_PAIR(offload, upload),
    CACHE_PAIR(upload, offload),
    CACHE_PAIR(offload, on_transfer),
    CACHE_PAIR(export_state, import_state),
    CACHE_PAIR(import_state, export_state),
    CACHE_PAIR(kept, adopt),
    CACHE_PAIR(adopt, kept),
    CACHE_PAIR(retain, fetch),
    CACHE_PAIR(fetch, retain),
};

const struct lls_vtable_rules lls_cache_rules = {
    .name = "struct lls_cache_vtable",
    .version_1_size = LLS_SIZE_UP_TO(struct lls_cache_vtable, wants_step),
    .size = sizeof(struct lls_cache_vtable),
    .required = cache_required,
    .n_required = sizeof cache_required / sizeof *cache_required,
    .pairs = cache_pairs,
    .n_pairs = sizeof cache_pairs / sizeof *cache_pairs,
};

/* ---- a predictor ------------------------------------------------------------------- */

#define PREDICTOR(MEMBER)    LLS_CALLBACK(struct lls_predictor_vtable, MEMBER)
#define PREDICTOR_PAIR(A, B) LLS_CALLBACK_PAIR(struct lls_predictor_vtable, A, B)

static const struct lls_callback predictor_required[] = {
    PREDICTOR(create),
    PREDICTOR(destroy),
    PREDICTOR(flags),
    PREDICTOR(predict),
};

static const struct lls_callback_pair predictor_pairs[] = {
    PREDICTOR_PAIR(export_state, import_state),
    PREDICTOR_PAIR(import_state, export_state),
};

const struct lls_vtable_rules lls_predictor_rules = {
    .name = "struct lls_predictor_vtable",
    .version_1_size = LLS_SIZE_UP_TO(struct lls_predictor_vtable, on_end),
    .size = sizeof(struct lls_predictor_vtable),
    .required = predictor_required,
    .n_required = sizeof predictor_required / sizeof *predictor_required,
    .pairs = predictor_pairs,
    .n_pairs = sizeof predictor_pairs / sizeof *predictor_pairs,
};

/* ---- a drafter --------------------------------------------------------------------- */

#define DRAFTER(MEMBER)    LLS_CALLBACK(struct lls_drafter_vtable, MEMBER)
#define DRAFTER_PAIR(A, B) LLS_CALLBACK_PAIR(struct lls_drafter_vtable, A, B)

static const struct lls_callback drafter_required[] = {
    DRAFTER(create),
    DRAFTER(destroy),
    DRAFTER(flags),
    DRAFTER(draft),
};

static const struct lls_callback_pair drafter_pairs[] = {
    DRAFTER_PAIR(export_state, import_state),
    DRAFTER_PAIR(import_state, export_state),
};

const struct lls_vtable_rules lls_drafter_rules = {
    .name = "struct lls_drafter_vtable",
    .version_1_size = LLS_SIZE_UP_TO(struct lls_drafter_vtable, wants),
    .size = sizeof(struct lls_drafter_vtable),
    .required = drafter_required,
    .n_required = sizeof drafter_required / sizeof *drafter_required,
    .pairs = drafter_pairs,
    .n_pairs = sizeof drafter_pairs / sizeof *drafter_pairs,
};

/* ---- common to all kinds ----------------------------------------------------------- */

#define COMMON(VTABLE)                                                                   \
  ((struct lls_plugin_common){.destroy = (VTABLE)->destroy,                              \
                              .reconfigure = (VTABLE)->reconfigure,                      \
                              .export_state = (VTABLE)->export_state,                    \
                              .import_state = (VTABLE)->import_state,                    \
                              .stats = (VTABLE)->stats})

struct lls_plugin_common lls_plugin_common(const struct lls_plugin_module *m)
{
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    return COMMON(&m->scheduler);
  case LLS_KIND_CACHE:
    return COMMON(&m->cache);
  case LLS_KIND_DRAFTER:
    return COMMON(&m->drafter);
  default:
    return COMMON(&m->predictor);
  }
}
