/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA kernels on the host: the functions that kernels/cuda/kernel.cuh needs without a
 * CUDA compiler, so that the same .cu files run, slowly but strictly checked, in every
 * test run.
 *
 * A launch runs its blocks one after the other, every other launch from the last to the
 * first; the threads of a block are fibers that run until they wait for each other.
 * Blocks of a kernel that may begin early run before the kernels ahead of it, up to
 * their wait: accesses that are too early then give wrong results (grid.cpp). Some
 * things only a GPU can show: timing, memory ordering, the inline PTX (whose
 * instructions are carried out here as the PTX manual describes them), real alignment
 * faults, what the compiler makes of it.
 *
 * Shared memory is accessed through pointers that record the last accesses to every two
 * bytes. So these errors end a launch with cudaErrorLaunchFailure and a message
 * (simt::error):
 *   - a read of shared memory that was not written in this block, or beyond its end
 *   - two threads, one of them writing, at the same place with no barrier in between
 *     (__syncthreads; __syncwarp within a warp; a shuffle orders nothing)
 *   - a read of data whose asynchronous copy has not been waited for
 *   - a barrier that some threads never reach, or threads at different barriers
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
extern place at; /* position of the running fiber */

/* The first error in a launch since the last reset; "" if none. */
const char *error();
void error_reset();
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* SIMT_FAULT_AFTER, or simt_fault_after: should this grid fail? */
bool planned_fault();
/* Runs a grid now; returns false after a failure. Called by the stream, see
 * stream.cpp. */
bool run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread);
void enqueue(cudaStream_t, std::function<bool()>);

/* Lets time pass on a stream, as events measure it. */
void pass(cudaStream_t, double us);
/* Begins a grid that may start before kernels ahead of it on the stream have ended, and
 * does as much of it as is possible before; returns the remaining work; grid.cpp. */
std::function<bool()> begin_early(dim3 grid, dim3 block, size_t shared_bytes,
                                  std::function<void()> thread);
void enqueue_early(cudaStream_t, std::function<std::function<bool()>()> begin);
/* Puts an operation of a communicator, which waits for other ranks, on the stream:
 * `begin` is called at its turn, and the function that it returns is polled until it
 * returns true. Both are called with the runtime locked. */
void enqueue_meeting(cudaStream_t, std::function<std::function<bool()>()> begin,
                     const void *of);
/* Is there a graph, not yet destroyed, with an operation of this communicator? */
bool held_by_graphs(const void *of);
void lock();
void unlock();
/* Loads a kernel on the thread's GPU, as its first launch does. */
cudaError_t load(const void *kernel);
int current();                 /* the thread's GPU */
int architecture();            /* its sm_<number>: 90, unless a test changes it */
bool is_current(cudaStream_t); /* of the thread's GPU? */
cudaError_t check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                         cudaStream_t);

struct site {
  const char *file;
  int line;
};

/* ---- waiting for others ----------------------------------------------------------- */

struct exchange { /* the value that a lane shows to the others */
  unsigned char bytes[32];
};

void block_barrier(site);
void wait_for_earlier(site); /* kernels */
void warp_barrier(unsigned mask, site);
/* Waits for all lanes of the warp; returns the value of each lane. */
const exchange *warp_exchange(const void *mine, size_t bytes, site);
unsigned lane();

/* ---- shared memory ---------------------------------------------------------------- */

enum access { READ, WRITE, ATOMIC };

/* Address of bytes of the block's shared memory, after checking the access. */
void *shared_touch(size_t at, size_t bytes, access);
size_t shared_array(const void *key,
                    size_t bytes); /* the same for all threads of a block */
size_t shared_dynamic();
void async_copy(size_t to, const void *from, size_t bytes); /* from NULL: copies zeros */
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

/* The same for a kernel that may begin before the ones ahead of it have ended. */
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

/* Blocks run one after the other, so a block's writes are already visible. */
inline void __threadfence()
{
}

template <class T> T __shfl_sync(unsigned mask, T value, unsigned from, SIMT_SITE)
{
  simt::require_whole_warp(mask, {file, line});
  return simt::shuffle(value, from, {file, line});
}

/* Operates among the `width` lanes that this one belongs to, numbered from 0. */
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

/* Two operations without contraction, whatever the compiler prefers. */
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

/* 0 for divisors of 2^126 and more, as in the manual. */
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
