/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA kernels on the host: what kernels/cuda/kernel.cuh needs when no CUDA compiler sees
 * it, so that the same .cu files run, slowly and strictly, in every test run.
 *
 * A launch runs its blocks one after the other, every other launch from the last to the
 * first; the threads of a block are fibers that run until they wait for others. Blocks of
 * a kernel that may begin early do so before the kernels ahead of it, which they then
 * wait for: what they read or write too soon is wrong (grid.cpp). What only a GPU can
 * show stays unproved: timing, memory ordering, the inline PTX (whose instructions are
 * carried out here as the PTX manual describes them), real alignment faults, what the
 * compiler makes of it.
 *
 * What is watched. Shared memory is reached through pointers that know who touched which
 * two bytes when, so these end a launch with cudaErrorLaunchFailure and a sentence
 * (simt::error):
 *   - a read of shared memory that nothing was written to in this block, or beyond its
 * end
 *   - two threads, one of them writing, at the same place with no barrier in between
 *     (__syncthreads; __syncwarp within a warp; a shuffle orders nothing)
 *   - a read of what an asynchronous copy has not been waited for
 *   - a barrier that a part of the block never reaches, or another one than the others
 *   - lanes of a warp at different shuffles, votes or matrix products
 * Threads of a warp run one by one between two such points, whatever they do on a GPU.
 * Products of warpgroups and their barriers: hopper.cpp.
 */
#ifndef LLS_SIMT_H
#define LLS_SIMT_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
  {
  }
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace simt
{

constexpr unsigned LANES = 32;
constexpr size_t L2_BYTES = (size_t)4 << 10; /* small, as tests' weights are */

/* ---- where a thread is ------------------------------------------------------------ */

struct place {
  dim3 thread, block, block_size, grid;
};
extern place at; /* of the fiber that runs */

/* The first thing that went wrong in a launch since the last reset; "" if nothing. */
const char *error();
void error_reset();
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* SIMT_FAULT_AFTER, or simt_fault_after: is it this grid's turn to fail? */
bool planned_fault();
/* Runs a grid now; false after a failure. The stream's turn, see stream.cpp. */
bool run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread);
void enqueue(cudaStream_t, std::function<bool()>);

/* Time passes on a stream, as events see it; from what was put there. */
void pass(cudaStream_t, double us);
/* A grid that may begin before kernels ahead of it on the stream have ended: the work
 * that is left when as much of it is done as can be before they have; grid.cpp. */
std::function<bool()> begin_early(dim3 grid, dim3 block, size_t shared_bytes,
                                  std::function<void()> thread);
void enqueue_early(cudaStream_t, std::function<std::function<bool()>()> begin);
/* An operation of a communicator, which waits for others: `begin` is called when its turn
 * has come, and what it gives is asked until it says true. Both are called with the
 * runtime locked. */
void enqueue_meeting(cudaStream_t, std::function<std::function<bool()>()> begin,
                     const void *of);
/* Is there a graph, not yet destroyed, with an operation of this communicator? */
bool held_by_graphs(const void *of);
void lock();
void unlock();
/* Makes a kernel known to the thread's GPU, as the first launch does. */
cudaError_t load(const void *kernel);
int current();                 /* the thread's GPU */
int architecture();            /* its sm_<number>: 90, if no test says otherwise */
bool is_current(cudaStream_t); /* of the thread's GPU? */
cudaError_t check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                         cudaStream_t);

struct site {
  const char *file;
  int line;
};

/* ---- waiting for others ----------------------------------------------------------- */

struct exchange { /* what a lane shows the others */
  unsigned char bytes[32];
};

void block_barrier(site);
void wait_for_earlier(site); /* kernels */
void warp_barrier(unsigned mask, site);
/* Waits for all lanes of the warp; what each of them gave, by lane. */
const exchange *warp_exchange(const void *mine, size_t bytes, site);
unsigned lane();

/* ---- shared memory ---------------------------------------------------------------- */

enum access { READ, WRITE, ATOMIC };

/* Address of bytes of the block's shared memory, after checking the access. */
void *shared_touch(size_t at, size_t bytes, access);
size_t shared_array(const void *key,
                    size_t bytes); /* the same for all threads of a block */
size_t shared_dynamic();
void async_copy(size_t to, const void *from, size_t bytes); /* from NULL: zeros */
void async_commit();
void async_wait(unsigned groups_left);

template <class T> class pointer;

template <class T> class reference
{
public:
  explicit reference(size_t place) : place_(place)
  {
  }
  operator T() const
  {
    T value;
    std::memcpy(&value, shared_touch(place_, sizeof(T), READ), sizeof(T));
    return value;
  }
  const reference &operator=(const T &value) const
  {
    std::memcpy(shared_touch(place_, sizeof(T), WRITE), &value, sizeof(T));
    return *this;
  }
  const reference &operator=(const reference &other) const
  {
    return *this = (T)other;
  }
  const reference &operator+=(const T &value) const
  {
    return *this = (T)((T) * this + value);
  }
  pointer<T> operator&() const
  {
    return pointer<T>(place_);
  }

private:
  size_t place_;
};

template <class T> class pointer
{
public:
  pointer() : place_(0)
  {
  }
  explicit pointer(size_t place) : place_(place)
  {
  }
  reference<T> operator[](size_t i) const
  {
    return reference<T>(place_ + i * sizeof(T));
  }
  reference<T> operator*() const
  {
    return reference<T>(place_);
  }
  pointer operator+(size_t n) const
  {
    return pointer(place_ + n * sizeof(T));
  }
  pointer operator-(size_t n) const
  {
    return pointer(place_ - n * sizeof(T));
  }
  pointer &operator+=(size_t n)
  {
    return *this = *this + n;
  }
  template <class U> pointer<U> cast() const
  {
    return pointer<U>(place_);
  }
  size_t place() const
  {
    return place_;
  }

private:
  size_t place_;
};

/* ---- launching -------------------------------------------------------------------- */

template <class... P, class... A>
int launch(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
           size_t shared_bytes, A... arguments)
{
  cudaError_t rc = check_launch((const void *)kernel, grid, block, shared_bytes, stream);
  if (rc != cudaSuccess)
    return rc;
  std::tuple<P...> given(arguments...);
  enqueue(stream, [=] {
    return run(grid, block, shared_bytes, [&] { std::apply(kernel, given); });
  });
  return cudaSuccess;
}

/* The same for a kernel that may begin before those ahead of it have ended. */
template <class... P, class... A>
int launch_early(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
                 size_t shared_bytes, A... arguments)
{
  cudaError_t rc = check_launch((const void *)kernel, grid, block, shared_bytes, stream);
  if (rc != cudaSuccess)
    return rc;
  std::tuple<P...> given(arguments...);
  enqueue_early(stream, [=] {
    return begin_early(grid, block, shared_bytes, [=] { std::apply(kernel, given); });
  });
  return cudaSuccess;
}

template <class T> T shuffle(T value, unsigned from, site s)
{
  static_assert(sizeof(T) <= sizeof(exchange), "a shuffle of too much");
  const exchange *all = warp_exchange(&value, sizeof value, s);
  std::memcpy(&value, all[from % LANES].bytes, sizeof value);
  return value;
}

void require_whole_warp(unsigned mask, site);

} // namespace simt

/* ---- CUDA's names ----------------------------------------------------------------- */

#define threadIdx (simt::at.thread)
#define blockIdx  (simt::at.block)
#define blockDim  (simt::at.block_size)
#define gridDim   (simt::at.grid)

#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SIMT_SITE)
{
  simt::block_barrier({file, line});
}

inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE)
{
  simt::warp_barrier(mask, {file, line});
}

/* Blocks run one after the other: what one wrote is there. */
inline void __threadfence()
{
}

template <class T> T __shfl_sync(unsigned mask, T value, unsigned from, SIMT_SITE)
{
  simt::require_whole_warp(mask, {file, line});
  return simt::shuffle(value, from, {file, line});
}

/* Among the `width` lanes that this one is of, which `from` counts. */
template <class T>
T __shfl_sync(unsigned mask, T value, unsigned from, unsigned width, SIMT_SITE)
{
  unsigned first = simt::lane() / width * width;
  return __shfl_sync(mask, value, first + from % width, file, line);
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, unsigned bits, SIMT_SITE)
{
  simt::require_whole_warp(mask, {file, line});
  return simt::shuffle(value, simt::lane() ^ bits, {file, line});
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, SIMT_SITE)
{
  simt::require_whole_warp(mask, {file, line});
  unsigned lane = simt::lane();
  return simt::shuffle(value, lane >= by ? lane - by : lane, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int yes, SIMT_SITE)
{
  simt::require_whole_warp(mask, {file, line});
  const simt::exchange *all = simt::warp_exchange(&yes, sizeof yes, {file, line});
  unsigned votes = 0;
  for (unsigned i = 0; i < simt::LANES; i++) {
    int vote;
    std::memcpy(&vote, all[i].bytes, sizeof vote);
    votes |= (vote != 0 ? 1u : 0u) << i;
  }
  return votes;
}

inline int __popc(unsigned x)
{
  return __builtin_popcount(x);
}

inline int __clz(int x)
{
  return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

inline int __ffs(int x)
{
  return __builtin_ffs(x);
}

template <class T> T atomicAdd(const simt::pointer<T> &to, T value)
{
  T old;
  void *data = simt::shared_touch(to.place(), sizeof(T), simt::ATOMIC);
  std::memcpy(&old, data, sizeof old);
  value = (T)(old + value);
  std::memcpy(data, &value, sizeof value);
  return old;
}

template <class T> T atomicAdd(T *to, T value)
{
  T old = *to;
  *to = (T)(old + value);
  return old;
}

/* Two operations, whatever the compiler would make of them. */
inline float __fadd_rn(float x, float y)
{
  return x + y;
}

inline float __fmul_rn(float x, float y)
{
  return x * y;
}

/* Byte i of the result is byte (selector >> 4 i) % 8 of x, then y. */
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; i++)
    out |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return out;
}

inline float __expf(float x)
{
  return std::exp(x);
}

/* 0 for what is divided by 2^126 and more, as the manual has it. */
inline float __fdividef(float x, float y)
{
  bool huge = std::fabs(y) > 8.507059e37f && !std::isinf(y);
  return huge ? 0 * x : x / y;
}

inline float rsqrtf(float x)
{
  return 1 / std::sqrt(x);
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

inline unsigned __float_as_uint(float x)
{
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float __uint_as_float(unsigned bits)
{
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

#endif
