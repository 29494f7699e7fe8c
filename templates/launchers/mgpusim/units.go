// What compute units of the timing model hold, laid out for the machine that simulates them. A wavefront's
// registers are what it executes with, and its scoreboard says which of them wait for their results.

package main

import (
	"encoding/binary"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/insts"
	"github.com/sarchlab/mgpusim/v4/amd/protocol"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cu"
	"github.com/sarchlab/mgpusim/v4/amd/timing/wavefront"
)

const scalarRegisters = 3200 // of a compute unit, as its builder has them

// correctUnits corrects what MGPUSim 4.2.0 builds of compute units, where it computes wrong values
// silently:
//
//   - Those of the MI300A decode for GCN3, and take a load or store with a scalar base (most of what
//     clang makes) for one without: it would access wrong addresses.
//   - The lanes of a vector register file lie 256 registers apart, however many it has. Where it has
//     more, as in the MI300A, wavefronts write into registers of other lanes once they fill it. Here all
//     lanes of a register lie together.
func correctUnits(s *simulation.Simulation, o options) {
	decoder := newDecoder(o)
	for _, component := range s.Components() {
		unit, ok := component.(*cu.ComputeUnit)
		if !ok {
			continue
		}
		unit.Decoder = decoder
		for i := range unit.VRegFile {
			unit.VRegFile[i] = newVectorFile(o.registers)
		}
		unit.SRegFile = make(scalarFile, 4*scalarRegisters)
		unit.WfDispatcher = &dispatcher{unit.WfDispatcher, unit, map[*insts.KernelCodeObject]*insts.KernelCodeObject{}}
		waiting := inside(unit.VectorMemUnit, "postInstructionPipelineBuffer")
		waiting.Set(reflect.ValueOf(&memoryQueue{Buffer: waiting.Interface().(sim.Buffer), unit: unit}))
		if o.wide {
			unit.Scheduler = newScheduler(unit)
		}
	}
}

// vectorFile has the registers of a SIMD unit, all lanes of each together.
type vectorFile struct{ content []byte }

// newVectorFile has as many registers more as an instruction may read beyond the first.
func newVectorFile(registers int) *vectorFile {
	return &vectorFile{make([]byte, (registers+4)*rowNbytes)}
}

// of are the registers of a wavefront; it lies where a lane's bytes would.
func (f *vectorFile) of(offset int) []byte { return f.content[offset/4*rowNbytes:] }

func (f *vectorFile) place(access *cu.RegisterAccess) int {
	return (access.WaveOffset/4+int(access.Reg.RegType-insts.V0))*rowNbytes + 4*access.LaneID
}

func (f *vectorFile) Read(access cu.RegisterAccess) {
	at := f.place(&access)
	for left := access.Data[:min(len(access.Data), 4*max(access.RegCount, 1))]; len(left) > 0; at += rowNbytes {
		left = left[copy(left, f.content[at:at+4]):]
	}
}

func (f *vectorFile) Write(access cu.RegisterAccess) {
	at := f.place(&access)
	for left := access.Data[:4*max(access.RegCount, 1)]; len(left) > 0; at += rowNbytes {
		left = left[copy(f.content[at:at+4], left):]
	}
}

// scalarFile has the scalar registers of a compute unit.
type scalarFile []byte

func (f scalarFile) place(access *cu.RegisterAccess) []byte {
	at := access.WaveOffset + 4*access.Reg.RegIndex()
	return f[at : at+4*max(access.RegCount, 1)]
}

func (f scalarFile) Read(access cu.RegisterAccess) { copy(access.Data, f.place(&access)) }

func (f scalarFile) Write(access cu.RegisterAccess) {
	place := f.place(&access)
	copy(place, access.Data[:len(place)])
}

// registerPort is MGPUSim's way to the registers of a wavefront, a shorter one to vector registers: memory
// instructions read the address of each lane again for each line of memory that they need. What it returns is
// valid until it is called again.
type registerPort struct {
	*cu.CURegFileAccessor
	vectors []byte
	content [8]byte
}

func (p *registerPort) ReadReg(register *insts.Reg, count, lane, offset int) []byte {
	if !register.IsVReg() || count > 2 {
		return p.CURegFileAccessor.ReadReg(register, count, lane, offset)
	}
	at := int(register.RegType-insts.V0)*rowNbytes + 4*lane
	value := uint64(binary.LittleEndian.Uint32(p.vectors[at:]))
	if count == 2 {
		value |= uint64(binary.LittleEndian.Uint32(p.vectors[at+rowNbytes:])) << 32
	}
	binary.LittleEndian.PutUint64(p.content[:], value)
	return p.content[:]
}

// memoryQueue is where memory instructions of a compute unit wait to be cut into lines of memory. The unit
// has room for so many lines that are on their way. MGPUSim cuts the first instruction anew in each cycle,
// to find that there is none; this one says that nothing waits, for as long as there is none.
type memoryQueue struct {
	sim.Buffer
	unit  *cu.ComputeUnit
	first *wavefront.Inst
	lines int // that it needs
}

// mostLines is what an instruction needs, at most: four words of each lane, which may begin anywhere.
const mostLines = 2 * wavefrontSize

func (q *memoryQueue) Peek() any {
	item := q.Buffer.Peek()
	room := q.unit.InFlightVectorMemAccessLimit - len(q.unit.InFlightVectorMemAccess)
	if item == nil || room >= mostLines {
		return item
	}
	wave := (*wavefront.Wavefront)(reflect.ValueOf(item).FieldByName("wavefront").UnsafePointer())
	if wave.DynamicInst() != q.first {
		q.first, q.lines = wave.DynamicInst(), countLines(wave)
	}
	if q.lines > room {
		return nil
	}
	return item
}

// countLines is how many lines of memory an instruction reads or writes, as MGPUSim's coalescer cuts it.
func countLines(wave *wavefront.Wavefront) int {
	inst := wave.Inst()
	var words uint64
	switch inst.Opcode {
	case 21, 29:
		words = 2
	case 22, 30:
		words = 3
	case 23, 31:
		words = 4
	default:
		words = 1
	}
	base := uint64(int64(int32(inst.Offset0)))
	offsets := inst.Addr.RegCount == 1 // from a scalar base
	if offsets && inst.SAddr != nil {
		at := int(inst.SAddr.IntValue)
		base += wave.ReadOperand(insts.NewSRegOperand(at, at, 2), 0)
	}
	var found []uint64
	for left := wave.EXEC(); left != 0; left &= left - 1 {
		address := wave.ReadOperand(inst.Addr, bits.TrailingZeros64(left))
		if offsets {
			address &= math.MaxUint32
		}
		for word := range words {
			if line := (base + address + 4*word) / lineNbytes; !slices.Contains(found, line) {
				found = append(found, line)
			}
		}
	}
	return len(found)
}

// dispatcher gives wavefronts their registers: zeros, where MGPUSim leaves zeros behind at their end, in
// files of its own type alone. It is not to do so, and is told of no registers.
type dispatcher struct {
	cu.WfDispatcher
	unit *cu.ComputeUnit
	bare map[*insts.KernelCodeObject]*insts.KernelCodeObject // code objects without registers
}

func (d *dispatcher) DispatchWf(wave *wavefront.Wavefront, to protocol.WfDispatchLocation) {
	object := wave.CodeObject
	vectors := d.unit.VRegFile[to.SIMDID].(*vectorFile).of(to.VGPROffset)
	clear(vectors[:int(object.WIVgprCount)*rowNbytes])
	clear(d.unit.SRegFile.(scalarFile)[to.SGPROffset:][:4*int(object.WFSgprCount)])
	d.WfDispatcher.DispatchWf(wave, to)
	wave.RegAccessor = &registerPort{CURegFileAccessor: &cu.CURegFileAccessor{CU: d.unit, WF: wave}, vectors: vectors}
	if wave.ScoreboardData != nil {
		wave.ScoreboardData = &new(board).Scoreboard
	}
	if d.bare[object] == nil {
		made, meta := *object, *object.KernelCodeObjectMeta
		meta.WIVgprCount, meta.WFSgprCount = 0, 0
		made.KernelCodeObjectMeta = &meta
		d.bare[object] = &made
	}
	wave.CodeObject = d.bare[object]
}

// scheduler is MGPUSim's, but for its scoreboards: those look through all 361 places of each wavefront in
// every cycle, and here only what waits is looked at.
type scheduler struct {
	*cu.SchedulerImpl
	pools  []*[]*wavefront.Wavefront
	paused bool
	idle   int // cycles in which nothing happened
}

const mostIdle = 4 // cycles; SchedulerImpl's

func newScheduler(unit *cu.ComputeUnit) *scheduler {
	s := &scheduler{SchedulerImpl: unit.Scheduler.(*cu.SchedulerImpl)}
	for _, pool := range unit.WfPools {
		s.pools = append(s.pools, (*[]*wavefront.Wavefront)(inside(pool, "wfs").Addr().UnsafePointer()))
	}
	return s
}

func (s *scheduler) Pause() {
	s.paused = true
	s.SchedulerImpl.Pause()
}

func (s *scheduler) Resume() {
	s.paused = false
	s.SchedulerImpl.Resume()
}

// Run does what SchedulerImpl.Run does, in its order.
func (s *scheduler) Run() bool {
	progress := false
	if !s.paused {
		progress = s.tick()
		progress = s.EvaluateInternalInst() || progress
		progress = s.DecodeNextInst() || progress
		progress = s.DoIssue() || progress
		progress = s.DoFetch() || progress
	}
	if progress {
		s.idle = 0
	} else {
		s.idle++
	}
	return s.idle <= mostIdle
}

// tick lets a cycle pass for what waits.
func (s *scheduler) tick() bool {
	waited := false
	for _, pool := range s.pools {
		for _, wave := range *pool {
			board := (*board)(unsafe.Pointer(wave.ScoreboardData.(*cu.Scoreboard)))
			if issued := wave.DynamicInst(); issued != board.issued {
				board.issued = issued
				board.mark(issued.Inst)
			}
			if board.busy() {
				board.pass()
				waited = true
			}
		}
	}
	return waited
}

// board is a scoreboard that knows which of its registers wait.
type board struct {
	cu.Scoreboard // the first field: MGPUSim has the address of it
	issued        *wavefront.Inst
	vectors       [4]uint64 // a bit for each register
	scalars       [2]uint64
}

// mark finds what the scheduler has made busy for an instruction, in the last cycle.
func (b *board) mark(inst *insts.Inst) {
	if cu.GetScoreboardLatency(inst) == 0 {
		return
	}
	for _, each := range [2]*insts.Operand{inst.Dst, inst.SDst} {
		if each == nil || each.OperandType != insts.RegOperand || each.Register == nil {
			continue
		}
		first := each.Register.RegIndex()
		end := first + max(each.RegCount, 1)
		if each.Register.IsVReg() {
			for i := first; i < min(end, len(b.VGPRBusyUntil)); i++ {
				b.vectors[i/64] |= 1 << (i % 64)
			}
		} else if each.Register.IsSReg() {
			for i := first; i < min(end, len(b.SGPRBusyUntil)); i++ {
				b.scalars[i/64] |= 1 << (i % 64)
			}
		}
	}
}

// busy is AnyBusy.
func (b *board) busy() bool {
	return b.vectors[0]|b.vectors[1]|b.vectors[2]|b.vectors[3]|b.scalars[0]|b.scalars[1] != 0 ||
		b.SCCBusyUntil > 0 || b.VCCBusyUntil > 0 || b.EXECBusyUntil > 0
}

// pass is Tick.
func (b *board) pass() {
	for i := range b.vectors {
		b.vectors[i] = count(b.VGPRBusyUntil[64*i:], b.vectors[i])
	}
	for i := range b.scalars {
		b.scalars[i] = count(b.SGPRBusyUntil[64*i:], b.scalars[i])
	}
	b.SCCBusyUntil = max(b.SCCBusyUntil-1, 0)
	b.VCCBusyUntil = max(b.VCCBusyUntil-1, 0)
	b.EXECBusyUntil = max(b.EXECBusyUntil-1, 0)
}

// count counts down what waits, and tells what waits then.
func count(cycles []int, waiting uint64) uint64 {
	for left := waiting; left != 0; left &= left - 1 {
		at := bits.TrailingZeros64(left)
		if cycles[at]--; cycles[at] == 0 {
			waiting &^= 1 << at
		}
	}
	return waiting
}
