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
  dim3 thread; /* of the block */
  site where{};
  std::function<bool()> ready; /* AT_CONDITION */
  unsigned exchanges = 0;      /* done so far: which of the two tables is next */
  std::vector<std::vector<async_piece>> groups;
  std::vector<async_piece> open_group;
};

struct warp {
  exchange table[2][LANES];
  unsigned arrived = 0;
  site where{};
  uint32_t epoch = 0;
};

/* The last, and by whom: MANY if by several. There is one for every two bytes, so it is
 * small: epochs are counted anew after 2^31 barriers, see count_anew. */
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

/* A block: all that is put aside while it waits for earlier kernels. */
struct block_state {
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<warp> warps;
  std::vector<unsigned char> memory = std::vector<unsigned char>(SHARED_MAX);
  std::vector<touched> record = std::vector<touched>(SHARED_MAX / GRANULE);
  std::vector<std::pair<const void *, size_t>> arrays;
  size_t shared_used = 0, dynamic_at = 0;
  unsigned n_threads = 0, running = 0, at_barrier = 0, done = 0;
  uint32_t epoch = 1, block_epoch = 1; /* now; when the block began */
  uint64_t moment = 0;                 /* one for each write, fence, ... */
  site barrier{};
  dim3 block, block_size, grid;
  const std::function<void()> *body = nullptr;
  bool early = false;  /* kernels ahead are still at work */
  bool waited = false; /* some thread has, for those */
};

struct machine : block_state { /* with the block that it has now */
  std::string error;
  bool failed = false;
  bool backwards = false; /* the last launch had its blocks from the last to the first */
  simt_context context;
};

extern machine m;

/* Waits until `ready`, which what others do makes true. */
void wait_for(std::function<bool()> ready, site where);
/* The machine's block, from its begin or from where it stopped, until its threads are
 * through or nobody can go on before earlier kernels have ended. */
void begin_block(dim3 block, dim3 block_size, dim3 grid, size_t dynamic_bytes,
                 const std::function<void()> *body, bool early);
void run_block();
void let_go_on();              /* those who wait for earlier kernels */
void give_up(const char *why); /* beside the threads; they say simt::fail */
/* Threads that stopped somewhere in it never go on. */
void abandon_block();
/* Fails if the bytes are not the block's. */
void check_bounds(size_t place, size_t bytes);

/* ---- hopper.cpp, told by simt.cpp -------------------------------------------------- */

void products_begin_block();
bool products_begun(); /* in this block: they can't be put aside */
void products_met();   /* all threads were at a barrier */
void products_end_thread();
/* May the thread that runs write here, or does a product still read it? */
void products_check_write(size_t place);

} // namespace simt

#endif
