// Memory of this machine: how much a run takes, how to keep that low, how much there is.

package main

import (
	"fmt"
	"math"
	"os"
	"path"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"

	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/protocol"
)

// What stays in memory, in bytes, measured with 2 to 50 million work-items. The emulator makes every
// work-group of a launch before it runs the first one. In the timing model only those exist for
// which compute units have room.
const (
	emulatorNbytes    = 96 << 20
	timingModelNbytes = 192 << 20 // for each GPU, without compute units; 512 MiB with 120
	unitNbytes        = (8 << 20) / 3
	workGroupNbytes   = 1700
	wavefrontNbytes   = 600
	wavefrontSize     = 64
)

// directMemory is that of the GPUs of the timing model, where it takes no time. Of copies between host
// and GPU nobody reads the time, and the model's take minutes of this machine for a network's tensors.
type directMemory struct {
	storage *mem.Storage
	table   vm.PageTable
}

func (d *directMemory) write(pid vm.PID, to driver.Ptr, content []byte) {
	d.each(pid, to, content, d.storage.Write)
}

func (d *directMemory) read(pid vm.PID, from driver.Ptr, content []byte) {
	d.each(pid, from, content, func(place uint64, part []byte) error {
		found, err := d.storage.Read(place, uint64(len(part)))
		copy(part, found)
		return err
	})
}

// each calls a function for the part of the bytes in each page.
func (d *directMemory) each(pid vm.PID, at driver.Ptr, content []byte, do func(place uint64, part []byte) error) {
	for len(content) > 0 {
		page, found := d.table.Find(pid, uint64(at))
		inside := uint64(at) - page.VAddr
		n := min(uint64(len(content)), page.PageSize-inside)
		if !found || do(page.PAddr+inside, content[:n]) != nil {
			panic(fmt.Sprintf("no memory at %#x", at))
		}
		at, content = at+driver.Ptr(n), content[n:]
	}
}

// process is the number of this program's address space.
func (m *machine) process() vm.PID { return vm.PID(inside(m.context, "pid").Uint()) }

// inside is a field of what a pointer points to, of which only its own package knows the name.
func inside(of any, name string) reflect.Value {
	field := reflect.ValueOf(of).Elem().FieldByName(name)
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

// checkMemory refuses what this machine has not the memory to simulate: it would swap for hours, or
// the kernel of the system would end the run without a word.
func checkMemory(w workload, o options) {
	gpus := uint64(o.gpus)
	arenas := gpus * (w.ArenaNbytes + w.ArenaNbytes/8) // the page tables too
	needed, place := arenas+emulatorNbytes, ""
	if o.timing {
		needed = arenas + gpus*(timingModelNbytes+uint64(o.units)*unitNbytes)
	} else {
		largest := uint64(0)
		for _, s := range w.Steps {
			for _, l := range s.Launches {
				if nbytes := gpus * l.nbytes(w.block(l.Kernel)); nbytes > largest {
					largest = nbytes
					place = kernelPlace(l.Kernel, s) + fmt.Sprintf("for %d work-groups of %d work-items ",
						l.groups(), w.block(l.Kernel))
				}
			}
		}
		needed += largest
	}
	needed += needed / 4 // what the garbage collector has not found yet
	available := availableMemory()
	if needed > available {
		fail(exitNoMemory, "%sMGPUSim needs %d MiB of this machine's memory and %d MiB are free; "+
			"make the workload smaller: simgen build --set n=...", place, needed>>20, available>>20)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(min(available, math.MaxInt64)))
	}
}

func (l launch) groups() uint64 {
	return uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
}

// nbytes is what the emulator keeps of a launch.
func (l launch) nbytes(block uint16) uint64 {
	wavefronts := (uint64(block) + wavefrontSize - 1) / wavefrontSize
	each := workGroupNbytes + wavefronts*wavefrontNbytes
	if l.groups() > math.MaxInt64/16/each {
		return math.MaxInt64 / 16 // more than any machine has
	}
	return l.groups() * each
}

// slimmer drops what the emulator never looks at: an object for each work-item, which the grid
// builder has made to form wavefronts. They would take most of the memory of a launch.
type slimmer struct{}

// Func is called when a work-group arrives at a compute unit.
func (slimmer) Func(context sim.HookCtx) {
	request, ok := context.Item.(*protocol.MapWGReq)
	if !ok || context.Pos != sim.HookPosPortMsgRecvd {
		return
	}
	request.WorkGroup.WorkItems = nil
	for _, wavefront := range request.WorkGroup.Wavefronts {
		wavefront.WorkItems = nil
	}
}

// keepLittle lets the simulator forget what nobody reads. Call it before any hook of ours is there.
//
// Every component has a hook of Akita's recorder for its viewer, which is off and still follows each
// task. With no hook at all, a component does not describe its tasks to any.
func keepLittle(s *simulation.Simulation) {
	for _, component := range s.Components() {
		hooks := reflect.ValueOf(component).Elem().FieldByName("HookableBase")
		hooks.Set(reflect.ValueOf(sim.HookableBase{}))
		if unit, ok := component.(*emu.ComputeUnit); ok {
			unit.ToDispatcher.AcceptHook(slimmer{})
		}
	}
}

// availableMemory is what Linux can give without swapping, in bytes: what is free, or what the
// control groups of this process leave of it (a container, a job of a batch system).
func availableMemory() uint64 {
	available := uint64(math.MaxUint64)
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kilobytes uint64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil {
			available = kilobytes << 10
		}
	}
	groups, _ := os.ReadFile("/proc/self/cgroup") // ID:CONTROLLERS:PATH
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "" {
			available = min(available, left("/sys/fs/cgroup", parts[2], "memory.max", "memory.current", "inactive_file"))
		} else if parts[1] == "memory" {
			available = min(available, left("/sys/fs/cgroup/memory", parts[2],
				"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
		}
	}
	return available
}

// left is what the limits of a control group and of those above it leave. Files that are used no
// more count as used, but the system drops them where memory is short.
func left(root, group, limit, usage, droppable string) uint64 {
	least := uint64(math.MaxUint64)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		most, limited := number(path.Join(root, at, limit))
		used, known := number(path.Join(root, at, usage))
		if limited && known {
			used -= min(used, statistic(path.Join(root, at, "memory.stat"), droppable))
			least = min(least, most-min(most, used))
		}
		if at == "/" {
			return least
		}
	}
}

func number(file string) (uint64, bool) {
	text, _ := os.ReadFile(file)
	value, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return value, err == nil
}

// statistic is a value of a file with lines "NAME VALUE", 0 if it is not there.
func statistic(file, name string) uint64 {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			value, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return value
		}
	}
	return 0
}
