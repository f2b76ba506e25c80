/*
 * example: answers will be as long as answers have been of late. A moving average of the
 * lengths observed, one for each power of two of the prompt's length, since long prompts
 * have other answers than short ones:
 *
 *   mean += weight (length - mean)
 *
 * What was learnt goes on to the next generation in a reload, through export and import.
 */
#include <llmserve/predictor.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES       33 /* of prompts: the bits of their length */
#define STATE_VERSION 1

struct params {
  double weight;
};

struct state {
  const struct lls_host *host;
  struct params params;
  double mean[CLASSES]; /* tokens, 0 = nothing seen yet */
};

static uint32_t class_of(const struct lls_prompt *prompt)
{
  uint32_t bits = 0;
  for (uint32_t n = prompt->n_tokens; n > 0; n /= 2)
    bits++;
  return bits;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  const struct state *s = self;
  double mean = s->mean[class_of(prompt)];
  (void)ticket;
  if (mean == 0)
    return -ENOENT; /* can't tell */
  uint32_t length = mean < 1 ? 1 : (uint32_t)(mean + 0.5);
  if (length > prompt->max_new_tokens)
    length = prompt->max_new_tokens;
  *out = (struct lls_prediction){
      .length = length,
      .low = length,
      .high = length,
      .confidence = 0.5f,
      .source = LLS_PREDICTED_HISTORY,
      .made_ns = s->host->now(s->host->context),
  };
  return 0;
}

static void observe(void *self, const struct lls_prompt *prompt, uint32_t length)
{
  struct state *s = self;
  double *mean = &s->mean[class_of(prompt)];
  *mean = *mean == 0 ? length : *mean + s->params.weight * (length - *mean);
}

/* It ran longer than predicted: half as long again. */
static int overrun(void *self, const struct lls_request *r, struct lls_prediction *out)
{
  const struct state *s = self;
  uint64_t length = r->generated_tokens + r->generated_tokens / 2 + 1;
  uint32_t most = r->max_new_tokens;
  *out = r->prediction;
  out->length = length < most ? (uint32_t)length : most;
  out->low = out->high = out->length;
  out->confidence = 0.1f;
  out->source = LLS_PREDICTED_HISTORY;
  out->made_ns = s->host->now(s->host->context);
  return 0;
}

static int export_state(void *self, struct lls_blob *out)
{
  const struct state *s = self;
  *out = (struct lls_blob){.version = STATE_VERSION, .bytes = sizeof s->mean};
  out->data = malloc(out->bytes);
  if (out->data == NULL)
    return -ENOMEM;
  memcpy(out->data, s->mean, out->bytes);
  return 0;
}

static int import_state(void *self, const struct lls_blob *blob)
{
  struct state *s = self;
  if (blob->version != STATE_VERSION || blob->bytes != sizeof s->mean)
    return s->host->fail(s->host->context, -ENOTSUP, "state of another version (%u)",
                         blob->version);
  memcpy(s->mean, blob->data, blob->bytes);
  return 0;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_PREDICTOR_PREDICTS | LLS_PREDICTOR_DETERMINISTIC;
}

static int reconfigure(void *self, const void *params)
{
  ((struct state *)self)->params = *(const struct params *)params;
  return 0;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct state *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->host = host;
  *self = s;
  return reconfigure(s, params);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_FLOAT(struct params, weight, "0.05", 0.001, 1, "",
                    "of the newest answer in the average", .flags = LLS_PARAM_RELOADABLE),
};

static const struct lls_predictor_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .flags = flags,
    .predict = predict,
    .overrun = overrun,
    .observe = observe,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_PREDICTOR,
    .id = "example",
    .version = "1.0",
    .description = "as long as answers to prompts of that length have been of late",
    .licence = "Apache-2.0",
    .params = parameters,
    .n_params = sizeof parameters / sizeof *parameters,
    .params_size = sizeof(struct params),
    .vtable = &vtable,
};
