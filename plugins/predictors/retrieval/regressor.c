/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the file and computes the forward pass; see regressor.h. */
#include "plugins/predictors/retrieval/regressor.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 65536 /* inputs, hidden */

struct regressor {
  uint32_t inputs, hidden;
  double deviation;
  float numbers[]; /* coefficients in the order of the file */
};

static size_t count(uint32_t inputs, uint32_t hidden)
{
  return (size_t)hidden * inputs + 2 * (size_t)hidden + 1;
}

static bool finite_numbers(const float *numbers, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (!isfinite(numbers[i]))
      return false;
  return true;
}

static int read_file(FILE *file, const char *path, uint32_t inputs,
                     const struct lls_host *host, struct regressor **out)
{
  unsigned in = 0, hidden = 0;
  double deviation = 0;
  char line[128];
  if (fgets(line, sizeof line, file) == NULL ||
      sscanf(line, "llmserve-length 1 %u %u %lf", &in, &hidden, &deviation) != 3 ||
      in > MOST || hidden > MOST || hidden == 0 || !(deviation >= 0 && deviation < 100))
    return host->fail(host->context, -EINVAL,
                      "%s: not a length model of tools/predictor/train.py", path);
  if (in != inputs)
    return host->fail(host->context, -EINVAL,
                      "%s: is for vectors of %u numbers, the encoder makes %u: train it "
                      "for this encoder, or set fallback = median",
                      path, in, inputs);
  size_t n = count(in, hidden);
  struct regressor *r = malloc(sizeof *r + n * sizeof *r->numbers);
  if (r == NULL)
    return -ENOMEM;
  if (fread(r->numbers, sizeof *r->numbers, n, file) != n || fgetc(file) != EOF ||
      !finite_numbers(r->numbers, n)) {
    free(r);
    return host->fail(host->context, -EINVAL, "%s: should hold %zu finite numbers", path,
                      n);
  }
  r->inputs = in;
  r->hidden = hidden;
  r->deviation = deviation;
  *out = r;
  return 0;
}

int regressor_read(const char *path, uint32_t inputs, const struct lls_host *host,
                   struct regressor **out)
{
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return errno == ENOENT ? -ENOENT
                           : host->fail(host->context, -errno, "%s: cannot open: %s",
                                        path, strerror(errno));
  int rc = read_file(file, path, inputs, host, out);
  fclose(file);
  return rc;
}

void regressor_free(struct regressor *r)
{
  free(r);
}

double regressor_log_length(const struct regressor *r, const float *vector)
{
  const float *row = r->numbers, *bias = row + (size_t)r->hidden * r->inputs;
  const float *output = bias + r->hidden;
  double sum = output[r->hidden];
  for (uint32_t i = 0; i < r->hidden; i++, row += r->inputs) {
    float x = bias[i];
    for (uint32_t j = 0; j < r->inputs; j++)
      x += row[j] * vector[j];
    sum += x > 0 ? x * output[i] : 0;
  }
  return sum;
}

double regressor_deviation(const struct regressor *r)
{
  return r->deviation;
}
