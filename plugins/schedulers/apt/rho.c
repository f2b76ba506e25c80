/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hidden form costs: the slope of a step's extra time against the tokens restored,
 * least squares through the origin. The paper times it for half a minute before serving
 * (5.1); here the cost model is asked, which for a device that was profiled is the
 * same measurement. One that knows nothing yet is asked again in every plan, through the
 * cache's forms().
 */
#include "apt.h"

static const uint32_t most_tokens = 4096; /* 256 blocks of 16 */

int apt_calibrate(void *self, const struct lls_cost *cost)
{
  struct apt *a = self;
  struct lls_iteration_shape shape = {.size = sizeof shape};
  int64_t none = cost->iteration_ns(cost->context, &shape);
  double xy = 0, xx = 0;
  a->restore_ns = -1;
  for (uint32_t tokens = 16; tokens <= most_tokens; tokens += 16) {
    shape.hidden_tokens = tokens;
    int64_t with = cost->iteration_ns(cost->context, &shape);
    if (none == LLS_NEVER || with == LLS_NEVER)
      return 0;
    xy += (double)tokens * (double)(with - none);
    xx += (double)tokens * tokens;
  }
  a->restore_ns = xy > 0 ? xy / xx : -1;
  return 0;
}
