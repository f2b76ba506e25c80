/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator's CUDA runtime. A stream is a list of operations, and none is executed
 * before a call waits for it. So a host buffer that is refilled too early, a missing
 * event between two streams, or a result read without waiting gives wrong results,
 * where a GPU would hide the error nine times in ten.
 *
 * Memory is malloc's, so that the address sanitizer sees accesses beyond it; what a copy
 * names must be memory that was allocated here.
 *
 * Tensor parallel ranks are threads, each with streams of its own: every call takes one
 * lock, and a stream stops at an operation that waits for other ranks
 * (simt::enqueue_meeting) until another call waits for it or polls it (cudaEventQuery).
 *
 * Errors that a GPU may hide are detected: each host thread has a GPU of its own choice
 * (of SIMT_GPUS=n), 0 at first, on which whatever it makes is made (simt_contexts says
 * where), and kernels go to streams of that one only; while a thread captures a stream
 * it allocates nothing and launches no kernel that was not loaded before.
 *
 * For benchmarks of the host's work (simt_only_host) nothing is carried out, and memory
 * is zeros.
 */
#include "simt.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <time.h>
#include <vector>

using work = std::function<bool()>;

/* An operation. At its turn `begin` returns a function that tells whether it may be
 * done yet. `of` is the object that it belongs to, such as a communicator. `early`
 * returns `run`: it may be called while the kernels directly ahead are at work. */
struct thing {
  work run;
  std::function<work()> begin = nullptr;
  work ready = nullptr;
  const void *of = nullptr;
  std::function<work()> early = nullptr;
  bool kernel = false;
};

struct simt_event { /* recorded; complete once `stream` has done `after` operations */
  int gpu;
  simt_stream *stream = nullptr;
  uint64_t after = 0;
  std::shared_ptr<double> us = nullptr; /* its time on the stream; NULL: untimed */
};

struct simt_stream {
  int gpu;
  std::deque<thing> waiting;
  uint64_t given = 0, done = 0;
  double us = 0; /* time of the executed operations, as far as it was set */
  bool capturing = false;
  std::vector<thing> captured;
};

struct simt_graph {
  std::vector<thing> steps;
};

namespace
{

/* most kernels that may have begun after the one at work */
constexpr size_t EARLY_KERNELS = 3;
constexpr size_t TOTAL = (size_t)512 << 20; /* bytes that the device has */

long from_environment(const char *name)
{
  const char *after = getenv(name);
  return after != nullptr ? atol(after) : -1;
}

struct allocation {
  size_t bytes;
  bool device;
};

std::recursive_mutex runtime;
using locked = std::lock_guard<std::recursive_mutex>;

std::map<const char *, allocation> allocations;
size_t used;
thread_local cudaError_t last_error = cudaSuccess; /* each host thread has its own */
thread_local int current_gpu;
thread_local unsigned captures; /* streams that the thread captures */
int gpus = (int)std::max(1L, from_environment("SIMT_GPUS")), reach, direct_copies;
unsigned contexts; /* a bit for each GPU that something was made on */
std::set<std::pair<int, const void *>> loaded; /* kernels, of each GPU */
std::set<const simt_graph *> graphs;           /* that are not destroyed */
unsigned graph_launches;
bool only_host;
int version = 90;               /* number of the architecture */
int64_t idle_ns, idle_since_ns; /* 0: it is not */

int64_t host_ns()
{
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Called when all work has been waited for. */
void idle_begins()
{
  if (only_host && idle_since_ns == 0)
    idle_since_ns = host_ns();
}

void idle_ends()
{
  if (idle_since_ns != 0)
    idle_ns += host_ns() - idle_since_ns;
  idle_since_ns = 0;
}

cudaError_t failed(cudaError_t rc)
{
  if (rc != cudaSuccess && last_error == cudaSuccess)
    last_error = rc;
  return rc;
}

/* Most calls make a context on the thread's GPU, if there is none yet. */
void need_context()
{
  contexts |= 1u << current_gpu;
}

/* Waits for the device or loads code: not while a stream is being captured. */
bool is_capturing(const char *what)
{
  if (captures > 0)
    fprintf(stderr, "simt: %s while a stream is being captured\n", what);
  return captures > 0;
}

void give(simt_stream *s, thing t)
{
  if (s->capturing) {
    s->captured.push_back(std::move(t));
    return;
  }
  s->waiting.push_back(std::move(t));
  s->given++;
}

void give(simt_stream *s, work w)
{
  give(s, thing{std::move(w)});
}

/* Begins the kernel at its turn, and following kernels that need not wait for its end,
 * up to the first other operation. */
void begin_kernels(simt_stream *s)
{
  for (size_t i = 0; i < s->waiting.size() && i <= EARLY_KERNELS; i++) {
    thing &t = s->waiting[i];
    if (!t.kernel || (i > 0 && t.early == nullptr))
      break;
    if (t.early != nullptr && t.run == nullptr)
      t.run = t.early();
  }
}

/* Executes as far as possible; returns true once `done` operations are done. */
bool advance(simt_stream *s, uint64_t done)
{
  while (s->done < done && !s->waiting.empty()) {
    thing &next = s->waiting.front();
    if (!only_host)
      begin_kernels(s);
    if (next.begin != nullptr && next.ready == nullptr)
      next.ready = next.begin();
    if (next.ready != nullptr && !next.ready())
      return false;
    work run = std::move(next.run);
    s->waiting.pop_front();
    s->done++;
    if (run != nullptr && !only_host && !run())
      failed(cudaErrorLaunchFailure);
  }
  return true;
}

/* The same, but waits for other ranks. */
void finish(simt_stream *s, uint64_t done)
{
  for (bool over = false; !over;) {
    {
      locked l(runtime);
      over = advance(s, done);
    }
    if (!over)
      sched_yield();
  }
}

cudaError_t state()
{
  return simt::error()[0] == '\0' ? cudaSuccess : cudaErrorLaunchFailure;
}

cudaError_t allocate(void **out, size_t bytes, bool device)
{
  need_context();
  if (is_capturing("an allocation"))
    return failed(cudaErrorStreamCaptureUnsupported);
  if (only_host) {
    *out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    allocations[(const char *)*out] = {bytes, device};
    return *out != MAP_FAILED ? cudaSuccess : cudaErrorMemoryAllocation;
  }
  if (device && bytes > TOTAL - used)
    return failed(cudaErrorMemoryAllocation);
  size_t rounded = (bytes + 255) & ~(size_t)255;
  void *data = nullptr;
  if (posix_memalign(&data, 256, rounded + (rounded == 0)) != 0)
    return failed(cudaErrorMemoryAllocation);
  memset(data, 0xff, rounded); /* NaN in every type */
  allocations[(const char *)data] = {bytes, device};
  used += device ? bytes : 0;
  *out = data;
  return cudaSuccess;
}

cudaError_t release(void *data, bool device)
{
  if (data == nullptr)
    return cudaSuccess;
  need_context();
  if (is_capturing("a release of memory"))
    return failed(cudaErrorStreamCaptureUnsupported);
  auto found = allocations.find((const char *)data);
  if (found == allocations.end() || found->second.device != device)
    return failed(cudaErrorInvalidValue);
  if (only_host)
    munmap(data, found->second.bytes);
  else
    free(data);
  used -= device && !only_host ? found->second.bytes : 0;
  allocations.erase(found);
  return cudaSuccess;
}

/* Returns the allocation that contains all of these bytes; null: none. */
const allocation *find(const void *data, size_t bytes)
{
  auto next = allocations.upper_bound((const char *)data);
  if (next == allocations.begin())
    return nullptr;
  --next;
  size_t offset = (size_t)((const char *)data - next->first);
  return offset + bytes <= next->second.bytes ? &next->second : nullptr;
}

bool is_ours(const void *data, size_t bytes, bool device)
{
  const allocation *found = find(data, bytes);
  return found != nullptr && found->device == device;
}

bool ends_known(const void *to, const void *from, size_t bytes_to, size_t bytes_from,
                cudaMemcpyKind kind)
{
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  bool good =
      kind == cudaMemcpyDefault
          ? find(to, bytes_to) != nullptr && find(from, bytes_from) != nullptr
          : is_ours(to, bytes_to, to_device) && is_ours(from, bytes_from, from_device);
  if (!good)
    fprintf(stderr,
            "simt: a copy of %zu bytes leaves its allocation, or is of pageable "
            "memory\n",
            bytes_to);
  return good;
}

/* SIMT_FAIL_AFTER=n: the launch after n others is refused. */
bool planned_failure()
{
  static long left = from_environment("SIMT_FAIL_AFTER");
  return left >= 0 && left-- == 0;
}

/* SIMT_FAULT_AFTER=n: the kernel after n others fails while it runs, which the next
 * wait reports. */
long until_fault = from_environment("SIMT_FAULT_AFTER");

} // namespace

namespace simt
{

void enqueue(cudaStream_t stream, std::function<bool()> w)
{
  locked l(runtime);
  thing t{std::move(w)};
  t.kernel = true;
  give(stream, std::move(t));
}

void pass(cudaStream_t stream, double us)
{
  stream->us += us;
}

void enqueue_early(cudaStream_t stream, std::function<std::function<bool()>()> begin)
{
  locked l(runtime);
  thing t{};
  t.kernel = true;
  t.early = std::move(begin);
  give(stream, std::move(t));
}

void enqueue_meeting(cudaStream_t stream, std::function<std::function<bool()>()> begin,
                     const void *of)
{
  locked l(runtime);
  thing t{nullptr, std::move(begin), nullptr, of};
  t.kernel = true; /* NCCL's are */
  give(stream, std::move(t));
}

bool held_by_graphs(const void *of)
{
  locked l(runtime);
  for (const simt_graph *graph : graphs)
    for (const thing &t : graph->steps)
      if (t.of == of)
        return true;
  return false;
}

bool planned_fault()
{
  return until_fault >= 0 && until_fault-- == 0;
}

void lock()
{
  runtime.lock();
}

void unlock()
{
  runtime.unlock();
}

cudaError_t load(const void *kernel)
{
  locked l(runtime);
  need_context();
  if (loaded.count({current_gpu, kernel}) > 0)
    return cudaSuccess;
  if (is_capturing("a kernel's first use"))
    return failed(cudaErrorStreamCaptureUnsupported);
  loaded.insert({current_gpu, kernel});
  return cudaSuccess;
}

int current()
{
  return current_gpu;
}

int architecture()
{
  return version;
}

bool is_current(cudaStream_t stream)
{
  return stream != nullptr && stream->gpu == current_gpu;
}

cudaError_t check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                         cudaStream_t stream)
{
  locked l(runtime);
  if (!is_current(stream))
    return failed(cudaErrorInvalidResourceHandle);
  if (load(kernel) != cudaSuccess)
    return cudaErrorStreamCaptureUnsupported;
  uint64_t threads = (uint64_t)block.x * block.y * block.z;
  bool good = threads > 0 && threads <= 1024 && grid.x > 0 && grid.y > 0 && grid.z > 0 &&
              grid.y <= 65535 && grid.z <= 65535 && shared_bytes <= (size_t)227 << 10;
  idle_ends();
  if (planned_failure())
    return failed(cudaErrorLaunchFailure);
  return good ? cudaSuccess : failed(cudaErrorInvalidValue);
}

} // namespace simt

extern "C" {

const char *cudaGetErrorString(cudaError_t rc)
{
  switch (rc) {
  case cudaSuccess:
    return "no error";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorNotReady:
    return "device not ready";
  case cudaErrorInvalidResourceHandle:
    return "invalid resource handle";
  case cudaErrorStreamCaptureUnsupported:
    return "operation not permitted when stream is capturing";
  case cudaErrorLaunchFailure:
    return simt::error()[0] != '\0' ? simt::error() : "launch failed";
  default:
    return "invalid argument";
  }
}

/* A failed launch is permanent, as on a GPU, until simt::error_reset. */
cudaError_t cudaGetLastError(void)
{
  locked l(runtime);
  cudaError_t rc = last_error;
  last_error = state();
  return rc;
}

/* GPUs are only numbers: all share one memory. */
void simt_gpus(int n, int peers)
{
  gpus = n;
  reach = peers;
  direct_copies = 0;
  contexts = 0;
}

/* Sets the architecture, sm_<number>, of devices created from now on. */
void simt_architecture(int number)
{
  version = number;
}

void simt_fault_after(long kernels)
{
  locked l(runtime);
  until_fault = kernels;
  simt::error_reset();
  last_error = cudaSuccess;
}

unsigned simt_contexts(void)
{
  locked l(runtime);
  return contexts;
}

int simt_direct_copies(void)
{
  return direct_copies;
}

cudaError_t cudaGetDeviceCount(int *n)
{
  *n = gpus;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
  *can = reach;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
  return reach ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes,
                                cudaStream_t s)
{
  direct_copies++;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s);
}

cudaError_t cudaSetDevice(int gpu)
{
  locked l(runtime);
  if (gpu < 0 || gpu >= gpus)
    return failed(cudaErrorInvalidValue);
  current_gpu = gpu;
  need_context();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int gpu)
{
  *p = {};
  snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "GPU %d", gpu); /* in all processes */
  snprintf(p->name, sizeof p->name, "emulated GPU");
  p->multiProcessorCount = 4;
  p->major = version / 10;
  p->minor = version % 10;
  p->sharedMemPerMultiprocessor = (size_t)228 << 10;
  p->l2CacheSize = simt::L2_BYTES;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
  locked l(runtime);
  need_context();
  *available = only_host ? SIZE_MAX / 2 : TOTAL - used;
  *total = only_host ? SIZE_MAX / 2 : TOTAL;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
  locked l(runtime);
  return allocate(out, bytes, true);
}

cudaError_t cudaFree(void *data)
{
  locked l(runtime);
  return release(data, true);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
  locked l(runtime);
  return allocate(out, bytes, false);
}

cudaError_t cudaFreeHost(void *data)
{
  locked l(runtime);
  return release(data, false);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
  locked l(runtime);
  need_context();
  *out = new simt_stream{};
  (*out)->gpu = current_gpu;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
  finish(s, s->given);
  delete s;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
  if (s->capturing)
    return failed(cudaErrorStreamCaptureUnsupported);
  finish(s, s->given);
  locked l(runtime);
  return failed(state());
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
  locked l(runtime);
  need_context();
  *out = new simt_event{current_gpu};
  if ((flags & cudaEventDisableTiming) == 0)
    (*out)->us = std::make_shared<double>(-1);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s)
{
  locked l(runtime);
  if (s->capturing)
    return failed(cudaErrorStreamCaptureUnsupported);
  if (event->gpu != s->gpu)
    return failed(cudaErrorInvalidResourceHandle);
  std::shared_ptr<double> us = event->us;
  if (us != nullptr) {
    *us = -1;
    give(s, [us, s] {
      *us = s->us;
      return true;
    });
  }
  *event = simt_event{s->gpu, s, s->given, us};
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
  locked l(runtime);
  if (from->us == nullptr || to->us == nullptr || from->stream == nullptr ||
      to->stream == nullptr)
    return failed(cudaErrorInvalidResourceHandle);
  if (*from->us < 0 || *to->us < 0)
    return failed(cudaErrorNotReady);
  *ms = (float)((*to->us - *from->us) * 1e-3);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  if (event->stream != nullptr)
    finish(event->stream, event->after);
  locked l(runtime);
  idle_begins();
  return failed(state());
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  locked l(runtime);
  if (event->stream != nullptr && !advance(event->stream, event->after))
    return failed(cudaErrorNotReady); /* recorded, as any other that is returned */
  idle_begins();
  return failed(state());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned)
{
  locked l(runtime);
  simt_event then = *event; /* as recorded last */
  if (then.stream != nullptr && then.stream != s)
    give(s, thing{nullptr, [then] {
                    return [then] { return advance(then.stream, then.after); };
                  }});
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s)
{
  locked l(runtime);
  if (!ends_known(to, from, bytes, bytes, kind))
    return failed(cudaErrorInvalidValue);
  give(s, [=] {
    memmove(to, from, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t s)
{
  locked l(runtime);
  if (height == 0 || width == 0)
    return cudaSuccess;
  if (width > to_pitch || width > from_pitch ||
      !ends_known(to, from, (height - 1) * to_pitch + width,
                  (height - 1) * from_pitch + width, kind))
    return failed(cudaErrorInvalidValue);
  give(s, [=] {
    for (size_t i = 0; i < height; i++)
      memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t s)
{
  locked l(runtime);
  if (!is_ours(to, bytes, true))
    return failed(cudaErrorInvalidValue);
  give(s, [=] {
    memset(to, byte, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
  locked l(runtime);
  if (s->capturing)
    return failed(cudaErrorStreamCaptureUnsupported);
  s->capturing = true;
  captures++;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
  locked l(runtime);
  if (!s->capturing)
    return failed(cudaErrorStreamCaptureUnsupported);
  s->capturing = false;
  captures--;
  *out = new simt_graph{std::move(s->captured)};
  s->captured.clear();
  graphs.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long)
{
  locked l(runtime);
  *out = new simt_graph(*graph);
  graphs.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  locked l(runtime);
  graphs.erase(graph);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
  locked l(runtime);
  graphs.erase(graph);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
  locked l(runtime);
  graph_launches++;
  idle_ends();
  for (const thing &t : graph->steps)
    give(s, t);
  return cudaSuccess;
}

unsigned simt_graph_launches(void)
{
  return graph_launches;
}

void simt_only_host(void)
{
  only_host = true;
}

int64_t simt_idle_ns(void)
{
  return idle_ns;
}

} // extern "C"
