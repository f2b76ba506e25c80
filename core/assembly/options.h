/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the options of device, engine and loop from a configuration, alike for the
 * daemon, the simulator and the profiler. The caller then sets its own options (wake-ups,
 * clocks, progress).
 */
#ifndef LLS_ASSEMBLY_OPTIONS_H
#define LLS_ASSEMBLY_OPTIONS_H

#include "core/config/config.h"
#include "core/engine/engine.h"
#include "core/loop/loop.h"

/* Returns the device choice: with device = auto an encoder gets the CPU, whose
 * attention alone is bidirectional. */
enum lls_device_choice lls_device_choice_of(const struct lls_config *,
                                            const struct lls_model_config *);

/* Returns true if the configuration has a drafter; else no memory is allocated for
 * guesses. */
bool lls_config_drafts(const struct lls_config *);

struct lls_device_options lls_device_options_of(const struct lls_config *,
                                                const struct lls_model_config *);
/* Borrows model_path and the configuration's strings. */
struct lls_engine_options lls_engine_options_of(const struct lls_config *,
                                                const struct lls_model_config *);
/* Fills all options but engine, log and wake. Borrows the model's eos tokens. */
struct lls_loop_options lls_loop_options_of(const struct lls_config *,
                                            const struct lls_model_config *);

#endif
