/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a configuration to the options of device, engine and loop: what the daemon, the
 * simulator and the profiler do alike. What only one of them has (wake-ups, clocks,
 * progress) the caller sets afterwards.
 */
#ifndef LLS_ASSEMBLY_OPTIONS_H
#define LLS_ASSEMBLY_OPTIONS_H

#include "core/config/config.h"
#include "core/engine/engine.h"
#include "core/loop/loop.h"

/* Where nobody insists on a GPU an encoder gets the CPU, whose attention alone looks both
 * ways. */
enum lls_device_choice lls_device_choice_of(const struct lls_config *,
                                            const struct lls_model_config *);

struct lls_device_options lls_device_options_of(const struct lls_config *,
                                                const struct lls_model_config *);
/* model_path and the configuration's texts are borrowed. */
struct lls_engine_options lls_engine_options_of(const struct lls_config *,
                                                const struct lls_model_config *);
/* Everything but engine, log and wake; the model's eos tokens are borrowed. */
struct lls_loop_options lls_loop_options_of(const struct lls_config *,
                                            const struct lls_model_config *);

#endif
