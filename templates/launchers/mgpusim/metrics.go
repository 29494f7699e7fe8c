// What is counted of each launch. Names with the same meaning are those of the gem5-se target.

package main

import (
	"encoding/csv"
	"math"
	"math/bits"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/akita/v4/tracing"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/insts"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cp"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cu"
	"github.com/sarchlab/mgpusim/v4/amd/timing/wavefront"
)

type metric int

// Instructions are counted once for a wavefront, as they are issued (timing) or done (emulation).
const (
	instructions metric = iota
	valuInstructions
	saluInstructions // branches too
	ldsInstructions
	vectorMemoryReads
	vectorMemoryWrites
	scalarMemoryReads
	wavefronts
	workGroups
	// Times the work-items that EXEC lets execute them; those of two elements at once count twice.
	valuOperations
	f32FMAs
	f32Adds
	f32Muls
	f32Specials
	ldsReads
	ldsWrites
	ldsBytes // of work-items
	emulated // how many of these there are

	// The timing model only. An MSHR hit is a miss on a line that is on its way already.
	l1Hits = metric(iota) - 1
	l1Misses
	l1MSHRHits
	l1ScalarHits
	l1ScalarMisses
	l1ScalarMSHRHits
	l1InstructionHits
	l1InstructionMisses
	l1InstructionMSHRHits
	l2Hits
	l2Misses
	l2MSHRHits
	l1Reads
	l1Writes
	l2Reads
	l2Writes
	dramReads
	dramWrites
	dramReadBytes
	dramWrittenBytes
	dramReadCycles // from here on, row() fills them in
	dramWriteCycles
	cuCycles
	cuActiveCycles
	wavefrontSlotCycles
	wavefrontCycles
	readyCycles
	stallFetchCycles
	executingVALUCycles
	executingSALUCycles
	executingLDSCycles
	executingMemoryCycles
	stallWaitCycles
	stallBarrierCycles
	stallOtherCycles
	metrics
)

var metricNames = [metrics]string{
	"instructions", "valu_instructions", "salu_instructions", "lds_instructions",
	"vector_memory_reads", "vector_memory_writes", "scalar_memory_reads",
	"wavefronts", "work_groups",
	"valu_operations", "f32_fma_operations", "f32_add_operations", "f32_mul_operations",
	"f32_special_operations", "lds_reads", "lds_writes", "lds_bytes",
	"l1_hits", "l1_misses", "l1_mshr_hits",
	"l1_scalar_hits", "l1_scalar_misses", "l1_scalar_mshr_hits",
	"l1_instruction_hits", "l1_instruction_misses", "l1_instruction_mshr_hits",
	"l2_hits", "l2_misses", "l2_mshr_hits",
	"l1_reads", "l1_writes", "l2_reads", "l2_writes",
	"dram_reads", "dram_writes", "dram_read_bytes", "dram_written_bytes",
	"dram_read_cycles", "dram_write_cycles",
	"cu_cycles", "cu_active_cycles", "wavefront_slot_cycles", "wavefront_cycles",
	"ready_cycles", "stall_fetch_cycles", "executing_valu_cycles", "executing_salu_cycles",
	"executing_lds_cycles", "executing_memory_cycles",
	"stall_wait_cycles", "stall_barrier_cycles", "stall_other_cycles",
}

// Caches by a part of their components' names -> their hits; misses and MSHR hits follow. Of those
// with reads, writes follow the reads.
var caches = []struct {
	part        string
	hits, reads metric
}{
	{"L1VCache", l1Hits, l1Reads}, {"L1SCache", l1ScalarHits, metrics},
	{"L1ICache", l1InstructionHits, metrics}, {"L2Cache", l2Hits, l2Reads},
}

// row is a line of launches.csv. Of several GPUs, counts are of all of them together, and times are
// from the start of the first one to the end of the last one.
type row struct {
	kernel      string
	launches    int
	hostSeconds float64
	seconds     float64 // simulated; of the kernel alone, without the copies before it
	cycles      float64 // of the compute units
	counts      [metrics]uint64
	reduction   *row    // the all-reduce after it, if there is one
	reduced     float64 // of an all-reduce: bytes that each GPU has of what is added up
	gpus        int     // and how many do so
	elapsed     float64 // of several queues: by how much it ended after all that had ended before
}

// add adds what ran after it.
func (r *row) add(other row) {
	r.launches += other.launches
	r.hostSeconds += other.hostSeconds
	r.seconds += other.seconds
	r.cycles += other.cycles
	for i, count := range other.counts {
		r.counts[i] += count
	}
}

// recorder counts what the components of the machine tell while kernels run. The engine is serial:
// components tell one at a time.
type recorder struct {
	engine    sim.TimeTeller
	frequency sim.Freq
	active    map[string]bool  // launches between their start and their end
	requests  map[string]timed // at controllers of the DRAM
	launches  int              // that have started
	ended     atomic.Int32     // launches
	tally                      // of all that run
	watched   *watched         // nil: one launch runs at a time
	seen      *seen            // of a sample of the launch; nil: all of it runs
	units     int              // of the timing model, in all GPUs
	slots     int              // for wavefronts, in a unit
	wavefront *emu.Wavefront   // that executed last, and where it was then
	pc        uint64
}

func newRecorder(s *simulation.Simulation, d *driver.Driver) *recorder {
	r := &recorder{engine: s.GetEngine(), active: map[string]bool{}, requests: map[string]timed{}}
	tracing.CollectTrace(d, &launchTracer{recorder: r})
	for _, component := range s.Components() {
		switch c := component.(type) {
		case *emu.ComputeUnit:
			c.AcceptHook(r)
			continue
		case *cp.CommandProcessor:
			for _, dispatcher := range c.Dispatchers {
				tracing.CollectTrace(dispatcher, &groupTracer{recorder: r})
			}
			continue
		case *cu.ComputeUnit:
			r.frequency, r.units, r.slots = c.Freq, r.units+1, 0
			for _, pool := range c.WfPools {
				r.slots += pool.Capacity
			}
			tracing.CollectTrace(c, &unitTracer{recorder: r, waves: map[string]*wave{}, tasks: map[string]*wave{}})
			continue
		}
		traced, ok := component.(tracing.NamedHookable)
		if !ok {
			continue
		}
		for _, cache := range caches {
			if strings.Contains(component.Name(), cache.part) {
				tracing.CollectTrace(traced, &cacheTracer{recorder: r, hits: cache.hits, reads: cache.reads})
			}
		}
		if strings.Contains(component.Name(), "DRAM") {
			tracing.CollectTrace(traced, &memoryTracer{recorder: r})
		}
	}
	return r
}

func (r *recorder) reset() {
	r.ended.Store(0)
	r.tally, r.launches, r.wavefront, r.seen = tally{}, 0, nil, nil
}

// wait returns when the components have told all of some launches. The driver takes a launch out of
// its queue just before it tells the end.
func (r *recorder) wait(launches int) {
	for r.ended.Load() < int32(launches) {
		time.Sleep(poll)
	}
}

func (r *recorder) row(kernel string, hostSeconds float64, groups uint64) row {
	r.counts[workGroups] = groups
	seconds := float64(r.end - r.begin)
	cycles := r.cycles(r.end - r.begin)
	r.countCycles(cycles)
	return row{kernel: kernel, launches: r.launches, hostSeconds: hostSeconds, seconds: seconds,
		cycles: float64(cycles), counts: r.counts}
}

// cycles is a time in cycles of the units' clock.
func (r *recorder) cycles(time sim.VTimeInSec) uint64 {
	return uint64(math.Round(float64(time) * float64(r.frequency)))
}

// countCycles fills in what was measured as time, in cycles of the units' clock.
func (r *recorder) countCycles(cycles uint64) {
	active := r.cycles(r.times[activeUnit])
	r.counts[cuCycles] = cycles * uint64(r.units)
	r.counts[cuActiveCycles] = active
	r.counts[dramReadCycles], r.counts[dramWriteCycles] = r.cycles(r.times[atReads]), r.cycles(r.times[atWrites])
	r.counts[wavefrontSlotCycles] = active * uint64(r.slots)
	r.countWaits(&r.tally)
}

// countWaits fills in what wavefronts did with their time.
func (r *recorder) countWaits(t *tally) {
	t.counts[wavefrontCycles] = r.cycles(t.times[resident])
	left := t.counts[wavefrontCycles]
	for of := ready; of <= atBarrier; of++ {
		cycles := min(left, r.cycles(t.times[of]))
		t.counts[readyCycles+metric(of-ready)] = cycles
		left -= cycles
	}
	t.counts[stallOtherCycles] = left
}

// Func is called by the emulator after each instruction of a wavefront.
func (r *recorder) Func(context sim.HookCtx) {
	inst, ok := context.Detail.(*insts.Inst)
	if !ok {
		return
	}
	r.wavefront = context.Item.(*emu.Wavefront)
	r.count(inst, r.wavefront.EXEC())
	r.pc = r.wavefront.PC()
	if r.wavefront.Completed {
		// The emulator keeps every wavefront until the last one of the launch has ended: 64 KiB of
		// registers each, 1.3 GB instead of 0.5 for 4 million elements.
		r.wavefront.VRegFile, r.wavefront.SRegFile, r.wavefront.LDS = nil, nil, nil
	}
}

// suspect tells at which byte of its kernel the wavefront that executed last is in the middle of an
// instruction: its program counter has moved on, but the emulator has not told of the instruction.
func (r *recorder) suspect() (at uint64, known bool) {
	if r.wavefront == nil || r.wavefront.PC() == r.pc {
		return 0, false
	}
	return r.pc - r.wavefront.Packet.KernelObject, true
}

func (t *tally) count(inst *insts.Inst, exec uint64) {
	t.counts[instructions]++
	switch inst.FormatType {
	case insts.VOP1, insts.VOP2, insts.VOP3a, insts.VOP3b, insts.VOPC:
		t.counts[valuInstructions]++
		t.countVector(inst.InstName, uint64(bits.OnesCount64(exec)))
	case insts.SOP1, insts.SOP2, insts.SOPC, insts.SOPK:
		t.counts[saluInstructions]++
	case insts.SOPP:
		t.countProgram(inst.Opcode)
	case insts.SMEM:
		t.counts[scalarMemoryReads]++
	case insts.DS:
		t.counts[ldsInstructions]++
		t.countLDS(inst.InstName, uint64(bits.OnesCount64(exec)))
	case insts.FLAT:
		if firstStore := insts.Opcode(24); inst.Opcode < firstStore {
			t.counts[vectorMemoryReads]++
		} else {
			t.counts[vectorMemoryWrites]++
		}
	}
}

// countVector counts an instruction of the vector ALU that so many work-items execute.
func (t *tally) countVector(name string, items uint64) {
	t.counts[valuOperations] += items
	kind, known := kinds[name]
	if !known {
		kind = kindOf(name)
		kinds[name] = kind
	}
	if kind.counted {
		t.counts[kind.metric] += items * kind.elements
	}
}

// countLDS counts an instruction of LDS that so many work-items execute. Those that only exchange
// values between work-items move no bytes of it.
func (t *tally) countLDS(name string, items uint64) {
	found := lds.FindStringSubmatch(name)
	if found == nil {
		return
	}
	if found[1] == "write" {
		t.counts[ldsWrites]++
	} else {
		t.counts[ldsReads]++
	}
	width, _ := strconv.ParseUint(found[3], 10, 64)
	if found[2] != "" {
		width *= 2
	}
	t.counts[ldsBytes] += items * width / 8
}

// kind is what an instruction computes with float32, if it does.
type kind struct {
	metric   metric
	elements uint64 // of each work-item
	counted  bool
}

var (
	kinds = map[string]kind{} // by name of the instruction
	lds   = regexp.MustCompile(`^ds_(read|write)(2(?:st64)?)?_[biu](\d+)`)
	float = regexp.MustCompile(`^v_(pk_)?(fma|fmac|mac|mad|madak|madmk|add|sub|subrev|mul|exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)(_legacy)?_f32(_e32|_e64)?$`)
)

func kindOf(name string) kind {
	found := float.FindStringSubmatch(name)
	if found == nil {
		return kind{}
	}
	made := kind{f32Specials, 1, true}
	if found[1] != "" {
		made.elements = 2
	}
	switch found[2] {
	case "fma", "fmac", "mac", "mad", "madak", "madmk":
		made.metric = f32FMAs
	case "add", "sub", "subrev":
		made.metric = f32Adds
	case "mul":
		made.metric = f32Muls
	}
	return made
}

// countProgram counts an instruction of program control: s_endpgm, branches, and the rest.
func (t *tally) countProgram(opcode insts.Opcode) {
	switch {
	case opcode == 1:
		t.counts[wavefronts]++
	case opcode >= 2 && opcode <= 9:
		t.counts[saluInstructions]++
	}
}

// ignore has the methods of a tracer that does nothing.
type ignore struct{}

func (ignore) StartTask(tracing.Task)         {}
func (ignore) StepTask(tracing.Task)          {}
func (ignore) AddMilestone(tracing.Milestone) {}
func (ignore) EndTask(tracing.Task)           {}

// launchTracer sees when the driver starts a kernel and hears that it has ended.
type launchTracer struct {
	ignore
	*recorder
}

func (t *launchTracer) StartTask(task tracing.Task) {
	if task.What != "*driver.LaunchKernelCommand" {
		return
	}
	if t.launches == 0 {
		t.begin = t.engine.CurrentTime()
	}
	if t.watched != nil {
		t.watched.byCommand[task.ID].begin = t.engine.CurrentTime()
	}
	t.launches++
	t.active[task.ID] = true
}

func (t *launchTracer) EndTask(task tracing.Task) {
	if t.active[task.ID] {
		delete(t.active, task.ID)
		t.end = t.engine.CurrentTime()
		if len(t.active) == 0 {
			for id := range t.requests { // what is on its way counts as long as the launch runs
				t.answered(id)
			}
		}
		if t.watched != nil {
			t.watched.byCommand[task.ID].end = t.end
			t.watched.ended(task.ID)
		}
		t.ended.Add(1)
	}
}

// span is a time that is added up over wavefronts, units, or requests.
type span int

const (
	resident span = iota // wavefronts, from their dispatch to their end
	// What they do meanwhile, in the order of its metrics.
	ready    // an instruction is decoded and waits for its turn or its unit, or issues
	fetching // the next instruction is not there
	inVALU   // an instruction executes, before which the next one does not issue
	inSALU   // branches and scalar loads too
	inLDS
	inMemory  // until the unit has taken it, and the next instruction issues
	atWait    // in s_waitcnt and s_endpgm
	atBarrier // in s_barrier
	activeUnit
	atReads  // reads at controllers of the DRAM
	atWrites // and writes
	spans
)

// phaseOf is what a wavefront does that issues an instruction.
func phaseOf(inst *insts.Inst) (of span, known bool) {
	switch inst.ExeUnit {
	case insts.ExeUnitVALU:
		return inVALU, true
	case insts.ExeUnitScalar, insts.ExeUnitBranch:
		return inSALU, true
	case insts.ExeUnitLDS, insts.ExeUnitGDS:
		return inLDS, true
	case insts.ExeUnitVMem:
		return inMemory, true
	}
	of, known = waits[inst.Opcode]
	return of, known
}

// Opcodes of program control in which wavefronts wait: s_endpgm for stores that are on their way.
var waits = map[insts.Opcode]span{1: atWait, 10: atBarrier, 12: atWait}

// wave is a wavefront in a unit of the timing model.
type wave struct {
	on        *tally // of its launch
	came      sim.VTimeInSec
	phase     span
	known     bool // phase is one of those above
	since     sim.VTimeInSec
	wavefront *wavefront.Wavefront
	inst      string // task of the instruction that it issued last, while that executes
	arrived   bool   // at the barrier
}

// enter ends what a wavefront did, and begins another phase.
func (w *wave) enter(phase span, known bool, now sim.VTimeInSec) {
	if w.known && now > w.since {
		w.on.times[w.phase] += now - w.since
	}
	w.phase, w.known, w.since = phase, known, now
}

// next is what a wavefront does whose instruction has ended: it waits to issue the next one if that
// is in its buffer. A unit tells the end before or after it moves the program counter on; a branch
// empties the buffer.
func (w *wave) next() span {
	at, inst := w.wavefront.PC(), w.wavefront.Inst()
	if w.wavefront.State != wavefront.WfReady {
		at += uint64(inst.ByteSize)
	}
	held := w.wavefront.InstBufferStartPC + uint64(len(w.wavefront.InstBuffer))
	if inst.ExeUnit == insts.ExeUnitBranch || at+4 > held {
		return fetching
	}
	return ready
}

// unitTracer sees the instructions and wavefronts of a compute unit of the timing model.
type unitTracer struct {
	ignore
	*recorder
	waves map[string]*wave // by their tasks
	tasks map[string]*wave // by tasks of instructions and of their fetches
	since sim.VTimeInSec   // when the first of those came that are here
}

func (t *unitTracer) StartTask(task tracing.Task) {
	now := t.engine.CurrentTime()
	switch task.Kind {
	case "wavefront":
		if len(t.waves) == 0 {
			t.since = now
		}
		t.waves[task.ID] = &wave{on: &t.tally, came: now, phase: fetching, known: true, since: now}
	case "fetch":
		if here := t.waves[task.ParentID]; here != nil {
			t.tasks[task.ID] = here
		}
	case "inst":
		detail, ok := task.Detail.(map[string]any)
		if !ok {
			return
		}
		inst, isInst := detail["inst"].(*wavefront.Inst)
		issued, isWave := detail["wf"].(*wavefront.Wavefront)
		if !isInst || !isWave {
			return
		}
		on := t.of(issued.Packet)
		before := on.counts
		on.count(inst.Inst, issued.EXEC())
		if t.seen != nil {
			t.seen.countFor(issued.Wavefront.WG, &before, &on.counts)
		}
		here := t.waves[issued.UID]
		if here == nil {
			return
		}
		here.on = on // the task of a wavefront does not say whose it is
		phase, known := phaseOf(inst.Inst)
		turn := sim.VTimeInSec(1 / float64(t.frequency)) // in which it issues
		here.enter(ready, true, now)
		here.enter(phase, known, now+turn)
		here.wavefront, here.inst, here.arrived = issued, task.ID, false
		t.tasks[task.ID] = here
	}
}

func (t *unitTracer) EndTask(task tracing.Task) {
	now := t.engine.CurrentTime()
	if here := t.waves[task.ID]; here != nil {
		here.enter(resident, false, now)
		here.on.times[resident] += now - here.came
		delete(t.waves, task.ID)
		if len(t.waves) == 0 {
			t.times[activeUnit] += now - t.since
		}
		return
	}
	here := t.tasks[task.ID]
	if here == nil {
		return
	}
	switch {
	case here.inst != task.ID: // a fetch, or a load from which the wavefront went on
		if here.known && here.phase == fetching {
			here.enter(ready, true, now)
		}
	case here.phase == atBarrier && here.known && !here.arrived: // it ends again for all to go on
		here.arrived = true
		return
	default:
		here.enter(here.next(), true, max(now, here.since))
		here.inst = ""
	}
	delete(t.tasks, task.ID)
}

// cacheTracer sees what a cache finds.
type cacheTracer struct {
	ignore
	*recorder
	hits, reads metric
}

func (t *cacheTracer) StepTask(task tracing.Task) {
	if len(t.active) == 0 {
		return
	}
	what := task.Steps[0].What
	if t.reads < metrics {
		switch {
		case strings.HasPrefix(what, "read-"):
			t.counts[t.reads]++
		case strings.HasPrefix(what, "write-"):
			t.counts[t.reads+1]++
		}
	}
	switch what {
	case "read-hit", "write-hit":
		t.counts[t.hits]++
	case "read-miss", "write-miss":
		t.counts[t.hits+1]++
	case "read-mshr-hit", "write-mshr-hit":
		t.counts[t.hits+2]++
	}
}

// timed is a request whose time counts.
type timed struct {
	of    span
	since sim.VTimeInSec
}

// answered ends the time of a request.
func (r *recorder) answered(id string) {
	if ended, found := r.requests[id]; found {
		delete(r.requests, id)
		r.times[ended.of] += r.engine.CurrentTime() - ended.since
	}
}

// memoryTracer sees the requests that reach a DRAM controller, and their answers.
type memoryTracer struct {
	ignore
	*recorder
}

func (t *memoryTracer) StartTask(task tracing.Task) {
	if len(t.active) == 0 || task.Kind != "req_in" {
		return
	}
	switch request := task.Detail.(type) {
	case *mem.ReadReq:
		t.counts[dramReads]++
		t.counts[dramReadBytes] += request.AccessByteSize
		t.requests[task.ID] = timed{atReads, t.engine.CurrentTime()}
	case *mem.WriteReq:
		t.counts[dramWrites]++
		t.counts[dramWrittenBytes] += uint64(len(request.Data))
		t.requests[task.ID] = timed{atWrites, t.engine.CurrentTime()}
	}
}

func (t *memoryTracer) EndTask(task tracing.Task) { t.answered(task.ID) }

// table is launches.csv: the emulator knows no time, no caches and no DRAM. Columns of the
// all-reduce are there only if some step has one, and empty for the others.
type table struct {
	file    *os.File
	columns int // all of them
	counted int // of row.counts
	timing  bool
	queues  bool // several run launches at once
}

func newTable(path string, s *sharding, timing, queues bool) *table {
	head, counted := []string{"kernel", "host_seconds"}, int(emulated)
	if timing {
		head, counted = append(head, "seconds", "cycles"), int(metrics)
	}
	if queues = queues && timing; queues {
		head = append(head, "elapsed_seconds")
	}
	head = append(head, metricNames[:counted]...)
	reduced := func(r []reduction) bool { return len(r) > 0 }
	if slices.ContainsFunc(s.Reductions, reduced) {
		head = append(head, "all_reduce_launches", "all_reduce_instructions", "all_reduce_host_seconds",
			"all_reduce_bytes", "all_reduce_bus_bytes")
		if timing {
			head = append(head, "all_reduce_seconds")
		}
	}
	file, err := os.Create(path)
	if err != nil {
		fail(exitNoOutput, "launches.csv: cannot be made (%v); check the folder and its permissions", reason(err))
	}
	t := &table{file, len(head), counted, timing, queues}
	t.write([][]string{head})
	return t
}

// add writes the rows of a step at once.
func (t *table) add(rows []row) {
	var lines [][]string
	for _, r := range rows {
		line := append(r.cells(t), r.reduction.summary(t.timing)...)
		lines = append(lines, append(line, make([]string, max(0, t.columns-len(line)))...))
	}
	t.write(lines)
}

func (t *table) write(lines [][]string) {
	if err := csv.NewWriter(t.file).WriteAll(lines); err != nil {
		fail(exitNoOutput, "launches.csv: cannot be written (%v); check the space on the disk", reason(err))
	}
}

// cells are what is known of a row; the rest is empty.
func (r *row) cells(t *table) []string {
	line := []string{r.kernel, real(r.hostSeconds)}
	if t.timing {
		line = append(line, real(r.seconds), real(r.cycles))
	}
	if t.queues {
		line[1] = ""
		line = append(line, real(r.elapsed))
	}
	for m, value := range r.counts[:t.counted] {
		if t.queues && shared(metric(m)) {
			line = append(line, "")
		} else {
			line = append(line, strconv.FormatUint(value, 10))
		}
	}
	return line
}

// summary is what launches.csv tells of an all-reduce.
func (r *row) summary(timing bool) []string {
	if r == nil {
		return nil
	}
	line := []string{
		strconv.Itoa(r.launches), strconv.FormatUint(r.counts[instructions], 10), real(r.hostSeconds),
		real(r.reduced), real(r.reduced * 2 * float64(r.gpus-1) / float64(r.gpus)),
	}
	if timing {
		line = append(line, real(r.seconds))
	}
	return line
}

func real(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
