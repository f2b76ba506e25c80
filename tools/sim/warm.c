/* SPDX-License-Identifier: Apache-2.0 */
/* Runs first steps on a GPU; see warm.h. */
#include "tools/sim/warm.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "tools/profile/measure.h"

/* cached tokens of a decode, which mostly fill a block with the new one */
#define CONTEXT 15

static int run(struct lls_bench_engine *bench, uint32_t kind, uint32_t n,
               struct lls_shape_part part, struct lls_error *err)
{
  struct lls_shape shape = {.kind = kind, .n = n, .parts = calloc(n, sizeof part)};
  double ns;
  if (shape.parts == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the first steps");
  for (uint32_t i = 0; i < n; i++)
    shape.parts[i] = part;
  int rc = lls_bench_step(bench, &shape, &ns, err);
  free(shape.parts);
  return rc;
}

int lls_warm_up(struct lls_engine *e, struct lls_error *err)
{
  const struct lls_engine_caps *caps = lls_engine_caps(e);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(e);
  uint32_t blocks = pool->device_units / lls_all_units(pool);
  uint32_t room = lls_least_u32(caps->max_context, blocks * pool->block_tokens);
  uint32_t rows = lls_least_u32(caps->max_step_tokens, room);
  uint32_t sequences =
      lls_least_u32(caps->max_sequences, blocks / (CONTEXT / pool->block_tokens + 1));
  struct lls_bench_engine bench;
  if (!lls_engine_is_asynchronous(e) || room <= CONTEXT || sequences == 0)
    return 0;
  int rc = lls_bench_engine_init(&bench, e, err);
  if (rc < 0)
    return rc;
  rc = run(&bench, LLS_SHAPE_CHUNK, 1,
           (struct lls_shape_part){.tokens = rows, .drawn = true}, err);
  if (rc == 0)
    rc =
        run(&bench, LLS_SHAPE_DECODE, lls_least_u32(sequences, caps->max_step_tokens),
            (struct lls_shape_part){.tokens = 1, .context = CONTEXT, .drawn = true}, err);
  lls_bench_engine_free(&bench);
  return rc < 0 ? lls_fail_at(err, rc, "the first steps") : 0;
}
