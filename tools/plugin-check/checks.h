/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks, in the order in which they run. Each runs in a separate process.
 */
#ifndef CHECK_CHECKS_H
#define CHECK_CHECKS_H

#include "tools/plugin-check/scene.h"

struct check {
  const char *name;
  void (*run)(const struct subject *, struct findings *);
};

/* The first check: if it finds anything, no other check runs. */
void check_loads(const struct subject *, struct findings *);

/* checks_static.c: checks without running the plugin */
void check_name(const struct subject *, struct findings *);
void check_symbols(const struct subject *, struct findings *);
void check_parameters(const struct subject *, struct findings *);

/* checks_groups.c: a cache manager over all kinds of groups */
void check_groups(const struct subject *, struct findings *);

/* checks_load.c: under load */
void check_alone(const struct subject *, struct findings *);
void check_fuzz(const struct subject *, struct findings *);
void check_full(const struct subject *, struct findings *);
void check_prefixes(const struct subject *, struct findings *);
void check_window(const struct subject *, struct findings *);
void check_cancel(const struct subject *, struct findings *);
void check_abandon(const struct subject *, struct findings *);

/* checks_draft.c: a drafter alone */
void check_drafts(const struct subject *, struct findings *);

/* checks_move.c: while requests move */
void check_transfers(const struct subject *, struct findings *);
void check_instances(const struct subject *, struct findings *);

/* checks_repeat.c: the plugin runs more than once */
void check_determinism(const struct subject *, struct findings *);
void check_side_by_side(const struct subject *, struct findings *);
void check_leaks(const struct subject *, struct findings *);

/* checks_reload.c: the plugin is changed while it runs */
void check_reload(const struct subject *, struct findings *);
void check_exchange(const struct subject *, struct findings *);
void check_reconfigure(const struct subject *, struct findings *);
void check_blobs(const struct subject *, struct findings *);

/* checks_time.c */
void check_time(const struct subject *, struct findings *);

#endif
