// The simulated machine: its memory, and launching kernels on it.

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/arch"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
	"github.com/sarchlab/mgpusim/v4/amd/samples/runner/emusystem"
	"github.com/sarchlab/mgpusim/v4/amd/samples/runner/timingconfig"
	"github.com/sarchlab/mgpusim/v4/amd/sampling"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cu"
)

type gpuModel struct {
	name string
	mach byte // of the code objects that it runs
	arch arch.Type
	cure string // how to get those
}

var gpuModels = map[string]gpuModel{
	"mi300a": {"mi300a", machGfx942, arch.CDNA3, "build it with --arch gfx942, or run it with --gpu r9nano"},
	"r9nano": {"r9nano", machGfx803, arch.GCN3, "build it with --arch gfx803, or run it with --gpu mi300a"},
}

const (
	gpuMemory = 4 << 30  // bytes; the builders of MGPUSim know no other size
	reserved  = 64 << 20 // of that, for code, arguments and packets
	chunk     = 16 << 20 // bytes copied at a time
	// Bytes of this machine's memory that MGPUSim takes for a work-item of a launch, measured with
	// 0.5 to 4 million of them: it makes all work-groups before it runs the first one.
	workItemNbytes = 320
	// The simulator's record of itself goes to SQLite; it needs no file. The name ends in .sqlite3,
	// which the last parameter takes.
	inMemory = "file:akita?mode=memory&cache=shared&x="
	// How long simulated time may stand still. One event of the timing model takes microseconds.
	stall = 120 * time.Second
)

type machine struct {
	simulation *simulation.Simulation
	driver     *driver.Driver
	context    *driver.Context
	arena      driver.Ptr // one allocation, so that offsets are those of the workload
	recorder   *recorder
	timing     bool
}

// checkMemory refuses launches that this machine has not the memory to simulate: it would swap for
// hours, or the kernel of the system would end the run without a word.
func checkMemory(w workload) {
	var largest uint64
	for _, s := range w.Steps {
		for _, l := range s.Launches {
			groups := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
			largest = max(largest, groups*uint64(w.block(l.Kernel)))
		}
	}
	needed, available := w.ArenaNbytes+largest*workItemNbytes, availableMemory()
	if needed > available {
		fail(exitNoMemory, "a launch of %d work-items needs %d MiB of this machine's memory in MGPUSim, "+
			"and %d are free; make it smaller with --set", largest, needed>>20, available>>20)
	}
}

// availableMemory is what Linux can give without swapping, in bytes.
func availableMemory() uint64 {
	text, _ := os.ReadFile("/proc/meminfo")
	var kilobytes uint64
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return math.MaxUint64 // not told here
}

func newMachine(o options, arenaNbytes uint64) *machine {
	if arenaNbytes > gpuMemory-reserved {
		fail(exitRefused, "the workload needs %d MiB of GPU memory and MGPUSim has %d; "+
			"make it smaller with --set", arenaNbytes>>20, (gpuMemory-reserved)>>20)
	}
	s := simulation.MakeBuilder().WithoutMonitoring().WithOutputFileName(inMemory).Build()
	if o.timing {
		sampling.InitSampledEngine() // off, but the compute units ask it
		timingconfig.MakeBuilder().WithSimulation(s).WithNumGPUs(1).WithGPUType(o.gpu.name).Build()
	} else {
		emusystem.MakeBuilder().WithSimulation(s).WithNumGPUs(1).WithArchitecture(o.gpu.arch).Build()
	}
	correctDecoders(s, o)
	d := s.GetComponentByName("Driver").(*driver.Driver)
	m := &machine{simulation: s, driver: d, recorder: newRecorder(s, d), timing: o.timing}
	d.Run()
	m.context = d.Init()
	d.SelectGPU(m.context, 1)
	m.arena = d.AllocateMemory(m.context, arenaNbytes)
	if o.timing {
		go m.watch()
	}
	return m
}

// correctDecoders makes the timing model decode for its GPU. MGPUSim 4.2.0 builds the compute units
// of the MI300A with a decoder for GCN3, which takes a load or store with a scalar base (most of
// what clang makes) for one without: it would access wrong addresses, silently where they exist.
func correctDecoders(s *simulation.Simulation, o options) {
	for _, component := range s.Components() {
		if unit, ok := component.(*cu.ComputeUnit); ok {
			unit.Decoder = disassembler(o)
		}
	}
}

// upload copies the inputs to the GPU and fills what is dumped after the run with canary.
func (m *machine) upload(w workload, data *dataFile) {
	for i, input := range w.inputs() {
		for at := uint64(0); at < input.nbytes(); at += chunk {
			part := make([]byte, min(chunk, input.nbytes()-at))
			if err := data.readAt(part, data.entries[i].Offset+at); err != nil {
				fail(exitDataSize, "data.h5: cannot be read (%v); build the bundle again", err)
			}
			m.driver.MemCopyH2D(m.context, m.arena+driver.Ptr(input.Offset+at), part)
		}
	}
	for at := w.OutputsOffset; at < w.ArenaNbytes; at += chunk {
		part := data.canaries(min(chunk, w.ArenaNbytes-at))
		m.driver.MemCopyH2D(m.context, m.arena+driver.Ptr(at), part)
	}
}

// download writes the arena from outputs_offset on to a file.
func (m *machine) download(w workload, path string) {
	file, err := os.Create(path)
	if err != nil {
		fail(exitNoOutput, "outputs.bin: cannot be made (%v)", reason(err))
	}
	out := bufio.NewWriter(file)
	for at := w.OutputsOffset; at < w.ArenaNbytes; at += chunk {
		part := make([]byte, min(chunk, w.ArenaNbytes-at))
		m.driver.MemCopyD2H(m.context, part, m.arena+driver.Ptr(at))
		out.Write(part) // its error stays, and Flush returns it
	}
	if err := out.Flush(); err != nil {
		fail(exitNoOutput, "outputs.bin: cannot be written (%v)", reason(err))
	}
	if err := file.Close(); err != nil {
		fail(exitNoOutput, "outputs.bin: cannot be written (%v)", reason(err))
	}
}

// launch runs one kernel to its end.
func (m *machine) launch(w workload, s step, l launch, k *kernel) row {
	kernarg := make([]byte, k.object.KernargSegmentByteSize)
	if len(kernarg) < 8*len(l.Args) {
		fail(exitDamaged, "kernel %s takes %d bytes of arguments and gets %d; build the bundle again",
			k.name, len(kernarg), 8*len(l.Args))
	}
	for i, name := range l.Args {
		address := uint64(m.arena) + w.buffer(name).Offset
		binary.LittleEndian.PutUint64(kernarg[8*i:], address)
	}
	running = current{k, s.Layer, s.Direction, m.recorder.suspect}
	m.recorder.reset()
	start := time.Now()
	m.driver.LaunchKernel(m.context, k.object,
		[3]uint32{l.Grid[0] * uint32(k.block), l.Grid[1], l.Grid[2]}, // in work-items
		[3]uint16{k.block, 1, 1}, structOf(kernarg))
	seconds := time.Since(start).Seconds()
	running = current{}
	groups := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
	fmt.Printf("%s (%s %s): %d instructions of wavefronts in %.3f s\n",
		k.name, s.Layer, s.Direction, m.recorder.counts[instructions], seconds)
	return m.recorder.row(k.name, seconds, groups)
}

// structOf returns a pointer to a struct that holds the bytes: LaunchKernel takes nothing else.
func structOf(kernarg []byte) any {
	field := reflect.StructField{Name: "Bytes", Type: reflect.ArrayOf(len(kernarg), reflect.TypeFor[byte]())}
	made := reflect.New(reflect.StructOf([]reflect.StructField{field}))
	reflect.Copy(made.Elem().Field(0), reflect.ValueOf(kernarg))
	return made.Interface()
}

// watch ends a run whose simulated time stands still: the timing model has lost a message or waits
// for one that never comes.
func (m *machine) watch() {
	before, since := sim.VTimeInSec(-1), time.Now()
	for range time.Tick(time.Second) {
		now := m.simulation.GetEngine().CurrentTime()
		if now != before || running.kernel == nil {
			before, since = now, time.Now()
		} else if time.Since(since) > stall {
			fail(exitTimeout, "%sthe timing model stands still at %.9f s of simulated time; "+
				"run it with --mode emu", running.place(), float64(now))
		}
	}
}
