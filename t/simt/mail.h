/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport of the emulator's NCCL between processes: a message from one rank to
 * another is a file in the communicator's folder, which appears complete or not at all,
 * and is removed when it is received. A process that dies leaves its sent messages, and
 * receives no more.
 */
#ifndef LLS_SIMT_MAIL_H
#define LLS_SIMT_MAIL_H

#include <cstddef>
#include <map>
#include <string>

namespace simt
{

class mail
{
public:
  mail(std::string folder, int rank, int size);
  /* Sends the next message of a kind from this rank to another; returns its name. */
  std::string send(char kind, int to, const void *data, size_t bytes);
  /* The name of the next message that this rank will receive. */
  std::string next(char kind, int from);
  bool is_there(const std::string &name) const;
  /* Receives a message. Returns false if it has another size; it then stays. The
   * folder's file "taken" lists the sizes of received messages of kind 'b', bytes. */
  bool take(const std::string &name, void *data, size_t bytes) const;

  /* Called first by each rank, with its GPU. */
  void join(const std::string &gpu) const;
  enum joined { NOT_ALL, ALL, SAME_GPU };
  enum joined who_joined() const;

private:
  std::string folder;
  int rank, size;
  std::map<std::string, unsigned> sent, taken;
};

} // namespace simt

#endif
