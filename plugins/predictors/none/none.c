/* SPDX-License-Identifier: Apache-2.0 */
/* No prediction: every answer may be as long as max_new_tokens allows. */
#include <llmserve/predictor.h>

#include <errno.h>

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)host;
  (void)params;
  *self = NULL;
  return 0;
}

static void destroy(void *self)
{
  (void)self;
}

static uint32_t flags(void *self)
{
  (void)self;
  return 0;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  (void)self;
  (void)ticket;
  (void)prompt;
  (void)out;
  return -ENOENT;
}

static const struct lls_predictor_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .predict = predict,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_PREDICTOR,
    .id = "none",
    .version = "1.0",
    .description = "predicts nothing",
    .licence = "Apache-2.0",
    .vtable = &vtable,
};
