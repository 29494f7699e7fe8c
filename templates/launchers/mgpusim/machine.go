// The simulated machine: its memory, and launching kernels on it.

package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
	"github.com/sarchlab/mgpusim/v4/amd/kernels"
	"github.com/sarchlab/mgpusim/v4/amd/sampling"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cp"
)

type gpuModel struct {
	name string
	mach byte   // of the code objects that it runs
	cure string // how to get those
}

var gpuModels = map[string]gpuModel{
	"mi300a": {"mi300a", machGfx942, "build it with --arch gfx942, or run it with --gpu r9nano"},
	"r9nano": {"r9nano", machGfx803, "build it with --arch gfx803, or run it with --gpu mi300a"},
}

const (
	gpuMemory = 4 << 30  // bytes; the builders of MGPUSim know no other size
	reserved  = 64 << 20 // of that, for code, arguments and packets

	chunkNbytes uint64 = 16 << 20 // copied at a time
	// Where Akita's record of the simulation would be. It removes a file of that name first, and there
	// can be none; the record is discarded.
	noRecord = "/dev/null/record"
	// What launches read lies in lines of the caches of its own.
	cacheLine = 64
	// How long simulated time may stand still. One event of the timing model takes microseconds.
	stall = 120 * time.Second
	// How often to look whether the simulator is done.
	poll = 20 * time.Microsecond
)

type machine struct {
	simulation  *simulation.Simulation
	driver      *driver.Driver
	context     *driver.Context
	idle        *driver.CommandQueue   // always empty
	queues      []*driver.CommandQueue // of launches that run at once
	gpus        []gpu
	recorder    *recorder
	memory      *directMemory // of the timing model
	sampler     *sampler
	warmer      *warmer // once a launch needs it
	tables      observations
	processors  []*cp.CommandProcessor
	timing      bool
	stale       bool // whether caches may hold what launches have read
	unwritten   bool // whether they may hold what launches wrote and memory has not
	allocations int  // of memory of the GPUs
}

type gpu struct {
	queue *driver.CommandQueue
	arena driver.Ptr             // one allocation, so that offsets are those of the workload
	code  map[*kernel]driver.Ptr // where the instructions of a kernel lie
}

// dispatch is a kernel to be run on a GPU.
type dispatch struct {
	gpu     *gpu
	kernel  *kernel
	grid    [3]uint32 // work-groups
	args    []driver.Ptr
	area    *area                       // in their place, of a user's kernel
	sample  *sample                     // of its work-groups; nil: all of them run
	command *driver.LaunchKernelCommand // once it is prepared
}

// groups are the work-groups of the whole launch.
func (d *dispatch) groups() uint64 {
	return uint64(d.grid[0]) * uint64(d.grid[1]) * uint64(d.grid[2])
}

func newMachine(o options, arenaNbytes uint64) *machine {
	if arenaNbytes > gpuMemory-reserved {
		fail(exitRefused, "the workload needs %d MiB of GPU memory and MGPUSim has %d; "+
			"make it smaller with --set", arenaNbytes>>20, (gpuMemory-reserved)>>20)
	}
	s := simulation.MakeBuilder().WithoutMonitoring().WithOutputFileName(noRecord).Build()
	var memory *directMemory
	if o.timing {
		sampling.InitSampledEngine() // off, but the compute units ask it
		memory = buildPlatform(s, o.hardware, o.gpus)
		correctUnits(s, o)
		quicken(s)
	} else {
		buildEmulator(s, o)
	}
	keepLittle(s)
	d := s.GetComponentByName("Driver").(*driver.Driver)
	m := &machine{simulation: s, driver: d, recorder: newRecorder(s, d), timing: o.timing, memory: memory,
		sampler: &sampler{map[*kernels.HsaKernelDispatchPacket]*sample{}}, tables: observations{results: o.results}}
	d.GetPortByName("GPU").AcceptHook(m.sampler)
	d.Run()
	m.processors = m.commandProcessors()
	m.context = d.Init()
	m.idle = d.CreateCommandQueue(m.context)
	for i := range o.gpus {
		d.SelectGPU(m.context, i+1)
		m.gpus = append(m.gpus, gpu{queue: d.CreateCommandQueue(m.context), code: map[*kernel]driver.Ptr{}})
		m.gpus[i].arena = m.allocate(&m.gpus[i], arenaNbytes)
	}
	if o.timing {
		go m.watch()
	}
	return m
}

// write copies bytes to the arena of a GPU; fill gets each part of them, and how many came before it.
// No kernel has run before.
func (m *machine) write(g *gpu, offset, nbytes uint64, fill func(part []byte, done uint64)) {
	for at := uint64(0); at < nbytes; at += chunkNbytes {
		part := make([]byte, min(chunkNbytes, nbytes-at))
		fill(part, at)
		place := g.arena + driver.Ptr(offset+at)
		if m.memory != nil {
			m.memory.write(m.process(), place, part)
			continue
		}
		m.driver.EnqueueMemCopyH2D(g.queue, place, part)
		m.drain()
	}
}

// read copies bytes from the arena of a GPU.
func (m *machine) read(g *gpu, offset, nbytes uint64) []byte {
	part := make([]byte, nbytes)
	place := g.arena + driver.Ptr(offset)
	if m.memory == nil {
		m.copyBack(g, part, place)
		return part
	}
	if m.unwritten { // the driver has all caches write back what they hold before it copies anything
		m.copyBack(g, part[:min(nbytes, 4)], place)
		m.unwritten = false
	}
	m.memory.read(m.process(), place, part)
	return part
}

// copyBack copies from a GPU as the driver does.
func (m *machine) copyBack(g *gpu, part []byte, place driver.Ptr) {
	m.driver.EnqueueMemCopyD2H(g.queue, part, place)
	m.drain()
}

// dispatches are those of one launch on all GPUs.
func (m *machine) dispatches(w workload, l launch, k *kernel) []*dispatch {
	found := make([]*dispatch, len(m.gpus))
	for i := range m.gpus {
		g := &m.gpus[i]
		args := make([]driver.Ptr, len(l.Args))
		for at, name := range l.Args {
			args[at] = g.arena + driver.Ptr(w.buffer(name).Offset+l.offset(at))
		}
		found[i] = &dispatch{gpu: g, kernel: k, grid: l.Grid, args: args, area: l.area}
	}
	return found
}

// run runs kernels to their end, all at the same time. No two of them are for the same GPU.
//
// The driver's LaunchKernel would prepare them too, but then the GPUs start one after the other, and
// one fetches instructions from the memory of another.
func (m *machine) run(s step, dispatches []*dispatch) row {
	var groups uint64
	for _, d := range dispatches {
		if d.sample == nil {
			groups += d.groups()
		} else {
			groups += d.sample.groups()
		}
	}
	m.refresh()
	m.stale, m.unwritten = true, true
	k := dispatches[0].kernel
	running = current{k, s, m.recorder.suspect}
	m.recorder.reset()
	if d := dispatches[0]; d.sample != nil {
		m.sampler.samples[d.command.Packet] = d.sample
		m.recorder.seen = newSeen(d.sample)
		m.warm(d)
	}
	start := time.Now()
	for _, d := range dispatches {
		m.driver.Enqueue(d.gpu.queue, d.command)
	}
	m.drain()
	m.recorder.wait(len(dispatches))
	seconds := time.Since(start).Seconds()
	running = current{}
	if m.recorder.seen != nil {
		m.recorder.snapshot()
		m.tables.add(m.recorder.seen, m.recorder.begin)
	}
	fmt.Printf("%s (%s %s): %d instructions of wavefronts in %.3f s\n",
		k.name, s.Layer, s.Direction, m.recorder.counts[instructions], seconds)
	return m.recorder.row(k.name, seconds, groups)
}

// prepare puts what dispatches need on their GPUs: instructions, arguments and packets, each kind in
// one allocation for all of them. None is written once a kernel has run: the driver would empty the
// caches first, and caches may hold what was in memory before. And nothing is to be freed: of pages
// that are given back, MGPUSim 4.2.0 keeps the contents, and forgets buffers that are in use.
func (m *machine) prepare(all []*dispatch) {
	places := make([]uint64, len(all)) // of the arguments; the packet follows
	sizes := map[*gpu]uint64{}
	for i, d := range all {
		if nbytes := d.kernel.object.KernargSegmentByteSize; d.area == nil && nbytes < 8*uint64(len(d.args)) {
			fail(exitDamaged, "kernel %s takes %d bytes of arguments and gets %d; build the bundle again",
				d.kernel.name, nbytes, 8*len(d.args))
		}
		if _, there := d.gpu.code[d.kernel]; !there {
			code := d.kernel.object.Data
			d.gpu.code[d.kernel] = m.allocate(d.gpu, uint64(len(code)))
			m.driver.EnqueueMemCopyH2D(d.gpu.queue, d.gpu.code[d.kernel], code)
		}
		places[i] = sizes[d.gpu]
		sizes[d.gpu] += inLines(d.argumentNbytes()) + inLines(packetNbytes)
	}
	for i := range m.gpus {
		g := &m.gpus[i]
		if sizes[g] == 0 {
			continue
		}
		start, content := m.allocate(g, sizes[g]), make([]byte, sizes[g])
		for at, d := range all {
			if d.gpu == g {
				d.fill(content[places[at]:], start+driver.Ptr(places[at]))
			}
		}
		m.driver.EnqueueMemCopyH2D(g.queue, start, content)
	}
	m.drain()
}

var packetNbytes = uint64(binary.Size(kernels.HsaKernelDispatchPacket{}))

// inLines is how many bytes of whole lines hold nbytes.
func inLines(nbytes uint64) uint64 { return (nbytes + cacheLine - 1) / cacheLine * cacheLine }

// argumentNbytes is what its arguments take.
func (d *dispatch) argumentNbytes() uint64 {
	if d.area != nil {
		return uint64(len(d.area.Content))
	}
	return d.kernel.object.KernargSegmentByteSize
}

// fill writes a dispatch's arguments and packet to `content`, which goes to `place`, and makes its
// command.
func (d *dispatch) fill(content []byte, place driver.Ptr) {
	object, group := d.kernel.object, d.kernel.group
	if d.area != nil {
		copy(content, d.area.Content)
		for _, each := range d.area.Pointers {
			binary.LittleEndian.PutUint64(content[each[0]:], uint64(d.gpu.arena)+each[1])
		}
	} else {
		for i, address := range d.args {
			binary.LittleEndian.PutUint64(content[8*i:], uint64(address))
		}
	}
	packet := &kernels.HsaKernelDispatchPacket{
		WorkgroupSizeX: group[0], WorkgroupSizeY: group[1], WorkgroupSizeZ: group[2],
		GridSizeX: d.grid[0] * uint32(group[0]), // work-items
		GridSizeY: d.grid[1] * uint32(group[1]), GridSizeZ: d.grid[2] * uint32(group[2]),
		GroupSegmentSize: object.GroupSegmentByteSize + d.kernel.lds,
		KernelObject:     uint64(d.gpu.code[d.kernel]),
	}
	if d.argumentNbytes() > 0 {
		packet.KernargAddress = uint64(place)
	}
	at := inLines(d.argumentNbytes())
	if _, err := binary.Encode(content[at:], binary.LittleEndian, packet); err != nil {
		panic(err)
	}
	d.command = &driver.LaunchKernelCommand{
		ID: sim.GetIDGenerator().Generate(), CodeObject: object,
		Packet: packet, DPacket: place + driver.Ptr(at),
	}
}

// allocate finds new memory of a GPU, of whole pages.
func (m *machine) allocate(g *gpu, nbytes uint64) driver.Ptr {
	m.allocations++
	m.driver.SelectGPU(m.context, g.queue.GPUID)
	return m.driver.AllocateMemory(m.context, nbytes)
}

// drain runs all that is in the queues. It looks at them, because the driver's DrainCommandQueue
// waits for a signal that is lost if it comes between its look and its wait.
func (m *machine) drain() { m.runUntil(m.busy) }

// runUntil runs the simulator as long as there is something to do, and until nothing is left of what was
// done: what begins while components still tick would begin at a time that depends on how fast this machine
// is, not on the simulated one. The driver is woken again where nothing happens: it may have overheard
// somebody just as its engine stopped.
func (m *machine) runUntil(busy func() bool) {
	for since := (time.Time{}); busy(); time.Sleep(poll) {
		if since.IsZero() || time.Since(since) > time.Second && !m.ticks() {
			m.driver.DrainCommandQueue(m.idle) // returns at once, because it is empty
			since = time.Now()
		}
	}
	for m.ticks() {
		time.Sleep(poll)
	}
}

// ticks tells whether the driver runs its engine: whether there are events left.
func (m *machine) ticks() bool {
	lock := inside(m.driver, "engineRunningMutex").Addr().Interface().(*sync.Mutex)
	lock.Lock()
	defer lock.Unlock()
	return inside(m.driver, "engineRunning").Bool()
}

func (m *machine) busy() bool {
	for i := range m.gpus {
		if m.gpus[i].queue.NumCommand() > 0 {
			return true
		}
	}
	return false
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
