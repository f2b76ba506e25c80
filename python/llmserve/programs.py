# SPDX-License-Identifier: Apache-2.0
"""Where llmserve's programs are, and the commands of a wheel."""

import os
import shutil
import sys

BUNDLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bundle")
CUDA = os.path.join(os.path.dirname(os.path.dirname(BUNDLE)), "llmserve_cuda", "lib")  # of the wheel llmserve-cuda
WITH_FILE = ("llmserve", "llmserve-ctl", "llmserve-whatif")  # they read a configuration without -c


def environment():
    """Returns the environment in which the programs find the bundle's plugins and profiles."""
    result = dict(os.environ)
    if os.path.isdir(BUNDLE):
        append(result, "LLS_PLUGIN_PATH", os.path.join(BUNDLE, "lib", "llmserve"))
        if os.path.isdir(CUDA):
            append(result, "LLS_PLUGIN_PATH", CUDA)
        result.setdefault("LLS_DATA_PATH", os.path.join(BUNDLE, "share"))
        result.setdefault("LLS_PROFILE_PATH", os.path.join(BUNDLE, "share", "profiles"))
    return result


def append(variables, name, folder):
    variables[name] = ":".join(filter(None, [variables.get(name), folder]))


def path(program):
    """Returns the path of a program: the bundle's, else the one in PATH."""
    bundled = os.path.join(BUNDLE, "libexec", program)
    found = bundled if os.path.exists(bundled) else shutil.which(program)
    if found is None:
        raise FileNotFoundError(f"{program} is neither in {BUNDLE} nor in PATH")
    return found


def demo_model():
    """Returns the folder of the model that a wheel has, or None."""
    folder = os.path.join(BUNDLE, "share", "demo-model")
    return folder if os.path.isdir(folder) else None


def run(program):
    """Becomes the program, with the arguments of this process."""
    arguments = sys.argv[1:]
    ini = os.path.join(BUNDLE, "etc", "llmserve.ini")
    if os.path.exists(ini):
        if program == "llmserve-ctl" and arguments[:1] == ["whatif"]:
            arguments[1:1] = ["-c", ini]
        elif program in WITH_FILE:
            arguments[:0] = ["-c", ini]
    os.execve(path(program), [program, *arguments], environment())


def command():
    """Becomes the program by whose name this process was started."""
    run(os.path.basename(sys.argv[0]))
