/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of the emulator's blocks, for its own files: simt.cpp, grid.cpp that runs
 * them, and hopper.cpp with the instructions that only some kernels have. */
#ifndef LLS_SIMT_MACHINE_H
#define LLS_SIMT_MACHINE_H

#include "context.h"
#include "simt.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace simt
{

constexpr size_t SHARED_MAX = 227 << 10; /* a block's on sm_90 */
constexpr size_t GRANULE = 2;
constexpr unsigned MANY = 0xffff;

enum state { READY, AT_BARRIER, AT_WARP, AT_CONDITION, AT_EARLIER, DONE };

struct async_piece {
  size_t to, bytes;
  unsigned char data[16];
};

struct fiber {
  simt_context context;
  char *stack = nullptr;
  enum state state = DONE;
  dim3 thread; /* position in the block */
  site where{};
  std::function<bool()> ready; /* AT_CONDITION */
  /* number so far; its parity selects one of the two tables */
  unsigned exchanges = 0;
  std::vector<std::vector<async_piece>> groups;
  std::vector<async_piece> open_group;
};

struct warp {
  exchange table[2][LANES];
  unsigned arrived = 0;
  site where{};
  uint32_t epoch = 0;
};

/* The last access, and by which thread: MANY if by several. There is one for every two
 * bytes, so it is small: epochs are renumbered after 2^31 barriers, see count_anew. */
struct touch {
  uint32_t epoch = 0, warp_epoch = 0;
  uint16_t thread = 0, warp = 0;
};

struct touched { /* two bytes of shared memory */
  touch write, read;
  bool atomically = false; /* written */
  bool pending = false;    /* by a copy not waited for */
  uint64_t moment = 0;     /* of the write, see hopper.cpp */
};

/* A block: everything that is set aside while it waits for earlier kernels. */
struct block_state {
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<warp> warps;
  std::vector<unsigned char> memory = std::vector<unsigned char>(SHARED_MAX);
  std::vector<touched> record = std::vector<touched>(SHARED_MAX / GRANULE);
  std::vector<std::pair<const void *, size_t>> arrays;
  size_t shared_used = 0, dynamic_at = 0;
  unsigned n_threads = 0, running = 0, at_barrier = 0, done = 0;
  /* the present epoch; the first epoch of the block */
  uint32_t epoch = 1, block_epoch = 1;
  uint64_t moment = 0; /* incremented by each write, fence, ... */
  site barrier{};
  dim3 block, block_size, grid;
  const std::function<void()> *body = nullptr;
  bool early = false;  /* kernels ahead are still at work */
  bool waited = false; /* some thread has waited for them */
};

struct machine : block_state { /* the machine, with its present block */
  std::string error;
  bool failed = false;
  bool backwards = false; /* the last launch ran its blocks from the last to the first */
  simt_context context;
};

extern machine m;

/* Waits until `ready` returns true, which other threads cause. */
void wait_for(std::function<bool()> ready, site where);
/* Runs the machine's block, from its beginning or from where it stopped, until its
 * threads have ended or none can continue before earlier kernels have ended. */
void begin_block(dim3 block, dim3 block_size, dim3 grid, size_t dynamic_bytes,
                 const std::function<void()> *body, bool early);
void run_block();
void let_go_on();              /* resumes threads that wait for earlier kernels */
void give_up(const char *why); /* for errors outside of threads, which call simt::fail */
/* Ends the block; threads suspended in it never resume. */
void abandon_block();
/* Fails if the bytes are not within the block's shared memory. */
void check_bounds(size_t place, size_t bytes);

/* ---- hopper.cpp, told by simt.cpp -------------------------------------------------- */

void products_begin_block();
/* has this block begun products? Such blocks cannot be set aside */
bool products_begun();
void products_met(); /* called when all threads were at a barrier */
void products_end_thread();
/* Fails if the running thread writes here while a product still reads it. */
void products_check_write(size_t place);

} // namespace simt

#endif
