/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the emulator's NCCL is between processes: what one rank sends another is a file
 * of the communicator's folder, which is there whole or not at all, and is gone once it
 * was taken. A process that dies leaves what it has sent, and takes nothing any more.
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
  /* The next of its kind from this rank to that one; its name. */
  std::string send(char kind, int to, const void *data, size_t bytes);
  /* The name of the next that this rank gets. */
  std::string next(char kind, int from);
  bool is_there(const std::string &name) const;
  /* False: it has another size, and stays. The folder's file "taken" says how large each
   * was of kind 'b', bytes. */
  bool take(const std::string &name, void *data, size_t bytes) const;

  /* Each rank, with its GPU, before anything else. */
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
