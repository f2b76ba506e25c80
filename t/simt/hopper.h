/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of kernels/cuda/hopper.cuh, emulated by hopper.cpp. */
#ifndef LLS_SIMT_HOPPER_H
#define LLS_SIMT_HOPPER_H

#include "simt.h"

namespace simt
{

/* d (64, n) = or += a b; a is described, or in registers. */
struct product_call {
  float *d;
  unsigned n;
  bool add, transposed; /* transposed: the rows of b are the summed dimension */
  uint64_t a, b;
  const uint32_t *a_registers; /* (4) or NULL */
};

void give_product(const product_call &, site);
void products_order(); /* wgmma.fence */
void products_commit();
void products_wait(unsigned groups_left, site);
void products_fence(); /* fence.proxy.async */

void mbarrier_init(size_t place, uint32_t arrivals);
void mbarrier_arrive(size_t place, site);
void mbarrier_wait(size_t place, uint32_t phase, site);
void named_barrier(unsigned id, unsigned threads, bool wait, site);

} // namespace simt

#endif
