"""One file or package per place where a bundle can run: what it lacks here, its folder, how its
results are read. Importing this package fills `TARGETS`, also with those of other packages.

May import: ask, errors, frontend, ground, isa, kernels, layers, tensors, workload.
"""

from simgen.ground import plugins
from simgen.targets import cuda as cuda
from simgen.targets import host as host
from simgen.targets import null as null
from simgen.targets.base import TARGETS as TARGETS
from simgen.targets.base import Target as Target
from simgen.targets.base import usual_targets as usual_targets
from simgen.targets.gem5 import kfd as kfd
from simgen.targets.gem5 import se as se
from simgen.targets.gpgpusim import simulator as simulator
from simgen.targets.mgpusim import target as target

plugins.load_all("simgen.targets")
