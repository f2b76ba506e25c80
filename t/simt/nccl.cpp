/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator's NCCL: ranks are threads of one process. An operation is put on its
 * rank's stream; when its turn comes it is posted. It is done once all ranks have
 * posted their parts; the last rank carries it out for all. With SIMT_NCCL=folder ranks
 * are processes, each with another GPU, and what is posted goes by mail.h: a send is
 * over once it was taken, a collective one once the parts of all others are here.
 *
 * Of a communicator that does not block an operation is put on the stream by the second
 * question for its state after the call; until then it is in progress, and no other may
 * be begun. SIMT_NCCL_FAIL_AFTER=n: after n of those that do not block it is broken.
 *
 * Errors are emulated, too: parts that do not match (another operation, size or type
 * than the other ranks') never end, as on GPUs, where the step times out. Aborting a
 * group releases all ranks, with nothing done. A communicator that ends while a graph
 * has an operation of it ends the program, where NCCL would hang.
 */
#include "simt.h"

#include "mail.h"
#include "nccl.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <sched.h>
#include <string>
#include <unistd.h>
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
  std::vector<std::string> names = {}; /* of its mail: what it waits for, by rank */
};

using posted = std::shared_ptr<part>;

struct group { /* the ranks' */
  int size = 0, joined = 0;
  bool aborted = false;
  std::unique_ptr<simt::mail> mail;           /* null: they are threads */
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
  return p.n * (p.type == ncclFloat32 ? 4 : p.type == ncclUint8 ? 1 : 2);
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

/* Carries out the collective operation that all ranks have posted, if they have. */
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

/* ---- the same by mail -------------------------------------------------------------- */

char kind_of(const part &p)
{
  return p.kind == ALL_REDUCE   ? 'r'
         : p.kind == ALL_GATHER ? 'g'
         : p.type == ncclUint8  ? 'b'
                                : 'm';
}

void post_mail(group &g, int rank, part &p)
{
  if (p.kind == SEND)
    p.names = {g.mail->send(kind_of(p), p.peer, p.from, bytes_of(p))};
  if (p.kind == RECEIVE)
    p.names = {g.mail->next(kind_of(p), p.peer)};
  for (int i = 0; i < g.size && p.names.size() < (size_t)g.size; i++) {
    if (p.kind != ALL_REDUCE && p.kind != ALL_GATHER)
      return;
    if (i != rank)
      g.mail->send(kind_of(p), i, p.from, bytes_of(p));
    p.names.push_back(i == rank ? "" : g.mail->next(kind_of(p), i));
  }
}

/* All parts have arrived: the operation is done as if by the last rank. */
bool meet_by_mail(group &g, int rank, part &p)
{
  for (const std::string &name : p.names)
    if (name != "" && !g.mail->is_there(name))
      return false;
  std::vector<std::vector<char>> data(g.size, std::vector<char>(bytes_of(p)));
  std::vector<posted> parts;
  for (int i = 0; i < g.size; i++) {
    if (i == rank)
      memcpy(data[i].data(), p.from, bytes_of(p));
    else if (!g.mail->take(p.names[i], data[i].data(), bytes_of(p)))
      return false;
    parts.push_back(std::make_shared<part>(
        part{p.kind, data[i].data(), data[i].data(), p.n, p.type, -1}));
  }
  std::vector<char> whole((p.kind == ALL_GATHER ? g.size : 1) * bytes_of(p));
  for (const posted &other : parts)
    other->to = whole.data();
  if (p.kind == ALL_REDUCE)
    reduce(parts);
  else
    gather(parts);
  memcpy(p.to, whole.data(), whole.size());
  return true;
}

bool is_over_by_mail(group &g, int rank, part &p)
{
  if (p.kind == SEND)
    return !g.mail->is_there(p.names[0]);
  if (p.kind == RECEIVE)
    return g.mail->take(p.names[0], p.to, bytes_of(p));
  return meet_by_mail(g, rank, p);
}

/* ------------------------------------------------------------------------------------ */

void post(group &g, int rank, const posted &p)
{
  if (g.mail != nullptr) {
    post_mail(g, rank, *p);
    return;
  }
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
  bool blocks = true;
  int asked = 0; /* for its state, since `begun` */
  /* the operation in progress; not used with `blocks` */
  std::function<void()> begun = nullptr;
  ncclResult_t state = ncclSuccess;
};

namespace
{

/* For calls between ncclGroupStart and ncclGroupEnd, which are one operation on the
 * stream. */
std::atomic<int> open_groups; /* of all threads */
std::atomic<long> until_refusal{-1};
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
        for (size_t i = 0; i < parts.size() && !all->aborted; i++) {
          mine.push_back(std::make_shared<part>(parts[i]));
          post(*all, rank, mine.back());
        }
        return [=] {
          bool over = true;
          for (const posted &p : mine) {
            if (all->mail != nullptr && !p->over && !all->aborted)
              p->over = is_over_by_mail(*all, rank, *p);
            over = over && p->over;
          }
          return over || all->aborted;
        };
      },
      comm);
}

ncclResult_t begin(const part &p, ncclComm_t comm, cudaStream_t stream)
{
  const char *fails = getenv("SIMT_NCCL_FAIL_AFTER");
  static long left = fails != nullptr ? atol(fails) : -1;
  if (comm->state != ncclSuccess || depth > 0)
    return ncclInvalidUsage; /* the last operation is not in progress yet */
  comm->asked = 0;
  comm->state = left >= 0 && left-- == 0 ? ncclSystemError : ncclInProgress;
  comm->begun = [=] { put_on_stream({p}, comm, stream); };
  return comm->state == ncclInProgress ? ncclInProgress : ncclSystemError;
}

ncclResult_t add(const part &p, ncclComm_t comm, cudaStream_t stream)
{
  bool to_peer = p.kind == SEND || p.kind == RECEIVE;
  if (comm == nullptr || stream == nullptr ||
      (to_peer && (p.peer < 0 || p.peer >= comm->all->size || p.peer == comm->rank)))
    return ncclInvalidArgument;
  if (!comm->blocks)
    return begin(p, comm, stream);
  if (p.kind == RECEIVE && until_refusal >= 0 && until_refusal-- == 0)
    return ncclSystemError;
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
         : rc == ncclSystemError     ? "system error"
                                     : "invalid usage";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  lock l;
  *id = {};
  snprintf(id->internal, sizeof id->internal, "group %d %u", (int)getpid(), ++n_ids);
  return ncclSuccess;
}

} // extern "C"

namespace
{

simt_comm *join_processes(const std::string &folder, int size, int rank)
{
  auto all = std::make_shared<group>();
  all->size = size;
  all->mail = std::make_unique<simt::mail>(folder, rank, size);
  all->mail->join("GPU " + std::to_string(simt::current()));
  return new simt_comm{all, rank};
}

/* Checks which ranks have joined, until the communicator is no longer in progress. */
void look_who_joined(simt_comm *comm)
{
  enum simt::mail::joined joined = comm->all->mail->who_joined();
  comm->state = joined == simt::mail::ALL       ? ncclSuccess
                : joined == simt::mail::NOT_ALL ? ncclInProgress
                                                : ncclInvalidUsage;
}

} // namespace

extern "C" {

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
  const char *folder = getenv("SIMT_NCCL");
  if (rank < 0 || rank >= size || id.internal[0] == '\0' || folder == nullptr)
    return ncclInvalidArgument;
  *out = join_processes(std::string(folder) + "/" + id.internal, size, rank);
  (*out)->blocks = config->blocking != 0;
  for (look_who_joined(*out); (*out)->blocks && (*out)->state == ncclInProgress;
       look_who_joined(*out))
    usleep(1000);
  return (*out)->state;
}

/* Waits for the other ranks. */
ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id, int rank)
{
  ncclConfig_t config = {1};
  if (getenv("SIMT_NCCL") != nullptr)
    return ncclCommInitRankConfig(out, size, id, rank, &config);
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

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
  lock l;
  if (comm->state == ncclInProgress && comm->begun == nullptr)
    look_who_joined(comm);
  else if (comm->state == ncclInProgress && comm->asked++ > 0) {
    comm->begun();
    comm->begun = nullptr;
    comm->state = ncclSuccess;
  }
  *error = comm->state;
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

/* Refuses the receive after n others, for blocking communicators. */
void simt_nccl_refuse_after(long receives)
{
  until_refusal = receives;
}

int simt_nccl_open_groups(void)
{
  return open_groups;
}

ncclResult_t ncclGroupStart(void)
{
  depth++;
  open_groups++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
  if (depth == 0)
    return ncclInvalidUsage;
  open_groups--;
  if (--depth == 0 && !together.empty())
    put_on_stream(std::move(together), together_comm, together_stream);
  if (depth == 0)
    together.clear();
  return ncclSuccess;
}

} // extern "C"
