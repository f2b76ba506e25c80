/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths that are known beforehand: the request's own max_tokens, one number for all, or
 * the true lengths of a trace from a file (the oracle of the papers' comparisons).
 */
#include "lengths.h"

#include <llmserve/predictor.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct params {
  const char *length, *file;
};

struct fixed {
  const struct lls_host *host;
  uint32_t length; /* 0 = max_new_tokens of the request */
  bool oracle;
  struct lengths lengths; /* true lengths by label, if oracle */
};

static int read_length(struct fixed *f, const char *text)
{
  char *end;
  if (strcmp(text, "max_tokens") == 0)
    return 0;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (errno != 0 || *end != '\0' || *text < '0' || *text > '9' || value == 0 ||
      value > UINT32_MAX)
    return f->host->fail(f->host->context, -EINVAL,
                         "length = %s: expected max_tokens or a whole number from 1 up",
                         text);
  f->length = (uint32_t)value;
  return 0;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  const struct params *p = params;
  struct fixed *f = calloc(1, sizeof *f);
  if (f == NULL)
    return -ENOMEM;
  f->host = host;
  f->oracle = p->file != NULL && *p->file != '\0';
  int rc =
      f->oracle ? lengths_read(&f->lengths, p->file, host) : read_length(f, p->length);
  if (rc < 0)
    free(f);
  else
    *self = f;
  return rc;
}

static void destroy(void *self)
{
  struct fixed *f = self;
  lengths_free(&f->lengths);
  free(f);
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_PREDICTOR_PREDICTS;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  const struct fixed *f = self;
  uint32_t length = f->length > 0 ? f->length : prompt->max_new_tokens;
  (void)ticket;
  if (f->oracle && !lengths_find(&f->lengths, prompt->label, &length))
    return -ENOENT;
  if (length > prompt->max_new_tokens)
    length = prompt->max_new_tokens;
  *out = (struct lls_prediction){
      .length = length,
      .low = length,
      .high = length,
      .confidence = f->oracle ? 1 : 0,
      .source = f->oracle ? LLS_PREDICTED_ORACLE : LLS_PREDICTED_PRIOR,
      .made_ns = f->host->now(f->host->context),
  };
  return 0;
}

static const struct lls_param parameters[] = {
    {.name = "length",
     .type = LLS_TYPE_STRING,
     .offset = offsetof(struct params, length),
     .default_value = "max_tokens",
     .unit = "",
     .sentence = "max_tokens (the request's own limit) or one number for all requests"},
    LLS_PARAM_PATH(
        struct params, file, "",
        "CSV file of label,length lines: true lengths, by the client's request "
        "id; instead of length"),
};

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
    .id = "fixed",
    .version = "1.0",
    .description = "max_tokens, a number, or true lengths from a file (oracle)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
