/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device's insides, and its memory: counted, never allocated. */
#ifndef LLS_SIM_MEMORY_H
#define LLS_SIM_MEMORY_H

#include "kernels/sim/sim.h"

struct lls_pool {
  struct lls_pool_shape shape;
  uint64_t bytes; /* of the device */
};

struct lls_sim_device {
  struct lls_device base;
  struct lls_sim_options options;
  char name[64];
  int64_t now_ns;
  int64_t next_step_ns;               /* of the next step; below 0: what it costs */
  const struct lls_device_step *step; /* the one under way */
  double drawn;                       /* its rows that get logits */
  double before_ns, async_ns;         /* copies of the next step, by their order */
  double peer_ns;                     /* from other devices, beside it */
  double sends_until_ns;              /* to others, by the clock of those */
  struct lls_sim_totals totals;
};

static inline struct lls_sim_device *lls_sim(struct lls_device *device)
{
  return (struct lls_sim_device *)device;
}

/* struct lls_device_ops, see there. */
int lls_sim_memory(struct lls_device *, size_t *total, size_t *available);
int lls_sim_host_memory(struct lls_device *, size_t *total, size_t *available);
int lls_sim_alloc(struct lls_device *, enum lls_memory, size_t bytes, void **out);
void lls_sim_release(struct lls_device *, enum lls_memory, void *);
int lls_sim_weight_create(struct lls_device *, const struct lls_tensor_view *parts,
                          const struct lls_tensor_view *biases, size_t n_parts,
                          enum lls_weight_format, struct lls_weight **out,
                          struct lls_error *err);
void lls_sim_weight_destroy(struct lls_device *, struct lls_weight *);
size_t lls_sim_weight_bytes(const struct lls_weight *);
int lls_sim_vector_create(struct lls_device *, const struct lls_tensor_view *,
                          float **out, struct lls_error *err);
int lls_sim_table_create(struct lls_device *, const struct lls_tensor_view *, void **out,
                         struct lls_error *err);
void lls_sim_table_destroy(struct lls_device *, void *table);
int lls_sim_pool_create(struct lls_device *, const struct lls_pool_shape *,
                        struct lls_pool **out, struct lls_error *err);
void lls_sim_pool_destroy(struct lls_device *, struct lls_pool *);
int lls_sim_pool_copy(struct lls_device *, struct lls_pool *, const struct lls_copy *,
                      size_t n);
int lls_sim_pool_pull(struct lls_device *, struct lls_pool *, struct lls_device *from,
                      const struct lls_pool *from_pool, const struct lls_pull *,
                      size_t n);

#endif
