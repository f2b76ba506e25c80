/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator's NCCL: ranks are threads of one process. An operation is put on its
 * rank's stream; when its turn has come it is posted, and it is over once everybody's
 * part of it has been posted, the last of whom does it for all.
 *
 * What is watched: parts that do not fit together (another operation, size or type than
 * the other ranks' at the same place) never end, as on GPUs, where the step's time runs
 * out. An aborted group lets everybody go, with nothing done. A communicator that ends
 * while a graph has an operation of it ends the program, where NCCL would hang.
 */
#include "simt.h"

#include "nccl.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <sched.h>
#include <string>
#include <vector>

namespace
{

enum kind { ALL_REDUCE, ALL_GATHER, SEND, RECEIVE };

struct part {
  enum kind kind;
  const void *from;
  void *to;
  size_t n;
  ncclDataType_t type;
  int peer;
  bool over = false;
};

using posted = std::shared_ptr<part>;

struct group { /* the ranks' */
  int size = 0, joined = 0;
  bool aborted = false;
  std::vector<std::deque<posted>> collective; /* (size) not yet done, by rank */
  std::map<std::pair<int, int>, std::deque<posted>> sent,
      wanted; /* by sender, receiver */
};

std::map<std::string, std::shared_ptr<group>> groups; /* that are coming together */
unsigned n_ids;

struct lock {
  lock()
  {
    simt::lock();
  }
  ~lock()
  {
    simt::unlock();
  }
};

size_t bytes_of(const part &p)
{
  return p.n * (p.type == ncclFloat32 ? 4 : 2);
}

float get(const void *data, ncclDataType_t type, size_t i)
{
  if (type == ncclFloat32)
    return ((const float *)data)[i];
  return __uint_as_float((uint32_t)((const uint16_t *)data)[i] << 16);
}

void put(void *data, ncclDataType_t type, size_t i, float x)
{
  if (type == ncclFloat32) {
    ((float *)data)[i] = x;
    return;
  }
  uint32_t bits = __float_as_uint(x); /* to the nearest, ties to even */
  ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

bool fit(const part &a, const part &b)
{
  return a.kind == b.kind && a.n == b.n && a.type == b.type;
}

/* ---- doing it for all -------------------------------------------------------------- */

void reduce(const std::vector<posted> &parts)
{
  const part &first = *parts[0];
  for (size_t i = 0; i < first.n; i++) {
    float sum = 0;
    for (const posted &p : parts)
      sum += get(p->from, p->type, i);
    for (const posted &p : parts)
      put(p->to, p->type, i, sum);
  }
}

void gather(const std::vector<posted> &parts)
{
  size_t bytes = bytes_of(*parts[0]);
  for (const posted &to : parts)
    for (size_t rank = 0; rank < parts.size(); rank++)
      memcpy((char *)to->to + rank * bytes, parts[rank]->from, bytes);
}

/* The collective operation that all ranks have come to, if they have. */
void meet(group &g)
{
  std::vector<posted> parts;
  for (const auto &queue : g.collective) {
    if (queue.empty() || !fit(*queue.front(), *g.collective[0].front()))
      return;
    parts.push_back(queue.front());
  }
  if (parts[0]->kind == ALL_REDUCE)
    reduce(parts);
  else
    gather(parts);
  for (auto &queue : g.collective) {
    queue.front()->over = true;
    queue.pop_front();
  }
}

void hand_over(group &g, int from, int to)
{
  auto &sent = g.sent[{from, to}], &wanted = g.wanted[{from, to}];
  if (sent.empty() || wanted.empty() || sent.front()->n != wanted.front()->n ||
      sent.front()->type != wanted.front()->type)
    return;
  memcpy(wanted.front()->to, sent.front()->from, bytes_of(*sent.front()));
  sent.front()->over = wanted.front()->over = true;
  sent.pop_front();
  wanted.pop_front();
}

void post(group &g, int rank, const posted &p)
{
  switch (p->kind) {
  case ALL_REDUCE:
  case ALL_GATHER:
    g.collective[rank].push_back(p);
    meet(g);
    break;
  case SEND:
    g.sent[{rank, p->peer}].push_back(p);
    hand_over(g, rank, p->peer);
    break;
  case RECEIVE:
    g.wanted[{p->peer, rank}].push_back(p);
    hand_over(g, p->peer, rank);
    break;
  }
}

} // namespace

struct simt_comm {
  std::shared_ptr<group> all;
  int rank;
};

namespace
{

/* Between ncclGroupStart and ncclGroupEnd: they are one thing on the stream. */
thread_local int depth;
thread_local std::vector<part> together;
thread_local simt_comm *together_comm;
thread_local cudaStream_t together_stream;

void put_on_stream(std::vector<part> parts, const simt_comm *comm, cudaStream_t stream)
{
  std::shared_ptr<group> all = comm->all;
  int rank = comm->rank;
  simt::enqueue_meeting(
      stream,
      [=] {
        std::vector<posted> mine;
        for (const part &p : parts) {
          mine.push_back(std::make_shared<part>(p));
          post(*all, rank, mine.back());
        }
        return [=] {
          bool over = true;
          for (const posted &p : mine)
            over = over && p->over;
          return over || all->aborted;
        };
      },
      comm);
}

ncclResult_t add(const part &p, ncclComm_t comm, cudaStream_t stream)
{
  bool to_peer = p.kind == SEND || p.kind == RECEIVE;
  if (comm == nullptr || stream == nullptr ||
      (to_peer && (p.peer < 0 || p.peer >= comm->all->size || p.peer == comm->rank)))
    return ncclInvalidArgument;
  if (depth == 0) {
    put_on_stream({p}, comm, stream);
    return ncclSuccess;
  }
  if (!together.empty() && (together_comm != comm || together_stream != stream))
    return ncclInvalidUsage;
  together.push_back(p);
  together_comm = comm;
  together_stream = stream;
  return ncclSuccess;
}

} // namespace

extern "C" {

const char *ncclGetErrorString(ncclResult_t rc)
{
  return rc == ncclSuccess           ? "no error"
         : rc == ncclInvalidArgument ? "invalid argument"
                                     : "invalid usage";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  lock l;
  *id = {};
  snprintf(id->internal, sizeof id->internal, "group %u", ++n_ids);
  return ncclSuccess;
}

/* Waits for the others. */
ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id, int rank)
{
  if (rank < 0 || rank >= size || id.internal[0] == '\0')
    return ncclInvalidArgument;
  std::shared_ptr<group> all;
  {
    lock l;
    std::shared_ptr<group> &found = groups[id.internal];
    if (found == nullptr) {
      found = std::make_shared<group>();
      found->size = size;
      found->collective.resize(size);
    }
    all = found;
    if (++all->joined == size)
      groups.erase(id.internal);
  }
  for (bool complete = false; !complete; sched_yield()) {
    lock l;
    complete = all->joined == size;
  }
  *out = new simt_comm{all, rank};
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  {
    lock l;
    comm->all->aborted = true;
  }
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  if (simt::held_by_graphs(comm)) {
    fputs("a communicator ends while graphs hold it: NCCL would wait for them for ever\n",
          stderr);
    abort();
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *error)
{
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream)
{
  return add({ALL_REDUCE, from, to, n, type, -1}, comm, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
  return add({ALL_GATHER, from, to, n, type, -1}, comm, stream);
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int to,
                      ncclComm_t comm, cudaStream_t stream)
{
  return add({SEND, from, nullptr, n, type, to}, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream)
{
  return add({RECEIVE, nullptr, to, n, type, from}, comm, stream);
}

ncclResult_t ncclGroupStart(void)
{
  depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
  if (depth == 0)
    return ncclInvalidUsage;
  if (--depth == 0 && !together.empty())
    put_on_stream(std::move(together), together_comm, together_stream);
  if (depth == 0)
    together.clear();
  return ncclSuccess;
}

} // extern "C"
