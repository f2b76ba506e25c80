/*
 * example: predicts the length of recent answers. Keeps a moving average of the observed
 * lengths, for each tenant (some share one) and each power of two of the
 * prompt's length, since long prompts have other answers than short ones, with their mean
 * deviation:
 *
 *   deviation += weight (|length - mean| - deviation)
 *   mean      += weight (length - mean)
 *
 * If a client cuts off an answer that is already longer than the mean, the mean is too
 * small; a shorter one gives no information.
 *
 * In a reload the averages pass to the next generation, through export and import.
 */
#include <llmserve/predictor.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES       33 /* of prompts: the bits of their length */
#define TENANTS       64 /* with averages of their own */
#define STATE_VERSION 2

struct params {
  double weight;
};

struct average { /* tokens; mean 0 = nothing seen yet */
  double mean, deviation;
};

struct state {
  const struct lls_host *host;
  struct params params;
  struct average averages[TENANTS][CLASSES];
};

static struct average *average_of(struct state *s, const struct lls_prompt *prompt)
{
  uint32_t bits = 0;
  for (uint32_t n = prompt->n_tokens; n > 0; n /= 2)
    bits++;
  return &s->averages[prompt->tenant % TENANTS][bits];
}

static uint32_t tokens_of(double tokens, uint32_t most)
{
  double rounded = fmax(1, round(tokens));
  return rounded < most ? (uint32_t)rounded : most;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  struct state *s = self;
  const struct average *a = average_of(s, prompt);
  uint32_t most = prompt->max_new_tokens;
  (void)ticket;
  if (a->mean == 0)
    return -ENOENT; /* no prediction yet */
  *out = (struct lls_prediction){
      .length = tokens_of(a->mean, most),
      .low = tokens_of(a->mean - 1.6 * a->deviation, most), /* 80 % if they are normal */
      .high = tokens_of(a->mean + 1.6 * a->deviation, most),
      .confidence = 0.5f,
      .source = LLS_PREDICTED_HISTORY,
      .made_ns = s->host->now(s->host->context),
  };
  return 0;
}

static void learn(struct state *s, const struct lls_prompt *prompt, uint32_t length)
{
  struct average *a = average_of(s, prompt);
  if (a->mean == 0)
    a->mean = length;
  a->deviation += s->params.weight * (fabs(length - a->mean) - a->deviation);
  a->mean += s->params.weight * (length - a->mean);
}

static void observe(void *self, const struct lls_prompt *prompt, uint32_t length)
{
  learn(self, prompt, length);
}

static void on_end(void *self, const struct lls_prompt *prompt, uint32_t length,
                   uint32_t reason)
{
  struct state *s = self;
  if (reason == LLS_FINISH_CANCELLED && length > average_of(s, prompt)->mean)
    learn(s, prompt, length);
}

/* The answer outlived its prediction: predicts half as many tokens more. */
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
  *out = (struct lls_blob){.version = STATE_VERSION, .bytes = sizeof s->averages};
  out->data = malloc(out->bytes);
  if (out->data == NULL)
    return -ENOMEM;
  memcpy(out->data, s->averages, out->bytes);
  return 0;
}

static int import_state(void *self, const struct lls_blob *blob)
{
  struct state *s = self;
  if (blob->version != STATE_VERSION || blob->bytes != sizeof s->averages)
    return s->host->fail(s->host->context, -ENOTSUP, "state of another version (%u)",
                         blob->version);
  memcpy(s->averages, blob->data, blob->bytes);
  return 0;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_PREDICTOR_PREDICTS;
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
    .on_end = on_end,
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
    .description = "as long as answers to a tenant's prompts of that length have been",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
