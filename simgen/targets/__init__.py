"""One file per place a bundle can run. Importing this package fills `TARGETS`."""

from simgen.targets import cuda as cuda
from simgen.targets import gem5_fs as gem5_fs
from simgen.targets import gem5_se as gem5_se
from simgen.targets import hip as hip
from simgen.targets import host as host
from simgen.targets import mgpusim as mgpusim
from simgen.targets.base import TARGETS as TARGETS
from simgen.targets.base import Target as Target
