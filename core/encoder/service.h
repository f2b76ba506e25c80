/* SPDX-License-Identifier: Apache-2.0 */
/* The core's side of include/llmserve/embed.h. */
#ifndef LLS_ENCODER_SERVICE_H
#define LLS_ENCODER_SERVICE_H

#include <llmserve/embed.h>

#include "core/base/error.h"
#include "core/device/devices.h"

/* The service that a plugin sees, and its own members; must live as long as the
 * plugin's host. */
struct lls_embed_service {
  struct lls_embed embed;
  const char *model_folder; /* folder of the served model, NULL = none */
  const struct lls_device_module *cpu;
};

/* cpu is the device that encoders run on. model_name and model_folder are borrowed; NULL
 * is fine. */
void lls_embed_service_init(struct lls_embed_service *,
                            const struct lls_device_module *cpu, const char *model_name,
                            const char *model_folder);

#endif
