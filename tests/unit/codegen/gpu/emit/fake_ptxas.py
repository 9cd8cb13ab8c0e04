"""ptxas as tests have it: machine code is the options and the names of kernels.

PTX with the kernel `refused` has none, and `hangs` takes for ever.
"""

import re
import signal
import sys

LOG = """ptxas info    : Compiling entry function '{0}' for 'sm_90'
ptxas info    : Function properties for {0}
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 8 bytes cumulative stack size
"""

if __name__ == "__main__":
    *options, source, _, target = sys.argv[1:]
    with open(source) as file:
        names = re.findall(r"\.entry (\w+)", file.read())
    if "-arch=sm_130" in options:
        sys.exit("ptxas fatal   : Value 'sm_130' is not defined for option 'gpu-name'")
    if "refused" in names:
        sys.exit("ptxas, line 5; error   : no")
    if "hangs" in names:
        signal.pause()
    sys.stderr.write("".join(map(LOG.format, names)))
    with open(target, "w") as file:
        file.write(" ".join([*options, *names]))
