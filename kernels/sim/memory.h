/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device's internals; its memory is counted, never allocated. */
#ifndef LLS_SIM_MEMORY_H
#define LLS_SIM_MEMORY_H

#include "kernels/sim/sim.h"

struct lls_pool {
  struct lls_pool_shape shape;
  uint64_t bytes; /* bytes of the device pool */
};

struct lls_sim_device {
  struct lls_device base;
  struct lls_sim_options options;
  char name[64];
  int64_t now_ns;
  /* duration of the next step; below 0: its computed cost */
  int64_t next_step_ns;
  const struct lls_device_step *step; /* the step under way */
  double drawn;                       /* rows of it that get logits */
  /* time of copies of the next step, by their order */
  double before_ns, async_ns;
  /* time of pulls from other devices, concurrent with the step */
  double peer_ns;
  /* end of pulls from this device, by the clock of the pulling devices */
  double sends_until_ns;
  struct lls_sim_totals totals;
};

static inline struct lls_sim_device *lls_sim(struct lls_device *device)
{
  return (struct lls_sim_device *)device;
}

/* Members of struct lls_device_ops; see there. */
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
